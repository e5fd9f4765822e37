"""A bound for iterators inside iterators. CPython calls from one to the next in C, and a deep nest ends its stack.

The depth is found when an iterator is made, by following what CPython's collector knows of it. A script can still give
one generator to another later, by ``send`` for example. Only a cap on heap objects bounds such a nest.
"""

from __future__ import annotations

import itertools
from gc import get_referents
from types import GeneratorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stockade.embedded.boundary.meter import Meter

MOST_NESTED = 1000
_WIDE = frozenset({map, zip, itertools.zip_longest})
"""Types that keep their sources in a tuple."""
_GROUP: Any = type(next(itertools.groupby([1]))[1])


def _variable(value: Any) -> Any:
    """Return the object through which a function holds a variable of the function around it."""
    closure = (lambda: value).__closure__
    assert closure is not None
    return closure[0]


_VARIABLE: Any = type(_variable(1))
_TEE: Any = type(itertools.tee([])[0])
_TEE_DATA: Any = next(type(part) for part in get_referents(itertools.tee([])[0]) if not isinstance(part, type))
NESTABLE = _WIDE | {
    filter, enumerate, itertools.compress, itertools.islice, itertools.takewhile, itertools.dropwhile,
    itertools.filterfalse, itertools.starmap, itertools.accumulate, itertools.groupby, itertools.pairwise,
    itertools.cycle, _GROUP, _TEE, _TEE_DATA, GeneratorType, _VARIABLE,
}  # fmt: skip
"""Types of iterators that hold another one, and the variables through which a generator holds it."""


class Nesting:
    """The bound of one runtime."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def check(self, *sources: Any) -> None:
        """Refuse sources of a new iterator that are nested too deep. Pay for a walk over many of them."""
        level = {id(each): each for each in sources if type(each) in NESTABLE}
        depth = visited = 0
        while level:
            depth, visited = depth + 1, visited + len(level)
            if depth > MOST_NESTED:
                raise ValueError(f"iterators are nested deeper than {MOST_NESTED:,} in scripts")
            level = {id(part): part for each in level.values() for part in _sources(each)}
        if visited >= _FREE:
            self._meter.charge(visited // _FREE)


_FREE = 16


def _sources(iterator: Any) -> list[Any]:
    parts = get_referents(iterator)
    if type(iterator) in _WIDE:
        parts += [inner for part in parts if type(part) is tuple for inner in part]
    return [part for part in parts if type(part) in NESTABLE]
