"""One protection, and the edit of the source that switches it off. The switch is nowhere in the product.

An edit is a file below ``src/stockade``, a text that stands in it exactly once, and what stands there instead.
"""

from __future__ import annotations

from dataclasses import dataclass

Edit = tuple[str, str, str]


@dataclass(frozen=True)
class Protection:
    """One protection. Where ``beside`` names others, it is a second wall, which shows when those are off as well."""

    name: str
    edits: tuple[Edit, ...]
    concerns: tuple[str, ...]
    """The attacks and guarantees to try first."""
    beside: tuple[str, ...] = ()
    given: tuple[Edit, ...] = ()
    """What the host lacks, or has, in this trial."""
    needs: tuple[str, ...] = ()
    """What an attack must have here to notice, by the names in ``attacks/needs.py``."""
