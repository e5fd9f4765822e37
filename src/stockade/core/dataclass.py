"""``dataclass``, which makes a frozen class in a third of the time that the standard library takes.

The standard library compiles six methods of each frozen class from text, and the first run of a process makes some
sixty such classes. Here only ``__init__`` is compiled, and the others are closures. They do the same. Every other kind
of dataclass is the standard library's own, and so are ``field``, ``fields``, ``replace`` and ``asdict``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, fields, is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - the alias says that this module exports it
else:

    def dataclass(cls=None, /, **options):
        """Make ``cls`` a dataclass; see ``dataclasses.dataclass``."""

        def made(cls):
            if options != {"frozen": True} or any(map(is_dataclass, cls.__mro__[1:])):
                return dataclasses.dataclass(**options)(cls)
            return _frozen(cls)

        return made if cls is None else made(cls)


@dataclasses.dataclass(frozen=True)
class _Frozen:
    """Has the parameters of a frozen class, which ``dataclasses`` asks for when it makes a subclass of one."""


_LATER: Any = object()
"""Stands for the value of a field whose default is made for each instance."""


def _frozen(cls: Any) -> Any:
    """Make ``cls`` a frozen dataclass. A method that it defines itself stays."""
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    cls.__dataclass_params__ = vars(_Frozen)["__dataclass_params__"]
    own = vars(cls)
    for name, method in ({"__init__": _init(cls)} | _by_value(cls) | _immutable(cls)).items():
        if own.get(name) is None:  # a class with an ``__eq__`` of its own has ``None`` as ``__hash__``
            method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)
    return cls


def _init(cls: Any) -> Callable[..., None]:
    defaults, factories, parameters, lines = {}, {}, ["self"], ["_own = self.__dict__"]
    for each in fields(cls):
        name, value, default = each.name, each.name, ""
        if not each.init or each.kw_only:
            raise TypeError(f"{cls.__name__}.{name}: only dataclasses.dataclass makes a field like this")
        if each.default is not MISSING:
            defaults[name], default = each.default, f"=_defaults[{name!r}]"
        elif each.default_factory is not MISSING:
            factories[name], default = each.default_factory, "=_LATER"
            value = f"_factories[{name!r}]() if {name} is _LATER else {name}"
        parameters.append(name + default)
        lines.append(f"_own[{name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    scope: dict[str, Any] = {"_LATER": _LATER, "_defaults": defaults, "_factories": factories}
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__annotations__ = {each.name: each.type for each in fields(cls)} | {"return": None}
    return init


def _by_value(cls: Any) -> dict[str, Callable[..., Any]]:
    """Return the methods that show and compare an instance by its fields."""
    shown = [each.name for each in fields(cls) if each.repr]
    compared = _getter([each.name for each in fields(cls) if each.compare])
    hashed = _getter([each.name for each in fields(cls) if (each.compare if each.hash is None else each.hash)])

    def show(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({values})"

    def equals(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__repr__": show, "__eq__": equals, "__hash__": lambda self: hash(hashed(self))}


def _getter(names: list[str]) -> Callable[[Any], Any]:
    """Return a function that makes a tuple of the values of these attributes."""
    return attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)


def _immutable(cls: Any) -> dict[str, Callable[..., Any]]:
    """Return the methods that refuse a change of a field, and any change of an instance of ``cls`` itself."""
    names = frozenset(each.name for each in fields(cls))

    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": assign, "__delattr__": delete}
