"""The base class of all parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from stockade.core.frozen import FrozenDict
from stockade.core.loading import loading

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as _Meta
else:
    _Meta = type(BaseModel)


class _Checked(_Meta):
    """Makes a call of a class raise the errors of stockade. Validation inside of another part makes no such call."""

    if not TYPE_CHECKING:  # type checkers see the fields

        def __call__(cls, *values: Any, **fields: Any) -> Any:  # noqa: N805 - a metaclass
            """Make a part. Raises ``PolicyError`` with every mistake."""
            if values:
                raise TypeError(f"{cls.__name__} takes its fields by name, not {values[0]!r:.80}{cls.example}")
            try:
                return super().__call__(**fields)
            except ValidationError as error:
                with loading:
                    from stockade.policy.problems import problems  # only a mistake needs it
                raise problems(error, cls.place) from None


class Part(BaseModel, metaclass=_Checked):
    """A part of a policy: frozen, strict, and without unknown fields."""

    place: ClassVar[tuple[str, ...]] = ()
    """The field of a policy that holds the part, if callers can make it alone."""
    example: ClassVar[str] = ""
    """The end of the error about a value without a name."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple. Other values pass unchanged, and validation rejects them."""
    return tuple(value) if isinstance(value, list) else value


def frozen(value: dict[Any, Any]) -> dict[Any, Any]:
    """Return the mapping in an immutable form."""
    return FrozenDict(value)
