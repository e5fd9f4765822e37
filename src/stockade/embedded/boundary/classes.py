"""Guards of classes: bases, ``type``, ``super``, ``isinstance``, attributes by name, and the names of things."""

from __future__ import annotations

import typing
from enum import Enum
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn

from stockade.embedded.boundary.attributes import FREE, UNWRITABLE, holder
from stockade.embedded.boundary.facades import (
    Fixed,
    GenericAlias,
    NameOnly,
    TypeFacade,
    UnionType,
    is_module,
    real,
    type_facade,
)
from stockade.embedded.boundary.meter import is_script_function
from stockade.embedded.boundary.rendering import MODULE

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.attributes import Attributes
    from stockade.embedded.boundary.rendering import Rendering

_MISSING = object()
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE, Include/object.h
_PLAIN_METHODS = frozenset({"__init__", "__init_subclass__", "__eq__", "__ne__", "__hash__"})
_UNNAMED = frozenset({"__doc__"})
MOST_BYTES_OF_A_BASE = 4096
"""Bytes of an instance of a base: one unit of fuel makes an instance, however many slots its class has."""
_OF_TUPLES = ("__len__", "__iter__", "__getitem__")


def is_script_class(kind: Any) -> bool:
    """Return whether ``kind`` is a class that the script made."""
    return isinstance(kind, type) and not isinstance(kind, Fixed) and kind.__dict__.get("__module__") == MODULE


