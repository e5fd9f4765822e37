"""The result of one half of a trial."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Half:
    """The result of the control run or of the confined run: ``good`` if it went as it must."""

    good: bool
    what: str
    succeeded: bool = False
    """The confined run achieved the aim of the attack."""
    admitted: bool = False
    """The attack succeeded, and the receipt says that it is not held."""
