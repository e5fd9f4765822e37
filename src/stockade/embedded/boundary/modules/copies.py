"""``copy``: of data only. An object of a script's class says how it is copied by a method of its own."""

from __future__ import annotations

from collections import Counter, OrderedDict
from enum import Enum
from operator import is_
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.classes import is_script_class
from stockade.embedded.boundary.kinds import BUILTIN, CONTAINERS
from stockade.embedded.boundary.owned import defaultdict, deque

if TYPE_CHECKING:
    from stockade.embedded.boundary.namespace import Namespace

_NEW: Any = object.__new__
_COPIED = (list, dict, set, deque, defaultdict, OrderedDict, Counter)
_ATOMS = (FunctionType, BuiltinFunctionType, type)


def copy(space: Namespace) -> dict[str, Any]:
    """Return the members of ``copy``."""
    copies = _Copies(space)
    return {"copy": copies.copy, "deepcopy": copies.deepcopy}


class _Copies:
    """Copies of values, node by node."""

    def __init__(self, space: Namespace) -> None:
        self._space = space

    def copy(self, value: Any) -> Any:
        """Perform ``copy``."""
        if type(value) in _COPIED:
            return self._space.bulk.list_copy(value)
        if type(value) in BUILTIN or isinstance(value, tuple | Enum):
            return value
        return self._instance(value, lambda item: item)

    def deepcopy(self, value: Any) -> Any:
        """Perform ``deepcopy``."""
        return self._deep(value, {})

    def _deep(self, value: Any, made: dict[int, Any]) -> Any:
        self._space.meter.charge(1)
        kind = type(value)
        if id(value) in made:
            return made[id(value)][0]
        if (kind not in CONTAINERS and kind in BUILTIN) or isinstance(value, (Enum, *_ATOMS)):
            return value
        if isinstance(value, tuple):
            items = [self._deep(each, made) for each in value]
            if all(map(is_, items, value)):
                return value
            new: Any = tuple(items) if kind is tuple else tuple.__new__(kind, items)
        elif kind in _COPIED:
            new = _empty(value)
            made[id(value)] = new, value
            self._fill(new, value, made)
        elif kind is frozenset:
            new = self._space.iterating.make_frozenset([self._deep(each, made) for each in value])
        else:
            new = self._instance(value, lambda item: self._deep(item, made))
        made[id(value)] = new, value
        return new

    def _fill(self, new: Any, value: Any, made: dict[int, Any]) -> None:
        if isinstance(new, dict):
            for key, item in value.items():
                new[self._space.scales.key(self._deep(key, made))] = self._deep(item, made)
        elif isinstance(new, set):
            for each in value:
                new.add(self._space.scales.key(self._deep(each, made)))
        else:
            for each in value:
                new.append(self._deep(each, made))

    def _instance(self, value: Any, of_item: Any) -> Any:
        kind = type(value)
        if (
            not is_script_class(kind)
            or isinstance(value, BaseException)
            or hasattr(kind, "__slots__")
            or not hasattr(value, "__dict__")
        ):
            raise TypeError(f"an object of type {kind.__name__!r} cannot be copied in scripts")
        if kind.__new__ is not _NEW:
            raise TypeError(
                f"an object of type {kind.__name__!r} has a __new__ of its own, and cannot be copied in scripts"
            )
        new = object.__new__(kind)
        new.__dict__.update({name: of_item(item) for name, item in value.__dict__.items()})
        return new


def _empty(value: Any) -> Any:
    """Return an empty container like ``value``."""
    if type(value) is defaultdict:
        return defaultdict(value.default_factory)
    return deque(maxlen=value.maxlen) if type(value) is deque else type(value)()
