"""Facades: what a script gets in the place of a module or a built-in type. No script can change one.

A facade is a class or an instance of a class whose metaclass refuses every change. Its attributes are a list that was
written down, never "all public names" of something.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Fixed(type):
    """The metaclass of classes that a script can reach and cannot change."""

    def __setattr__(cls, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"cannot set attribute {name!r} of {cls.__name__!r}")

    def __delattr__(cls, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete attribute {name!r} of {cls.__name__!r}")

    def __repr__(cls) -> str:
        return f"<class '{cls.__name__}'>"


class Locked(Fixed):
    """The metaclass of facades."""

    def __call__(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse a call."""
        raise TypeError(f"{cls.__name__!r} is not callable")


def module(name: str, members: Mapping[str, Any]) -> Any:
    """Return a facade of a module with exactly ``members``."""
    body = {key: _unbound(value) for key, value in members.items()}
    kind = Locked(name, (_Module,), body | {"__slots__": (), "__module__": "$facade"})
    made: Any = kind
    return object.__new__(made)


class _Module(metaclass=Locked):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"<module {type(self).__name__!r}>"


def is_module(value: Any) -> bool:
    """Return whether ``value`` is the facade of a module."""
    return isinstance(value, _Module)


def own(value: Any) -> Any:
    """Return a function of this runtime: a script can set attributes on it, so no two runtimes share it."""
    if type(value) is not FunctionType:
        return value
    copy = FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, value.__closure__)
    copy.__kwdefaults__ = value.__kwdefaults__
    return copy


def _unbound(value: Any) -> Any:
    return staticmethod(own(value)) if callable(value) and not isinstance(value, type) else value


class TypeFacade(Locked):
    """The metaclass of facades of types: calling one is a guard, and ``isinstance`` asks the real type."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a value that the guard of the type makes."""
        return cls.__make__(*args, **kwargs)  # type: ignore[attr-defined]

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__real__)  # type: ignore[attr-defined]

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(real(kind), cls.__real__)  # type: ignore[attr-defined]

    def __getitem__(cls, _parameters: Any) -> GenericAlias:
        kind = cls.__real__  # type: ignore[attr-defined]
        if kind not in (NameOnly, type) and not hasattr(kind, "__class_getitem__"):
            raise TypeError(f"type {cls.__name__!r} is not subscriptable")
        return GenericAlias(cls)

    __iter__ = None
    """Without this line, ``__getitem__`` would make each facade an iterable that never ends."""

    def __hash__(cls) -> int:
        return hash(cls.__name__)

    def __eq__(cls, other: object) -> bool:
        return True if cls is other else NotImplemented


def type_facade(name: str, kind: Any, make: Callable[..., Any], members: Mapping[str, Any] | None = None) -> Any:
    """Return a facade of the type ``kind``: ``make`` constructs a value, and ``members`` are its class attributes."""
    body = {key: _unbound(value) for key, value in (members or {}).items()}
    own = {"__slots__": (), "__real__": kind, "__make__": staticmethod(make), "__module__": "$facade"}
    return TypeFacade(name, (), body | own)


def real(kind: Any) -> Any:
    """Return the type behind a facade, or ``kind`` itself."""
    return kind.__dict__["__real__"] if isinstance(kind, TypeFacade) else kind


_NO_COMPARISON = "types with parameters cannot be compared or hashed in scripts"


class GenericAlias(metaclass=Fixed):
    """A generic type such as ``list[int]``, without its parameters. A script can call it, or derive a class from it."""

    __slots__ = ("__origin__",)

    def __init__(self, origin: Any) -> None:
        self.__origin__ = origin

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a value of the type."""
        return self.__origin__(*args, **kwargs)

    def __eq__(self, _other: object) -> bool:
        raise TypeError(_NO_COMPARISON)

    def __hash__(self) -> int:
        raise TypeError(_NO_COMPARISON)

    def __repr__(self) -> str:
        return f"{self.__origin__.__name__}[...]"


MOST_KINDS = 64


class UnionType(metaclass=Fixed):
    """A union of types such as ``int | str``, for ``isinstance``. CPython's own compares each pair without a price."""

    __slots__ = ("__kinds__",)

    def __init__(self, kinds: tuple[Any, ...]) -> None:
        self.__kinds__ = kinds

    def __eq__(self, other: object) -> bool:
        if type(other) is not UnionType:
            return NotImplemented
        return frozenset(self.__kinds__) == frozenset(other.__kinds__)

    def __hash__(self) -> int:
        return hash(frozenset(self.__kinds__))

    def __repr__(self) -> str:
        return " | ".join(map(_text, self.__kinds__))


def _text(kind: Any) -> str:
    if kind is type(None):
        return "None"
    return repr(kind) if type(kind) is GenericAlias else str(kind.__name__)


def is_kind(value: Any) -> bool:
    """Return whether ``|`` of ``value`` and a type makes a union."""
    return value is None or isinstance(value, type) or type(value) in (UnionType, GenericAlias)


def joined(left: Any, right: Any) -> Any:
    """Return the union of two types, or the type if both are the same. Raise ``TypeError`` above ``MOST_KINDS``."""
    kinds: list[Any] = []
    for value in (left, right):
        for kind in value.__kinds__ if type(value) is UnionType else (type(None) if value is None else value,):
            if not any(kind is each for each in kinds):
                kinds.append(kind)
    if len(kinds) > MOST_KINDS:
        raise TypeError(f"a union of more than {MOST_KINDS} types is not available in scripts")
    return kinds[0] if len(kinds) == 1 else UnionType(tuple(kinds))


class NameOnly:
    """Stands behind names of ``typing`` and ``collections.abc``. No value is an instance of it."""

    __slots__ = ()
