"""Guards of methods by name: ``x.join(y)`` in a script becomes a call of the guard of ``join``.

Each guard looks at the exact type of the receiver. For a built-in type it pays, bounds the result and performs the
method; for any other receiver it calls the method of that name, which is the script's own or a facade's.
"""

from __future__ import annotations

import datetime
from collections import Counter, OrderedDict
from fractions import Fraction
from functools import cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import attributes, prices
from stockade.embedded.boundary.kinds import BUILTIN, ITEM_VIEWS, KEY_VIEWS
from stockade.embedded.boundary.meter import is_script_function
from stockade.embedded.boundary.owned import defaultdict, deque

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_MISSING = object()


class Methods:
    """The guarded methods of one runtime."""

    def __init__(self, *sources: Any) -> None:
        self._texts, self._taken = sources[0], sources[1].taken
        self._key_of = sources[1].scales.key
        self._sources = sources
        self._performers = {name: self._bound(found) for name, found in _plan(*map(type, sources)).items()}
        self.guards = {name: self._guard(name, performers) for name, performers in self._performers.items()}

    def table(self) -> dict[str, Any]:
        """Return each guard by its name in woven code."""
        return {f"$m_{name}": guard for name, guard in self.guards.items()}

    def bound(self, value: Any, name: str) -> Any:
        """Return a guarded method that is not called at once."""
        if type(value) in BUILTIN and name not in self.guards:
            return self.keyed(getattr(value, name))
        if type(value) in BUILTIN or isinstance(value, tuple) or name in attributes.RECORDS:
            return partial(self.guards[name], value) if hasattr(value, name) else getattr(value, name)
        return getattr(value, name)

    def keyed(self, method: Any) -> Callable[..., Any]:
        """Return a method whose first argument is hashed, as a function that pays for the hash."""
        key_of = self._key_of

        def perform(*args: Any, **kwargs: Any) -> Any:
            return method(*map(key_of, args), **kwargs)

        return perform

    def of_type(self, kind: Any) -> dict[str, Any]:
        """Return the guarded methods that a facade of ``kind`` offers as functions."""
        found = {name: each[kind] for name, each in self._performers.items() if kind in each}
        return {name: self._of_type(kind, name, perform) for name, perform in found.items()}

    def _of_type(self, kind: Any, name: str, perform: Callable[..., Any]) -> Callable[..., Any]:
        guard, find = self.guards[name], self._performers[name].get

        def function(value: Any, /, *args: Any, **kwargs: Any) -> Any:
            if type(value) is kind:
                return perform(value, *args, **kwargs)
            is_alike = find(type(value), perform) == perform and name != "copy"  # a copy has the class of the value
            if isinstance(value, kind) and is_alike:
                return guard(value, *args, **kwargs)
            raise TypeError(f"{name!r} of {kind.__name__!r} does not apply to a {type(value).__name__!r} object")

        return function

    def _guard(self, name: str, performers: dict[Any, Callable[..., Any]]) -> Callable[..., Any]:
        find, taken, record = performers.get, self._taken, self._record
        of_tuples = getattr(tuple, name, _MISSING)

        def guard(value: Any, /, *args: Any, **kwargs: Any) -> Any:
            perform = find(type(value))
            if perform is None and isinstance(value, tuple) and getattr(type(value), name, None) is of_tuples:
                perform = find(tuple)
            if perform is not None:
                return perform(value, *args, **kwargs)
            if type(value) in BUILTIN and hasattr(value, name):
                raise AttributeError(f"{name!r} of {type(value).__name__!r} is not available in scripts")
            if name in attributes.RECORDS:
                return record(value, name, *map(taken, args) if name == "_make" else args, **kwargs)
            return getattr(value, name)(*args, **kwargs)

        return guard

    def _record(self, value: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Perform a method of a named tuple. As a function of its class, it would take any object for the tuple."""
        method = getattr(value, name)
        if type(method) is FunctionType and not is_script_function(method):
            raise AttributeError(f"{name!r} of a class is not available in scripts: call it on a named tuple")
        if isinstance(value, tuple):
            self._texts.meter.charge(len(value) // prices.NODES)
        return method(*args, **kwargs)

    def _bound(self, plan: tuple[tuple[Any, int, str], ...]) -> dict[Any, Callable[..., Any]]:
        linear = self._texts.linear
        return {
            kind: linear(kind, name) if source < 0 else getattr(self._sources[source], name)
            for kind, source, name in plan
        }


@cache
def _plan(*sources: Any) -> dict[str, tuple[tuple[Any, int, str], ...]]:
    """Return for each guarded name: the types that have it, and where its guard for each type is."""
    return {name: tuple(_places(name, sources)) for name in attributes.GUARDED}


def _places(name: str, sources: tuple[Any, ...]) -> Iterator[tuple[Any, int, str]]:
    for kind, prefix in _PREFIX.items():
        if not hasattr(kind, name):
            continue
        if kind in (str, bytes) and name in attributes.TEXT:
            yield kind, -1, name
        for number, source in enumerate(sources):
            if hasattr(source, f"{prefix}_{name}"):
                yield kind, number, f"{prefix}_{name}"


_PREFIX: dict[Any, str] = {
    str: "str", bytes: "bytes", list: "list", tuple: "list", deque: "deque", range: "range", dict: "dict", defaultdict:
    "dict", OrderedDict: "dict", Counter: "counter", set: "set", frozenset: "set", int: "int", bool: "int",
    float: "float",
    **dict.fromkeys(KEY_VIEWS | ITEM_VIEWS, "keys"),
    Fraction: "fraction",
    datetime.date: "moment", datetime.datetime: "moment", datetime.time: "moment", datetime.timedelta: "moment",
}  # fmt: skip
