"""The settings of ``stockade.configure``, for the whole process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stockade.policy.model import PolicyLike
    from stockade.runs.hooks import Hooks

_values: dict[str, Any] = {"policy": None, "hooks": (), "labels": {}}


def policy() -> PolicyLike | None:
    """Return the policy of calls that name none; ``None`` means the default policy."""
    value: PolicyLike | None = _values["policy"]
    return value


def hooks() -> tuple[Hooks, ...]:
    """Return the hooks of every run of the process."""
    value: tuple[Hooks, ...] = _values["hooks"]
    return value


def labels() -> Mapping[str, str]:
    """Return the labels of every run of the process."""
    value: Mapping[str, str] = _values["labels"]
    return value


def labelled(own: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a run whose own labels are ``own``."""
    return {**labels(), **own}


def as_texts(named: Mapping[str, str]) -> tuple[str, ...]:
    """Return labels as a launch holds them."""
    return tuple(map("=".join, named.items()))


def replace(**values: Any) -> None:
    """Set ``policy``, ``hooks`` or ``labels``."""
    _values.update(values)
