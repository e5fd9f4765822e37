"""How fast a group may read: a rate for each disk, since the kernel knows no other.

Every disk of the host is bounded, whatever lies on it: a path need not tell which disk its bytes come from (overlays,
file systems on several disks). There is no rate of writes: what goes through the page cache is written later, in
version 1 in nobody's name and in version 2 in the name of the group that wrote to that file before.
Sources: cgroup-v2.rst (``io.max``), cgroup-v1/blkio-controller.rst of the kernel.
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
    """Return the file of a group and what to write into it for so many bytes a second; ``None`` is no bound."""
    if version == 1:
        return "blkio.throttle.read_bps_device", f"{disk} {rate or 0}"
    return "io.max", f"{disk} rbps={rate or 'max'}"


def try_all(group: str, version: int) -> str:
    """Return why not every disk can be slowed down for ``group``; the empty text says that they can."""
    there = found()
    if not there:
        return "there is no disk in sight to slow down"
    try:
        for disk in there:
            for rate in (_A_RATE, None):
                name, text = setting(version, disk, rate)
                files.write(f"{group}/{name}", text)
    except OSError as error:
        return error.strerror or str(error)
    return ""
