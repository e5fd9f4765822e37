"""Constructors of containers: each element and each hash is paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from stockade.embedded.boundary.bulk import Bulk
    from stockade.embedded.boundary.hashing import Hashing

_Made = TypeVar("_Made", set[Any], frozenset[Any], dict[Any, Any])


class Making:
    """The guarded constructors of one runtime."""

    def __init__(self, bulk: Bulk, hashing: Hashing) -> None:
        self.bulk, self.hashing, self.meter = bulk, hashing, bulk.meter

    def make_list(self, values: Any = (), /) -> list[Any]:
        """Perform ``list``."""
        return self.bulk.taken(values)

    def make_tuple(self, values: Any = (), /) -> tuple[Any, ...]:
        """Perform ``tuple``."""
        return values if type(values) is tuple else tuple(self.bulk.taken(values))

    def make_set(self, values: Any = (), /) -> set[Any]:
        """Perform ``set``."""
        return self._fitting(set(self.bulk.hashed(values)), 4)

    def make_frozenset(self, values: Any = (), /) -> frozenset[Any]:
        """Perform ``frozenset``."""
        return self._fitting(frozenset(self.bulk.hashed(values)), 4)

    def make_dict(self, *source: Any, **named: Any) -> dict[Any, Any]:
        """Perform ``dict``."""
        return self._fitting(dict(*(self.hashing.pairs(each) for each in source), **named), 8)

    def _fitting(self, made: _Made, words: int) -> _Made:
        self.bulk.operators.fits_elements(len(made) * words)
        return made