class Classes:
    """The guarded operations on classes of one runtime."""

    def __init__(self, attributes: Attributes, rendering: Rendering) -> None:
        self._attributes, self._rendering = attributes, rendering
        self._facades: dict[Any, Any] = {}
        self._markers: dict[str, type] = {}
        self.type = self.facade("type", type, self.class_of)

    def table(self) -> dict[str, Any]:
        """Return each guard by its name in woven code."""
        return {
            "$bases": self.bases,
            "$super": self.of_super,
            "$class": self.class_of,
            "$name": self.name_of,
            "$init": self.init_of,
        }

    def facade(self, name: str, kind: Any, make: Callable[..., Any], members: dict[str, Any] | None = None) -> Any:
        """Return the facade of a type, and remember it for ``type(x)``."""
        made = type_facade(name, kind, make, members)
        self._facades[kind] = made
        return made

    def marker(self, name: str, *, takes_parameters: bool = False) -> Any:
        """Return a facade that a class can name as a base and that adds nothing, as ``Generic`` does."""
        taking = {"__class_getitem__": classmethod(lambda kind, _parameters: kind)} if takes_parameters else {}
        self._markers[name] = type(name, (), {"__slots__": (), "__module__": MODULE, **taking})
        return type_facade(name, self._markers[name], _refuse(name))

    def bases(self, special: tuple[str, ...], *values: Any) -> tuple[Any, ...]:
        """Return the bases for a class of the script that defines the ``special`` methods, or refuse them.

        A class of tuples may not say how many elements it has: guards pay by the length of the tuple that C code sees.
        """
        found = tuple(map(self.base, values))
        if any(kind.__basicsize__ > MOST_BYTES_OF_A_BASE for kind in found if kind is not typing.NamedTuple):
            raise TypeError("a class with this many slots cannot be a base in scripts")
        if any(kind is typing.NamedTuple or issubclass(kind, tuple) for kind in found):
            for name in _OF_TUPLES:
                inherited = (getattr(kind, name, None) for kind in found if kind is not typing.NamedTuple)
                if name in special or any(method not in (None, getattr(tuple, name)) for method in inherited):
                    raise TypeError(f"a named tuple cannot define {name!r} in scripts")
        return found

    def base(self, value: Any) -> Any:
        """Return a base for a class of the script, or refuse it."""
        if type(value) is GenericAlias:
            value = value.__origin__
        if value is object or is_script_class(value):
            return value
        if isinstance(value, TypeFacade):
            kind = real(value)
            if issubclass(kind, Enum) or kind in self._markers.values():
                return kind
            if kind is tuple and value.__name__ == "NamedTuple":
                return typing.NamedTuple
            raise TypeError(f"type {value.__name__!r} is not an acceptable base type in scripts")
        if isinstance(value, type) and issubclass(value, Exception) and bool(value.__flags__ & _IMMUTABLE):
            return value
        raise TypeError("this is not an acceptable base type in scripts")

    def class_of(self, *args: Any) -> Any:
        """Return ``type(value)``: a class of the script, an exception class, or a facade."""
        if len(args) != 1:
            raise TypeError("type() takes 1 argument in scripts")
        kind = type(args[0])
        found = self._facades.get(kind)
        if found is not None:
            return found
        if is_script_class(kind) or (issubclass(kind, BaseException) and _is_unchangeable(kind)):
            return kind
        if isinstance(args[0], type):
            return self.type
        name = "module" if is_module(args[0]) else kind.__name__
        return self.facade(name, kind, _refuse(name))

    def isinstance(self, value: Any, kinds: Any, /) -> bool:
        """Perform ``isinstance``."""
        if type(kinds) is tuple:
            self._rendering.scales.weigh(kinds)
            return any(self.isinstance(value, kind) for kind in kinds)
        if type(kinds) is UnionType:
            return isinstance(value, tuple(self._class(kind, "isinstance() arg 2") for kind in kinds.__kinds__))
        return isinstance(value, self._class(kinds, "isinstance() arg 2"))

    def issubclass(self, kind: Any, kinds: Any, /) -> bool:
        """Perform ``issubclass``."""
        if type(kinds) is tuple:
            self._rendering.scales.weigh(kinds)
            return any(self.issubclass(kind, each) for each in kinds)
        if type(kinds) is UnionType:
            return self.issubclass(kind, kinds.__kinds__)
        return issubclass(self._class(kind, "issubclass() arg 1"), self._class(kinds, "issubclass() arg 2"))

    @staticmethod
    def _class(kind: Any, place: str) -> Any:
        if not isinstance(kind, type):
            raise TypeError(f"{place} must be a class, a union, or a tuple of classes")
        if real(kind) is NameOnly:
            raise TypeError(f"{kind.__name__!r} is only a name for annotations in scripts")
        return real(kind)

    def of_super(self, receiver: Any, name: str) -> Any:
        """Return a special method of ``super()``: the script's own, or a harmless one of ``object``."""
        if name in ("__repr__", "__str__"):
            value = getattr(receiver, name)
            if is_script_function(getattr(value, "__func__", None)):
                return value
            return lambda: self._rendering.plain(receiver.__self__, name)
        value = getattr(receiver, name)
        if is_script_function(getattr(value, "__func__", value)):
            return value
        if name == "__new__":
            if value is tuple.__new__:
                raise AttributeError("'__new__' of a tuple takes any iterable, and is not available in scripts")
            return _maker(value)
        if name in _PLAIN_METHODS:
            return value
        raise AttributeError(f"'super' object has no attribute {name!r} in scripts")

    def init_of(self, value: Any) -> Any:
        """Return ``value.__init__`` of a class of the script or of an exception."""
        if is_script_class(value) or value is object or (isinstance(value, type) and issubclass(value, Exception)):
            return value.__init__
        method = value.__init__
        if type(method) is MethodType and is_script_function(method.__func__):
            return method
        raise AttributeError("attribute '__init__' is not available in scripts")

    @staticmethod
    def name_of(value: Any, name: str) -> Any:
        """Return ``value.__name__``. Scripts have no documentation texts, so ``__doc__`` is ``None``."""
        if name in _UNNAMED:
            return None
        if is_module(value):
            return type(value).__name__
        found = value.__name__
        if type(found) is not str:
            raise AttributeError("attribute '__name__' is not available")
        return found

    def callable(self, value: Any, /) -> bool:
        """Perform ``callable``."""
        return callable(value)

    def getattr(self, value: Any, name: Any, default: Any = _MISSING, /) -> Any:
        """Perform ``getattr``."""
        if default is _MISSING:
            return self._attributes.named(value, name)
        try:
            return self._attributes.named(value, name)
        except AttributeError:
            return default

    def hasattr(self, value: Any, name: Any, /) -> bool:
        """Perform ``hasattr``."""
        try:
            self._attributes.named(value, name)
        except AttributeError:
            return False
        return True

    def setattr(self, value: Any, name: Any, item: Any, /) -> None:
        """Perform ``setattr``."""
        self._writable(value, name)
        setattr(value, name, item)

    def delattr(self, value: Any, name: Any, /) -> None:
        """Perform ``delattr``."""
        self._writable(value, name)
        delattr(value, name)

    def _writable(self, value: Any, name: Any) -> None:
        self._attributes.check(name)
        if name == "args":
            holder(value)
        if name == "__name__" or name in UNWRITABLE or (type(value) in FREE and not is_script_function(value)):
            raise AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}")


def _is_unchangeable(kind: Any) -> bool:
    return isinstance(kind, Fixed) or bool(kind.__flags__ & _IMMUTABLE)


def _refuse(name: str) -> Callable[..., NoReturn]:
    def make(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError(f"{name!r} cannot be made in scripts")

    return make


def _maker(make: Any) -> Callable[..., Any]:
    def new(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_script_class(kind):
            raise TypeError("__new__ needs a class of the script")
        return make(kind, *args, **kwargs)

    return new
