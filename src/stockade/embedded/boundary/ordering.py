"""Sorting, smallest and largest: pay for the comparisons of all elements first, then let C code do the work."""

from __future__ import annotations

from itertools import compress, islice
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stockade.embedded.boundary.comparing import Comparing
    from stockade.embedded.boundary.operators import Operators

_MISSING = object()


class Ordering:
    """The ordering functions of one runtime."""

    def __init__(self, operators: Operators, comparing: Comparing) -> None:
        self.operators, self.comparing, self.meter = operators, comparing, operators.meter

    def ordered(self, values: Any, /, *, key: Any = None, reverse: Any = False) -> list[Any]:
        """Perform ``sorted``."""
        items = self._taken(values)
        if key is None:
            self.comparing.elements(items)
            return sorted(items, reverse=reverse)
        keys = self._keys(items, key)
        following = iter(keys).__next__
        return sorted(items, key=lambda _: following(), reverse=reverse)

    def smallest(self, *values: Any, key: Any = None, default: Any = _MISSING) -> Any:
        """Perform ``min``."""
        return self._extreme(min, values, key, default)

    def largest(self, *values: Any, key: Any = None, default: Any = _MISSING) -> Any:
        """Perform ``max``."""
        return self._extreme(max, values, key, default)

    def _extreme(self, choose: Callable[..., Any], values: tuple[Any, ...], key: Any, default: Any) -> Any:
        if len(values) == 2 and key is None and type(values[0]) is type(values[1]) is float:
            return choose(values)
        if not values:
            raise TypeError(f"{choose.__name__} expected at least 1 argument, got 0")
        if len(values) > 1 and default is not _MISSING:
            raise TypeError(f"Cannot specify a default for {choose.__name__}() with multiple positional arguments")
        best: list[tuple[Any, Any]] = []
        for batch in self._batches(values[0] if len(values) == 1 else values):
            keys = batch if key is None else self._called(key, batch)
            pairs = [*best, *zip(keys, batch, strict=True)]
            candidates = [pair[0] for pair in pairs]
            self.comparing.elements(candidates)
            following = iter(candidates).__next__
            best = [choose(pairs, key=lambda _, following=following: following())]
        if best:
            return best[0][1]
        if default is _MISSING:
            raise ValueError(f"{choose.__name__}() arg is an empty sequence")
        return default

    def _batches(self, values: Any) -> Iterator[list[Any]]:
        if type(values) in (list, tuple):
            if values:
                self.meter.charge(1 + len(values) // prices.NODES)
                yield list(values)
            return
        source = compress(values, self.meter.units)
        while batch := list(islice(source, 4096)):
            yield batch

    def _called(self, key: Any, items: list[Any]) -> list[Any]:
        tick = self.meter.tick
        return [key(item) for item in items if tick()]

    def _keys(self, items: list[Any], key: Any) -> list[Any]:
        keys = self._called(key, items)
        self.comparing.elements(keys)
        return keys

    def _taken(self, values: Any) -> list[Any]:
        if type(values) in (list, tuple):
            self.meter.charge(1 + len(values) // prices.NODES)
            return list(values)
        return [each for batch in self.operators.meter_batches(values) for each in batch]
