"""Kills for memory in the control group of this process, which runs without groups of their own share."""

from __future__ import annotations

from stockade.linux import files
from stockade.linux.cgroups.places import find

_NAMES = {1: "memory.oom_control", 2: "memory.events"}
_file: list[str] = []
"""The file with the count, once it was looked for; an empty text if the host shows none."""


def oom_kills() -> int:
    """Return how many tasks of the group the kernel has killed for memory; 0 if nothing counts them.

    On v2 the count includes the groups below (cgroup-v2.rst, ``memory.events``).
    """
    if not _file:
        groups = [group for group in find() if "memory" in group.controllers]
        _file.append(f"{groups[0].path}/{_NAMES[groups[0].version]}" if groups else "")
    for line in files.read(_file[0]).splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0
