"""Limit how fast a group may read. The kernel only knows a rate for each disk.

The rate applies to every disk of the host, because a path does not reveal the disk behind it (overlays, file systems on
several disks). stockade sets no rate for writes, because the page cache writes later. Version 1 charges such writes to
no group, and version 2 charges the group that wrote to that file before. Sources: cgroup-v2.rst (``io.max``),
cgroup-v1/blkio-controller.rst of the kernel.
"""

from __future__ import annotations

import os

from stockade.linux import files

_BLOCKS = "/sys/block"
_A_RATE = 1 << 30


def found() -> list[str]:
    """Return the device number, ``MAJOR:MINOR``, of every whole disk that has a size."""
    try:
        names = sorted(os.listdir(_BLOCKS))
    except OSError:
        return []
    sized = (name for name in names if files.read(f"{_BLOCKS}/{name}/size").strip() not in ("", "0"))
    return [number for name in sized if (number := files.read(f"{_BLOCKS}/{name}/dev").strip())]


def setting(version: int, disk: str, rate: int | None) -> tuple[str, str]:
    """Return a group's file, and the text to write into it for ``rate`` bytes a second; ``None`` lifts the limit."""
    if version == 1:
        return "blkio.throttle.read_bps_device", f"{disk} {rate or 0}"
    return "io.max", f"{disk} rbps={rate or 'max'}"


def try_all(group: str, version: int) -> str:
    """Return why ``group`` cannot slow down every disk; an empty text means that it can."""
    there = found()
    if not there:
        return "no disk to slow down was found"
    try:
        for disk in there:
            for rate in (_A_RATE, None):
                name, text = setting(version, disk, rate)
                files.write(f"{group}/{name}", text)
    except OSError as error:
        return error.strerror or str(error)
    return ""
