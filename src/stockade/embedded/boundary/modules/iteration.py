"""``itertools``. What can skip or repeat without giving an element pays for each step."""

from __future__ import annotations

import itertools as real
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace

_WIDEST = 64


def itertools(space: Namespace) -> dict[str, Any]:
    """Return the members of ``itertools``."""
    metered, taken = space.iterating.metered, space.bulk.taken
    made = _Products(space)
    check = space.iterating.nesting.check

    def chained(sources: Any) -> Any:
        check(*sources) if type(sources) is tuple else check(sources)
        return running(sources)

    def running(sources: Any) -> Any:
        # A generator: a nest of chains that grows while they run then needs a frame at each level.
        for source in metered(sources):
            yield from metered(source)

    chain = space.classes.facade("chain", real.chain, lambda *sources: chained(sources), {"from_iterable": chained})

    def checked(make: Any) -> Any:
        def guard(*args: Any) -> Any:
            check(*args)
            return make(*args)

        return guard

    def zip_longest(*sources: Any, fillvalue: Any = None) -> Any:
        return real.zip_longest(*map(metered, sources), fillvalue=fillvalue)

    return {
        "accumulate": made.accumulate,
        "chain": chain,
        "combinations": made.combinations,
        "combinations_with_replacement": made.with_replacement,
        "permutations": made.permutations,
        "product": made.product,
        "compress": checked(lambda data, selectors: real.compress(metered(data), selectors)),
        "count": made.count,
        "cycle": made.cycle,
        "dropwhile": lambda test, source: real.dropwhile(test, metered(source)),
        "filterfalse": lambda test, source: real.filterfalse(test, metered(source)),
        "groupby": lambda source, key=None: real.groupby(metered(source), _keyed(space, key)),
        "islice": lambda source, *bounds: real.islice(metered(source), *bounds),
        "pairwise": checked(real.pairwise),
        "repeat": real.repeat,
        "starmap": lambda function, source: real.starmap(function, map(taken, metered(source))),
        "takewhile": checked(real.takewhile),
        "zip_longest": zip_longest,
        "tee": lambda source, n=2: _teed(metered(source), n),
        "batched": made.batched,
    }


def _teed(source: Any, count: Any) -> Any:
    if type(count) is not int or count > _WIDEST:
        raise ValueError(f"tee makes at most {_WIDEST} iterators in scripts")
    return real.tee(source, count)


def _keyed(space: Namespace, key: Any) -> Callable[[Any], Any]:
    """Return the key function of ``groupby``, whose results are compared."""

    def keyed(value: Any) -> Any:
        found = value if key is None else key(value)
        space.scales.weigh(found)
        return found

    return keyed


class _Products:
    """Functions that make tuples of a chosen width."""

    def __init__(self, space: Namespace) -> None:
        self._space, self._meter = space, space.meter

    def _wide(self, source: Any, width: int) -> Any:
        """Return an iterator that pays for the width of each tuple."""
        if width <= prices.NODES:
            return source
        return (each for each in self._space.iterating.metered(source) if self._paid(width))

    def _paid(self, width: int) -> bool:
        self._meter.charge(width // prices.NODES)
        return True

    def cycle(self, source: Any) -> Any:
        """Perform ``cycle``."""
        return real.cycle(self._space.bulk.taken(source))

    def _size(self, r: Any) -> int:
        if type(r) is not int:
            raise TypeError("expected an integer")
        self._space.operators.fits_elements(max(0, r))
        self._meter.charge(1 + abs(r) // prices.NODES)
        return r

    def combinations(self, source: Any, r: Any) -> Any:
        """Perform ``combinations``."""
        return self._wide(real.combinations(self._space.bulk.taken(source), self._size(r)), r)

    def with_replacement(self, source: Any, r: Any) -> Any:
        """Perform ``combinations_with_replacement``."""
        return self._wide(real.combinations_with_replacement(self._space.bulk.taken(source), self._size(r)), r)

    def permutations(self, source: Any, r: Any = None) -> Any:
        """Perform ``permutations``."""
        values = self._space.bulk.taken(source)
        width = len(values) if r is None else self._size(r)
        return self._wide(real.permutations(values, width), max(width, len(values)))

    def product(self, *sources: Any, repeat: Any = 1) -> Any:
        """Perform ``product``."""
        if self._size(repeat) < 0:
            raise ValueError("repeat argument cannot be negative")
        width = len(sources) * repeat
        self._space.operators.fits_elements(width)
        self._meter.charge(1 + width)
        return self._wide(real.product(*map(self._space.bulk.taken, sources), repeat=repeat), width)

    def accumulate(self, source: Any, function: Any = None, *, initial: Any = None) -> Any:
        """Perform ``accumulate`` by the guard of ``+``."""
        add = self._space.guards["$add"] if function is None else function
        self._space.iterating.nesting.check(source)
        return real.accumulate(source, add, initial=initial)

    def count(self, start: Any = 0, step: Any = 1) -> Any:
        """Perform ``count``: by the guard of ``+`` unless both numbers are small."""
        if {type(start), type(step)} <= {int, float} and not self._space.operators.has_large:
            return real.count(start, step)
        if not {type(start), type(step)} <= NUMBERS:
            raise TypeError("a number is required")
        return real.accumulate(real.repeat(step), self._space.guards["$add"], initial=start)

    def batched(self, source: Any, n: Any) -> Any:
        """Perform ``batched``, which CPython has from 3.12 on."""
        if self._size(n) < 1:
            raise ValueError("n must be at least one")
        metered = self._space.iterating.metered(source)
        return iter(lambda: tuple(real.islice(metered, n)), ())
