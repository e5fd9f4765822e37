"""A dictionary that cannot change: picklable and JSON-ready, unlike ``types.MappingProxyType``."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class FrozenDict(dict[_K, _V]):
    """A ``dict`` whose methods that would change it raise ``TypeError``."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("this mapping is frozen")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> Any:
        """Pickle as a call, since item-by-item loading would meet the refusal."""
        return type(self), (dict(self),)

    def __deepcopy__(self, memo: Any) -> FrozenDict[_K, _V]:
        """Return itself: its keys and values are plain immutable data."""
        return self
