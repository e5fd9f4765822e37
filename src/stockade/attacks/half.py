"""How one half of a trial went."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Half:
    """How one of the two runs went: as it must (``good``), and what was seen."""

    good: bool
    what: str
    succeeded: bool = False
    """The confined run: what the attack set out to do was done."""
    admitted: bool = False
    """It succeeded, and the receipt says that this is not held."""
