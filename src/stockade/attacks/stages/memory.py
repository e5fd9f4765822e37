"""Memory of the host that it keeps for programs that ask for it by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stockade.attacks.world import World

_RESERVED = Path("/proc/sys/vm/nr_hugepages")
_WANTED = 8


def free_huge_pages() -> int:
    """Return how many huge pages the host has reserved that nobody uses."""
    found = re.search(r"^HugePages_Free:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    return int(found[1]) if found else 0


def huge_pages(world: World) -> Iterator[None]:
    """Huge pages in the host's pool. The stage reserves some where none is free, and gives them back."""
    del world
    if free_huge_pages():
        yield
        return
    before = _RESERVED.read_text(encoding="utf-8")
    try:
        _RESERVED.write_text(str(int(before) + _WANTED), encoding="utf-8")
        if not free_huge_pages():
            raise OSError("the kernel finds no room for a huge page")
        yield
    finally:
        _RESERVED.write_text(before, encoding="utf-8")
