"""Guarded methods of lists, deques, dictionaries and sets, and the syntax that handles many elements at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import DICTS, SETS

if TYPE_CHECKING:
    from stockade.embedded.boundary.comparing import Comparing
    from stockade.embedded.boundary.operators import Operators
    from stockade.embedded.boundary.ordering import Ordering


class Bulk:
    """Operations of containers that visit many elements, for one runtime."""

    def __init__(self, operators: Operators, comparing: Comparing, ordering: Ordering) -> None:
        self.operators, self.comparing, self.ordering = operators, comparing, ordering
        self.scales, self.meter = operators.scales, operators.meter

    def _pay(self, values: Any) -> None:
        self.meter.charge(1 + len(values) // prices.NODES)

    def taken(self, values: Any) -> list[Any]:
        """Return the elements of any iterable as a list, each paid for."""
        if type(values) is list or type(values) is tuple:
            self._pay(values)
            return list(values)
        return [each for batch in self.operators.meter_batches(values) for each in batch]

    def hashed(self, values: Any) -> Any:
        """Return a container with the elements of ``values`` after paying for their hashes."""
        if type(values) in SETS or type(values) in DICTS:
            self._pay(values)
            self.scales.keys(values)
            return values
        found = self.taken(values)
        self.scales.keys(found)
        return found

    def list_copy(self, value: Any) -> Any:
        """Perform ``copy``."""
        self._pay(value)
        return value.copy()

    deque_copy = dict_copy = counter_copy = set_copy = list_copy

    def list_extend(self, value: Any, values: Any, /) -> None:
        """Perform ``extend``."""
        self.operators.extend(value, values)

    deque_extend = list_extend

    def deque_extendleft(self, value: Any, values: Any, /) -> None:
        """Perform ``extendleft``."""
        value.extendleft(self.taken(values))

    def list_insert(self, value: Any, place: Any, item: Any, /) -> None:
        """Perform ``insert``."""
        self.operators.fits_elements(len(value) + 1)
        self.meter.charge(1 + len(value) // prices.BYTES)
        value.insert(place, item)

    deque_insert = list_insert

    def list_pop(self, value: Any, *place: Any) -> Any:
        """Perform ``pop`` of a list."""
        if place and len(value) > prices.BYTES:
            self.meter.charge(len(value) // prices.BYTES)
        return value.pop(*place)

    deque_pop = list_pop

    def dict_pop(self, value: Any, *args: Any) -> Any:
        """Perform ``pop`` of a dictionary."""
        return value.pop(*args)

    counter_pop = set_pop = dict_pop

    def list_remove(self, value: Any, item: Any, /) -> None:
        """Perform ``remove``."""
        self.comparing.search(item, value)
        value.remove(item)

    deque_remove = list_remove

    def set_remove(self, value: Any, item: Any, /) -> None:
        """Perform ``remove`` of a set."""
        value.remove(self.scales.key(item))

    def list_count(self, value: Any, item: Any, /) -> int:
        """Perform ``count``."""
        self.comparing.search(item, value)
        return int(value.count(item))

    deque_count = list_count

    def list_index(self, value: Any, item: Any, /, *bounds: Any) -> int:
        """Perform ``index``."""
        self.comparing.search(item, value)
        return int(value.index(item, *bounds))

    deque_index = list_index

    def range_count(self, value: range, item: Any, /) -> int:
        """Perform ``count`` of a range."""
        return int(self.comparing.contains(item, value))

    def range_index(self, value: range, item: Any, /) -> int:
        """Perform ``index`` of a range."""
        if not self.comparing.contains(item, value):
            raise ValueError(f"{item!r} is not in range" if type(item) in (int, float) else "value is not in range")
        return value.index(int(item))

    def list_reverse(self, value: Any) -> None:
        """Perform ``reverse``."""
        self._pay(value)
        value.reverse()

    deque_reverse = list_reverse

    def deque_rotate(self, value: Any, steps: int = 1, /) -> None:
        """Perform ``rotate``."""
        self._pay(value)
        value.rotate(steps)

    def list_sort(self, value: list[Any], *, key: Any = None, reverse: Any = False) -> None:
        """Perform ``sort``."""
        value[:] = self.ordering.ordered(value, key=key, reverse=reverse)
