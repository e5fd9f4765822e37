"""What all parts have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from stockade.core.frozen import FrozenDict


class Part(BaseModel):
    """What every part has in common: frozen, strict, and nothing unknown in it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple, and leave all else to be refused."""
    return tuple(value) if isinstance(value, list) else value


def frozen(value: dict[Any, Any]) -> dict[Any, Any]:
    """Return the mapping, unchangeable."""
    return FrozenDict(value)
