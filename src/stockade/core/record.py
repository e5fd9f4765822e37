"""Frozen records for the modules that must start in milliseconds: importing ``dataclasses`` alone takes ten.

``class Point(Record): x: int; y: int = 0`` takes its fields as keywords, and compares and prints by value.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_options):
        """Stand in for ``typing.dataclass_transform``, which tells type checkers what ``Record`` does."""
        return lambda cls: cls


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record:
    """Base class of records. The annotations of a class are its fields, and its attributes are their defaults."""

    _fields: tuple[str, ...] = ()
    _names: frozenset[str] = frozenset()

    def __init_subclass__(cls) -> None:
        """Collect the fields, those of a base record first."""
        cls._fields = (*cls._fields, *vars(cls).get("__annotations__", ()))
        cls._names = frozenset(cls._fields)

    def __init__(self, **values: Any) -> None:
        for name in self._fields:
            if name in values:
                object.__setattr__(self, name, values.pop(name))
            elif not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} lacks {name}")
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse every assignment: a record is immutable."""
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        """Compare by type and fields."""
        return type(other) is type(self) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        """Hash by type and fields; every field must be hashable."""
        return hash((type(self), *self.as_dict().values()))

    def __repr__(self) -> str:
        """Return the call that makes the record."""
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.as_dict().items())})"

    def adding(self, **values: Any) -> Self:
        """Return a copy with other values for some fields. Raises ``TypeError`` for a name that is not a field."""
        if not self._names.issuperset(values):
            raise TypeError(f"{type(self).__name__} has no {', '.join(values.keys() - self._names)}")
        other = object.__new__(type(self))
        vars(other).update(vars(self), **values)
        return other

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name; records inside stay records."""
        return {name: getattr(self, name) for name in self._fields}
