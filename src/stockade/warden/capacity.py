"""How many more runs the host can hold, by each resource that may be short."""

from __future__ import annotations

import os

from stockade.linux import cgroups, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MEMORY, _TASKS = 16 << 20, 8
"""The needs of a small run, its sandbox included: bytes; processes and threads."""
_COUNTERS = (  # limit and use, in the caller's own groups and those above them
    ("pids.max", "pids.current"),
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
_PAGES = ("total_inactive_file", "total_active_file"), ("inactive_file", "active_file")
"""Fields of ``memory.stat`` for pages of files, which the kernel reclaims before it kills: cgroup v1, cgroup v2."""


def capacities(memory: int = MEMORY) -> Iterable[tuple[int, str]]:
    """Yield how many more runs each resource allows, and the name of the resource."""
    for line in files.read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024 // memory, "memory (MemAvailable)"
    tasks = files.read("/proc/loadavg").split()  # "runnable/all" is the fourth (proc(5))
    for name in ("pid_max", "threads-max"):
        most = files.read(f"/proc/sys/kernel/{name}")
        if most and len(tasks) > 3:
            yield (int(most) - int(tasks[3].partition("/")[2])) // _TASKS, f"processes (kernel.{name})"
    for hierarchy in cgroups.find():
        folder = hierarchy.path
        while folder != "/":
            for limit, use in _COUNTERS:
                most, now = files.read(f"{folder}/{limit}").strip(), files.read(f"{folder}/{use}").strip()
                if most.isdigit() and now.isdigit():
                    left, each = int(most) - int(now), memory if limit.startswith("memory") else _TASKS
                    if limit.startswith("memory") and left < int(now):  # otherwise the pages make no difference
                        left += _pages(folder)
                    yield max(0, left) // each, f"what {folder}/{limit} allows"
            folder = os.path.dirname(folder)


def _pages(folder: str) -> int:
    """Return the bytes of file pages charged to a group and those below it."""
    held = dict(line.split() for line in files.read(f"{folder}/memory.stat").splitlines() if line.count(" ") == 1)
    names = next((names for names in _PAGES if names[0] in held), ())
    return sum(int(held[name]) for name in names)
