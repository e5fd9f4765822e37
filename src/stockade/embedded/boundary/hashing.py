"""Guarded methods of sets, dictionaries and counters."""

from __future__ import annotations

from itertools import chain, repeat, starmap
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import DICTS, FLAT, INTEGERS, NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.bulk import Bulk

_GROWING = frozenset({"union", "update", "symmetric_difference", "symmetric_difference_update"})


def _of_sets(name: str) -> Callable[..., Any]:
    """Return the guard of a method of sets that takes other iterables."""

    def guard(self: Hashing, value: Any, /, *others: Any) -> Any:
        self.bulk.scales.weigh(value)
        given = [self.bulk.hashed(other) for other in others]
        if name in _GROWING:
            self.bulk.operators.fits_elements((len(value) + sum(map(len, given))) * 4)
        return getattr(value, name)(*given)

    return guard


class Hashing:
    """Methods of hashed containers, for one runtime."""

    def __init__(self, bulk: Bulk) -> None:
        self.bulk, self.meter = bulk, bulk.meter

    def keys_isdisjoint(self, value: Any, other: Any, /) -> bool:
        """Perform ``isdisjoint`` of a view of keys."""
        return bool(value.isdisjoint(self.bulk.hashed(other)))

    def pairs(self, source: Any) -> Any:
        """Return a mapping, or a list of pairs, whose keys are paid for."""
        if type(source) in DICTS:
            return self.bulk.hashed(source)
        if not isinstance(source, (list, tuple)) and hasattr(type(source), "keys"):
            raise TypeError("expected a dict, or pairs")
        found: list[tuple[Any, ...]] = []
        for item in self.bulk.taken(source):
            pair = tuple(self.bulk.taken(item)) if type(item) is not tuple else item
            if len(pair) != 2:
                raise ValueError(
                    f"dictionary update sequence element #{len(found)} has length {len(pair)}; 2 is required"
                )
            self.bulk.scales.key(pair[0])
            found.append(pair)
        return found

    def dict_update(self, value: Any, *source: Any, **named: Any) -> None:
        """Perform ``update``."""
        given = [self.pairs(each) for each in source]
        self.bulk.operators.fits_elements((len(value) + sum(map(len, given))) * 8)
        value.update(*given, **named)

    def dict_fromkeys(self, value: Any, keys: Any, item: Any = None, /) -> Any:
        """Perform ``fromkeys`` of an instance, or of ``dict`` for None."""
        kind: Any = dict if value is None else type(value)
        return kind.fromkeys(self.bulk.hashed(keys), item)

    def counter_update(self, value: Any, source: Any = None, /, **named: Any) -> None:
        """Perform ``update`` of a counter."""
        self._count(value.update, source, named)

    def counter_subtract(self, value: Any, source: Any = None, /, **named: Any) -> None:
        """Perform ``subtract`` of a counter."""
        self._count(value.subtract, source, named)

    def _count(self, perform: Callable[..., None], source: Any, named: dict[str, Any]) -> None:
        given = [] if source is None else [self.bulk.hashed(source)]
        for each in given:
            self.meter.charge(1 + len(each))
        for each in (perform.__self__, *given, named):  # type: ignore[attr-defined]
            if type(each) in DICTS:
                self._check_counts(each)
        perform(*given, **named)
        self.bulk.operators.accounted(perform.__self__)  # type: ignore[attr-defined]

    def _check_counts(self, values: Any) -> None:
        kinds = set(map(type, values.values()))
        if not kinds <= NUMBERS:
            raise TypeError("counts must be numbers in scripts")
        if self.bulk.scales.has_large or not kinds <= FLAT | INTEGERS:
            self.bulk.scales.weigh(values)

    def counter_elements(self, value: Any) -> Any:
        """Perform ``elements``: every count is paid for, because counts below one give nothing."""
        self.meter.charge(1 + len(value))
        return self.bulk.operators.metered(chain.from_iterable(starmap(repeat, value.items())))

    def counter_most_common(self, value: Any, n: Any = None) -> Any:
        """Perform ``most_common``."""
        items = self.bulk.ordering.ordered(value.items(), key=lambda pair: pair[1], reverse=True)
        return items if n is None else items[: max(0, n)]

    def counter_total(self, value: Any) -> Any:
        """Perform ``total``."""
        self.meter.charge(1 + len(value) // prices.NODES)
        self._check_counts(value)
        total: Any = 0
        for count in value.values():
            self.bulk.operators.pay_add(total, count)
            total += count
        return self.bulk.operators.accounted(total)

    set_difference, set_difference_update = _of_sets("difference"), _of_sets("difference_update")
    set_intersection, set_intersection_update = _of_sets("intersection"), _of_sets("intersection_update")
    set_isdisjoint, set_issubset, set_issuperset = map(_of_sets, ("isdisjoint", "issubset", "issuperset"))
    set_symmetric_difference = _of_sets("symmetric_difference")
    set_symmetric_difference_update = _of_sets("symmetric_difference_update")
    set_union, set_update = _of_sets("union"), _of_sets("update")
