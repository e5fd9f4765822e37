"""What a test leaves behind on the host: looked at before and after, and compared."""

from __future__ import annotations

from stockade.attacks.outside import (
    Snapshot,
    abandoned_groups,
    adopt_orphans,
    descendants,
    descriptors,
    eventually,
    name,
    named,
    read,
    settle_warden,
    state,
)

__all__ = [
    "Snapshot",
    "abandoned_groups",
    "adopt_orphans",
    "descendants",
    "descriptors",
    "eventually",
    "name",
    "named",
    "read",
    "settle_warden",
    "state",
]
