"""``heapq`` and ``bisect``: written here, because C code compares elements along a path that no price foresees.

Every comparison goes through the guard of ``<``, so nested elements pay for what they cost.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.kinds import FLAT, INTEGERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stockade.embedded.boundary.namespace import Namespace

_PLAIN = FLAT | INTEGERS


def heapq(space: Namespace) -> dict[str, Any]:
    """Return the members of ``heapq``."""
    heaps = _Heaps(space)
    return {
        "heappush": heaps.push, "heappop": heaps.pop, "heapreplace": heaps.replace, "heappushpop": heaps.push_and_pop,
        "heapify": heaps.heapify, "nlargest": heaps.largest, "nsmallest": heaps.smallest, "merge": heaps.merge,
    }  # fmt: skip


class _Heaps:
    """The functions of ``heapq`` for one runtime."""

    def __init__(self, space: Namespace) -> None:
        self._space, self._meter = space, space.meter
        self._less = _less(space)

    def _begin(self, heap: Any) -> None:
        if type(heap) is not list:
            raise TypeError(f"heap argument must be a list, not {type(heap).__name__}")
        self._meter.charge(1 + len(heap).bit_length() // 4)

    def push(self, heap: Any, item: Any, /) -> None:
        """Perform ``heappush``."""
        self._begin(heap)
        self._space.operators.fits_elements(len(heap) + 1)
        heap.append(item)
        self._rise(heap, 0, len(heap) - 1)

    def pop(self, heap: Any, /) -> Any:
        """Perform ``heappop``."""
        self._begin(heap)
        last = heap.pop()
        return self._exchanged(heap, last) if heap else last

    def replace(self, heap: Any, item: Any, /) -> Any:
        """Perform ``heapreplace``."""
        self._begin(heap)
        return self._exchanged(heap, item)

    def push_and_pop(self, heap: Any, item: Any, /) -> Any:
        """Perform ``heappushpop``."""
        self._begin(heap)
        return self._exchanged(heap, item) if heap and self._less(heap[0], item) else item

    def _exchanged(self, heap: list[Any], item: Any) -> Any:
        smallest, heap[0] = heap[0], item
        self._sink(heap, 0)
        return smallest

    def heapify(self, heap: Any, /) -> None:
        """Perform ``heapify``."""
        self._begin(heap)
        self._meter.charge(1 + len(heap))
        for place in reversed(range(len(heap) // 2)):
            self._sink(heap, place)

    def _sink(self, heap: list[Any], place: int) -> None:
        """Move the smaller child up at each level, and then the item from the bottom to where it belongs."""
        start, item, less = place, heap[place], self._less
        while (child := 2 * place + 1) < len(heap):
            if child + 1 < len(heap) and not less(heap[child], heap[child + 1]):
                child += 1
            heap[place] = heap[child]
            place = child
        heap[place] = item
        self._rise(heap, start, place)

    def _rise(self, heap: list[Any], start: int, place: int) -> None:
        item = heap[place]
        while place > start:
            parent = (place - 1) // 2
            if not self._less(item, heap[parent]):
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = item

    def largest(self, n: Any, values: Any, key: Any = None) -> Any:
        """Perform ``nlargest``."""
        return self._best(n, values, key, reverse=True)

    def smallest(self, n: Any, values: Any, key: Any = None) -> Any:
        """Perform ``nsmallest``."""
        return self._best(n, values, key, reverse=False)

    def _best(self, n: Any, values: Any, key: Any, *, reverse: bool) -> list[Any]:
        if index(n) <= 0:
            iter(values)  # what is not iterable is refused, and nothing else is looked at
            return []
        return self._space.ordering.ordered(values, key=key, reverse=reverse)[:n]

    def merge(self, *sources: Any, key: Any = None, reverse: Any = False) -> Iterator[Any]:
        """Perform ``merge``, one element after another."""
        self._space.iterating.nesting.check(*sources)
        return self._merged(sources, key, reverse=bool(reverse))

    def _merged(self, sources: tuple[Any, ...], key: Any, *, reverse: bool) -> Iterator[Any]:
        heads = [_Head(self._space.iterating.metered(each)) for each in sources]
        waiting = [head for head in heads if head.advance(key)]
        while waiting:
            best = waiting[0]
            for head in waiting[1:]:
                self._meter.tick()
                if self._less(best.key, head.key) if reverse else self._less(head.key, best.key):
                    best = head
            yield best.item
            if not best.advance(key):
                waiting.remove(best)


class _Head:
    """The next element of one source of ``merge``."""

    def __init__(self, source: Iterator[Any]) -> None:
        self._source = source
        self.item: Any = None
        self.key: Any = None

    def advance(self, key: Any) -> bool:
        """Take the next element; return whether there is one."""
        for item in self._source:
            self.item, self.key = item, item if key is None else key(item)
            return True
        return False


def _less(space: Namespace) -> Callable[[Any, Any], Any]:
    guard, operators = space.comparing.less, space.operators

    def less(left: Any, right: Any) -> Any:
        if type(left) in _PLAIN and type(right) in _PLAIN and not operators.has_large:
            return left < right
        return guard(left, right)

    return less


def bisect(space: Namespace) -> dict[str, Any]:
    """Return the members of ``bisect``."""
    less = _less(space)

    def search(values: Any, item: Any, lo: Any, hi: Any, key: Any, *, is_right: bool) -> int:
        if type(values) not in (list, tuple):
            raise TypeError("bisect needs a list or a tuple")
        if type(lo) is not int or (hi is not None and type(hi) is not int):
            raise TypeError("the bounds of bisect must be integers")
        if lo < 0:
            raise ValueError("lo must be non-negative")
        space.meter.charge(1 + len(values).bit_length())
        hi = len(values) if hi is None else hi
        while lo < hi:
            middle = (lo + hi) // 2
            found = values[middle] if key is None else key(values[middle])
            goes_left = less(item, found) if is_right else not less(found, item)
            lo, hi = (lo, middle) if goes_left else (middle + 1, hi)
        return int(lo)

    def searching(*, is_right: bool) -> Callable[..., int]:
        def guard(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> int:
            return search(a, x, lo, hi, key, is_right=is_right)

        return guard

    def inserting(*, is_right: bool) -> Callable[..., None]:
        def guard(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
            if type(a) is not list:
                raise TypeError("insort needs a list")
            place = search(a, x if key is None else key(x), lo, hi, key, is_right=is_right)
            space.bulk.list_insert(a, place, x)

        return guard

    left, right = searching(is_right=False), searching(is_right=True)
    put_left, put_right = inserting(is_right=False), inserting(is_right=True)
    return {
        "bisect": right, "bisect_left": left, "bisect_right": right, "insort": put_right, "insort_left": put_left,
        "insort_right": put_right,
    }  # fmt: skip
