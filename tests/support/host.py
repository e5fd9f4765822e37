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
    "guests",
    "name",
    "named",
    "read",
    "settle_warden",
    "state",
]


def guests(pid: int) -> list[int]:
    """Return the processes below ``pid`` that run a program of Python: not a warm interpreter and its copies, which have
    the same command line, and the socket open on which they are told what to do."""
    return [child for child in descendants(pid) if "/job/" in read(f"/proc/{child}/cmdline") and _is_sealed(child)]


def _is_sealed(pid: int) -> bool:
    held = descriptors(pid).values()
    return bool(held) and not any(link.startswith(("socket:", "anon_inode:[pidfd]")) for link in held)
