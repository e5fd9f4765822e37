"""The base class of all parts."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from stockade.core.frozen import FrozenDict


class Part(BaseModel):
    """A part of a policy: frozen, strict, and without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple. Other values pass unchanged, and validation rejects them."""
    return tuple(value) if isinstance(value, list) else value


def frozen(value: dict[Any, Any]) -> dict[Any, Any]:
    """Return the mapping in an immutable form."""
    return FrozenDict(value)
