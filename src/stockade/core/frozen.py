"""An immutable dictionary that can be pickled and written as JSON, unlike ``types.MappingProxyType``."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class FrozenDict(dict[_K, _V]):
    """A ``dict`` whose mutating methods raise ``TypeError``."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("this mapping is frozen")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> Any:
        """Pickle as a constructor call, because loading item by item would call a refused method."""
        return type(self), (dict(self),)

    def __deepcopy__(self, memo: Any) -> FrozenDict[_K, _V]:
        """Return itself: keys and values are plain immutable data."""
        return self
