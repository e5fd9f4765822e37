"""A protection, and the edit of the source that switches it off. The product itself has no such switch.

An edit is a file below ``src/stockade``, a text that occurs in it exactly once, and its replacement.
"""

from __future__ import annotations

from dataclasses import dataclass

Edit = tuple[str, str, str]


@dataclass(frozen=True)
class Protection:
    """A protection. If ``beside`` names others, this one shows only when those are off as well."""

    name: str
    edits: tuple[Edit, ...]
    concerns: tuple[str, ...]
    """The attacks and guarantees to try first."""
    beside: tuple[str, ...] = ()
    given: tuple[Edit, ...] = ()
    """Edits that change the host facts for this trial, or let an attack get as far as this protection."""
    needs: tuple[str, ...] = ()
    """Facilities that the attacks need to notice, by the names in ``attacks/needs.py``."""
