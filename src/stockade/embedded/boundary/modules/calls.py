"""``functools`` and ``operator``."""

from __future__ import annotations

import functools as real
import operator as real_operator
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.classes import is_script_class
from stockade.embedded.boundary.facades import Fixed
from stockade.embedded.boundary.meter import is_script_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace

_MISSING = object()
_GUARDED = {
    "add": "$add", "sub": "$sub", "mul": "$mul", "truediv": "$div", "floordiv": "$floordiv", "mod": "$mod",
    "pow": "$pow", "lshift": "$lshift", "rshift": "$rshift", "and_": "$and", "or_": "$or", "xor": "$xor",
    "neg": "$neg", "matmul": "$matmul", "eq": "$eq", "ne": "$ne", "lt": "$lt", "le": "$le", "gt": "$gt", "ge": "$ge",
}  # fmt: skip


def functools(space: Namespace) -> dict[str, Any]:
    """Return the members of ``functools``."""
    memory = _Memory(space)
    return {
        "reduce": _reduce(space), "partial": _partial, "wraps": _wraps, "lru_cache": memory.lru_cache,
        "cache": memory.cache, "cmp_to_key": _cmp_to_key, "total_ordering": _total_ordering,
    }  # fmt: skip


def _partial(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not callable(function):
        raise TypeError("the first argument must be callable")
    return lambda *more, **other: function(*args, *more, **{**kwargs, **other})


def _reduce(space: Namespace) -> Callable[..., Any]:
    def reduce(function: Any, values: Any, initial: Any = _MISSING, /) -> Any:
        metered = space.iterating.metered(values)
        return real.reduce(function, metered) if initial is _MISSING else real.reduce(function, metered, initial)

    return reduce


def _wraps(wrapped: Any) -> Callable[[Any], Any]:
    """Copy the name of a function, and nothing else of it."""

    def decorate(function: Any) -> Any:
        if is_script_function(function) and is_script_function(wrapped):
            function.__name__ = wrapped.__name__
            function.__qualname__ = wrapped.__qualname__
        return function

    return decorate


class _Memory:
    """Caches of results. The arguments are hashed, so their weight is paid for at each call."""

    def __init__(self, space: Namespace) -> None:
        self._space = space

    def cache(self, function: Any, /) -> Any:
        """Perform ``cache``."""
        return self._remembering(function, None)

    def lru_cache(self, maxsize: Any = 128, typed: Any = False) -> Any:
        """Perform ``lru_cache``."""
        if callable(maxsize) and type(typed) is bool:
            return self._remembering(maxsize, 128, typed=typed)
        if maxsize is not None and type(maxsize) is not int:
            raise TypeError("Expected first argument to be an integer, a callable, or None")
        most = None if maxsize is None else max(0, maxsize)
        return lambda function: self._remembering(function, most, typed=bool(typed))

    def _remembering(self, function: Any, most: int | None, *, typed: bool = False) -> Callable[..., Any]:
        if not callable(function):
            raise TypeError("the first argument must be callable")
        kept: dict[Any, Any] = {}
        key_of, tick = self._space.scales.key, self._space.meter.tick

        def remembering(*args: Any, **kwargs: Any) -> Any:
            tick()
            key = key_of(_key(args, kwargs, typed=typed))
            found = kept.get(key, _MISSING)
            if found is not _MISSING:
                if most is not None:
                    kept[key] = kept.pop(key)
                return found
            result = function(*args, **kwargs)
            if most != 0:
                kept[key] = result
            if most is not None and len(kept) > most > 0:
                del kept[next(iter(kept))]
            return result

        return remembering


def _key(args: tuple[Any, ...], named: dict[str, Any], *, typed: bool) -> Any:
    """Return the key of a call, equal for the same calls as CPython's. One int or text stands for itself."""
    if not typed and not named and len(args) == 1 and type(args[0]) in (int, str):
        return args[0]
    key = (*args, _MISSING, *(part for item in named.items() for part in item)) if named else args
    return (*key, _MISSING, *map(type, (*args, *named.values()))) if typed else key


class _Comparable(metaclass=Fixed):
    """A value that a function of the script compares. CPython's own would end the stack when a deep nest is freed."""

    __slots__ = ("__compare__", "__value__")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Any, value: Any) -> None:
        self.__compare__, self.__value__ = compare, value

    def _with(self, other: Any) -> Any:
        if type(other) is not _Comparable:
            raise TypeError("other argument must be K instance")
        return self.__compare__(self.__value__, other.__value__)

    def __lt__(self, other: Any) -> Any:
        return _Comparable._with(self, other) < 0

    def __gt__(self, other: Any) -> Any:
        return _Comparable._with(self, other) > 0

    def __eq__(self, other: Any) -> Any:
        return _Comparable._with(self, other) == 0

    def __le__(self, other: Any) -> Any:
        return _Comparable._with(self, other) <= 0

    def __ge__(self, other: Any) -> Any:
        return _Comparable._with(self, other) >= 0


def _cmp_to_key(compare: Any) -> Callable[[Any], Any]:
    return lambda value: _Comparable(compare, value)


def _total_ordering(kind: Any) -> Any:
    if not is_script_class(kind):
        raise TypeError("total_ordering needs a class of the script")
    return real.total_ordering(kind)


def operator(space: Namespace) -> dict[str, Any]:
    """Return the members of ``operator``."""
    members = {name: space.guards.get(guard) or space.names[guard] for name, guard in _GUARDED.items()}
    attribute = space.attributes.named

    item_of = space.names["$item"]

    def itemgetter(*items: Any) -> Callable[[Any], Any]:
        if not items:
            raise TypeError("itemgetter expected 1 argument, got 0")
        if len(items) == 1:
            return lambda value: item_of(value, items[0])
        return lambda value: tuple(item_of(value, item) for item in items)

    def attrgetter(*names: Any) -> Callable[[Any], Any]:
        if not names or not {type(name) for name in names} <= {str}:
            raise TypeError("attrgetter takes names of attributes, each a str")

        def one(value: Any, dotted: str) -> Any:
            for name in dotted.split("."):
                value = attribute(value, name)
            return value

        return lambda value: one(value, names[0]) if len(names) == 1 else tuple(one(value, name) for name in names)

    def methodcaller(name: Any, /, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        if type(name) is not str:
            raise TypeError("method name must be a string")
        return lambda value: attribute(value, name)(*args, **kwargs)

    return members | {
        "itemgetter": itemgetter, "attrgetter": attrgetter, "methodcaller": methodcaller, "not_": real_operator.not_,
        "is_": real_operator.is_, "is_not": real_operator.is_not,
    }  # fmt: skip
