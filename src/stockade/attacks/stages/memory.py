"""The stage of memory that the host reserves: huge pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stockade.attacks.world import World

_RESERVED = Path("/proc/sys/vm/nr_hugepages")
_WANTED = 8


def free_huge_pages() -> int:
    """Return how many reserved huge pages of the host are free."""
    found = re.search(r"^HugePages_Free:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    return int(found[1]) if found else 0


def huge_pages(world: World) -> Iterator[None]:
    """Make sure that the host's pool has free huge pages.

    The stage reserves some if needed, and restores the setting.
    """
    del world
    if free_huge_pages():
        yield
        return
    before = _RESERVED.read_text(encoding="utf-8")
    try:
        _RESERVED.write_text(str(int(before) + _WANTED), encoding="utf-8")
        if not free_huge_pages():
            raise OSError("the kernel has no memory for a huge page")
        yield
    finally:
        _RESERVED.write_text(before, encoding="utf-8")
