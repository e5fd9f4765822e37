"""``heapq`` and ``bisect``: every comparison goes through a guard, so nested elements pay for what they cost."""

from __future__ import annotations

import bisect as real_bisect
import heapq as real_heapq
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.kinds import FLAT, INTEGERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace


def _paying(space: Namespace, perform: Callable[..., Any]) -> Callable[..., Any]:
    def guard(heap: Any, *items: Any) -> Any:
        if type(heap) is not list:
            raise TypeError(f"heap argument must be a list, not {type(heap).__name__}")
        _pay_path(space, heap, items)
        return perform(heap, *items)

    return guard


def _pay_path(space: Namespace, heap: list[Any], items: tuple[Any, ...]) -> None:
    """Pay for the comparisons along one path of the heap: with the new item, or with the last one."""
    space.meter.charge(1 + len(heap).bit_length() // 4)
    moving = [*items, *heap[-1:]]
    if not {type(each) for each in moving} <= FLAT | INTEGERS:
        space.meter.charge(sum(map(space.scales.weigh, moving)) * max(1, len(heap).bit_length()) // 4)


def heapq(space: Namespace) -> dict[str, Any]:
    """Return the members of ``heapq``."""
    names = ("heappush", "heappop", "heapreplace", "heappushpop")

    def heapify(heap: Any) -> None:
        if type(heap) is not list:
            raise TypeError(f"heap argument must be a list, not {type(heap).__name__}")
        space.comparing.elements(heap)
        real_heapq.heapify(heap)

    def largest(n: Any, values: Any, key: Any = None) -> Any:
        return space.ordering.ordered(values, key=key, reverse=True)[: max(0, n)]

    def smallest(n: Any, values: Any, key: Any = None) -> Any:
        return space.ordering.ordered(values, key=key)[: max(0, n)]

    def merge(*sources: Any, key: Any = None, reverse: Any = False) -> Any:
        everything = [each for source in sources for each in space.bulk.taken(source)]
        return iter(space.ordering.ordered(everything, key=key, reverse=reverse))

    return {name: _paying(space, getattr(real_heapq, name)) for name in names} | {
        "heapify": heapify, "nlargest": largest, "nsmallest": smallest, "merge": merge,
    }  # fmt: skip


def bisect(space: Namespace) -> dict[str, Any]:
    """Return the members of ``bisect``."""

    def searching(perform: Callable[..., Any]) -> Callable[..., Any]:
        def guard(values: Any, item: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
            if type(values) not in (list, tuple):
                raise TypeError("bisect needs a list or a tuple")
            space.meter.charge(1 + space.scales.weigh(item) * len(values).bit_length() + len(values) // 4096)
            return perform(values, item, lo, hi, key=key)

        return guard

    names = ("bisect", "bisect_left", "bisect_right", "insort", "insort_left", "insort_right")
    return {name: searching(getattr(real_bisect, name)) for name in names}
