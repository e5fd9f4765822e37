"""``enum``, ``typing``, ``abc`` and ``collections.abc``: names for class statements and annotations."""

from __future__ import annotations

import enum as real_enum
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.classes import is_script_class
from stockade.embedded.boundary.facades import NameOnly, type_facade

if TYPE_CHECKING:
    from stockade.embedded.boundary.namespace import Namespace

_ANNOTATIONS = (
    "Any", "Callable", "ClassVar", "Dict", "Final", "FrozenSet", "Generator", "Hashable", "Iterable", "Iterator",
    "List", "Literal", "Mapping", "MutableMapping", "MutableSequence", "Optional", "Sequence", "Set", "Tuple", "Type",
    "Union", "Annotated", "Self", "NoReturn", "Deque", "DefaultDict", "Counter", "Collection", "Text", "AnyStr",
    "SupportsFloat", "SupportsInt", "Never",
)  # fmt: skip
_ABSTRACT = (
    "Callable", "Collection", "Container", "Generator", "Hashable", "Iterable", "Iterator", "Mapping",
    "MutableMapping", "MutableSequence", "MutableSet", "Sequence", "Set", "Sized",
)  # fmt: skip


def _annotation(name: str) -> Any:
    return type_facade(name, NameOnly, _cannot)


def _auto() -> Any:
    return real_enum.auto()


def _cannot(*_args: Any, **_kwargs: Any) -> Any:
    raise TypeError("a name for annotations cannot be called")


def enum(space: Namespace) -> dict[str, Any]:
    """Return the members of ``enum``. Flags, and kinds that are integers or text at the same time, are left out."""

    def unique(kind: Any) -> Any:
        if not is_script_class(kind):
            raise TypeError("unique needs a class of the script")
        return real_enum.unique(kind)

    return {"Enum": space.classes.facade("Enum", _enum(space), _cannot), "auto": _auto, "unique": unique}


class _Body(real_enum._EnumDict):
    """The body of an enumeration.

    CPython compares and adds the values before ``auto()``, so they must be plain. It prints the value of a member that
    is defined twice, however large.
    """

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self._member_names:  # type: ignore[attr-defined]
            raise TypeError(f"{key!r} is already defined in this enumeration")
        if any(isinstance(each, real_enum.auto) for each in (value if type(value) is tuple else (value,))):
            before: Any = self._last_values  # type: ignore[attr-defined]
            if not set(map(type, before)) <= _COUNTED:
                raise TypeError("auto() follows only numbers and text in scripts")
        super().__setitem__(key, value)


_COUNTED = frozenset({int, float, str, bool})


def _enum(space: Namespace) -> Any:
    """Return a base for enumerations whose metaclass pays for hashes and comparisons of values."""
    weigh, charge = space.scales.weigh, space.meter.charge

    class Priced(real_enum.EnumMeta):
        @classmethod
        def __prepare__(cls, name: str, bases: tuple[type, ...], **_: Any) -> Any:  # type: ignore[override]
            body = super().__prepare__(name, bases)
            body.__class__ = _Body
            return body

        def __new__(cls, name: str, bases: Any, body: Any) -> Any:
            values = [value for key, value in body.items() if not key.startswith("__")]
            charge(sum(map(weigh, values)) * max(1, len(values) // prices.NODES))
            return super().__new__(cls, name, bases, body)

        def __call__(cls, value: Any) -> Any:  # type: ignore[override]
            """Return the member with this value. Scripts cannot use the functional form, which makes a class."""
            charge(1 + weigh(value) * len(cls))
            return super().__call__(value)

        def __contains__(cls, value: Any) -> bool:
            charge(1 + weigh(value) * len(cls))
            return bool(super().__contains__(value))

        def __getitem__(cls, name: Any) -> Any:
            weigh(name)
            return super().__getitem__(name)

    return Priced("Enum", (real_enum.Enum,), Priced.__prepare__("Enum", (real_enum.Enum,)))


def typing(space: Namespace) -> dict[str, Any]:
    """Return the members of ``typing``. Annotations are never evaluated, so most of them are only names."""
    classes = space.classes
    members: dict[str, Any] = {name: _annotation(name) for name in _ANNOTATIONS}
    members |= {name: classes.marker(name, takes_parameters=True) for name in ("Generic", "Protocol")}
    variable = _annotation("TypeVar")
    return members | {
        "NamedTuple": type_facade("NamedTuple", tuple, _cannot), "TYPE_CHECKING": False,
        "TypeVar": lambda *_a, **_k: variable,
        "NewType": lambda _name, kind: kind, "cast": lambda _kind, value: value,
        "overload": lambda function: function, "final": lambda value: value, "runtime_checkable": lambda kind: kind,
    }  # fmt: skip


def abc(space: Namespace) -> dict[str, Any]:
    """Return the members of ``abc``. An abstract method does not keep its class from being used."""
    return {"ABC": space.classes.marker("ABC"), "abstractmethod": lambda function: function}


def collections_abc(space: Namespace) -> dict[str, Any]:
    """Return the members of ``collections.abc``, for annotations."""
    del space
    return {name: _annotation(name) for name in _ABSTRACT}
