"""The reserve: the part of the processors' time that the groups of one warden together leave to the rest of the host.

Guests that wake each other all the time can keep the kernel from running anything else for a minute, the warden and
kernel threads included. A quota on the tree of all groups ends such a stall within one period, since a group that has
used its quota does not run at all. The kernel keeps the same part back from real-time tasks. Sources:
sched-bwc.rst and sched-rt-group.rst of the kernel, and cgroup-v2.rst (``cpu.max``).
"""

from __future__ import annotations

import os

from stockade.linux import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.linux.cgroups.places import Hierarchy

PERIOD = 100_000
"""Microseconds: the kernel's default period for quotas."""
_PART = 0.95
"""The part of the processors that runs may use; ``sched_rt_runtime_us`` has the same default."""


def cores(hierarchy: Hierarchy) -> float:
    """Return how many cores the groups below ``hierarchy`` may use together, by the groups above and the processors."""
    bounds = [float(len(os.sched_getaffinity(0)))]
    path = hierarchy.path
    while os.path.exists(f"{path}/cgroup.procs"):
        bounds += _quota(path, hierarchy.version)
        path = os.path.dirname(path)
    return _PART * min(bounds)


def set_quota(path: str, version: int, cores: float | None) -> None:
    """Set the quota of the group at ``path``, in cores; ``None`` lifts it."""
    quota = None if cores is None else max(1000, int(cores * PERIOD))  # 1 ms is the least quota the kernel takes
    if version == 2:
        files.write(f"{path}/cpu.max", "max" if quota is None else f"{quota} {PERIOD}")
        return
    if quota is not None:
        files.write(f"{path}/cpu.cfs_period_us", str(PERIOD))
    files.write(f"{path}/cpu.cfs_quota_us", str(-1 if quota is None else quota))


def _quota(path: str, version: int) -> list[float]:
    """Return the quota of a group in cores, or nothing if it has none."""
    if version == 2:
        words = files.read(f"{path}/cpu.max").split()
    else:
        words = [files.read(f"{path}/{name}").strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return []  # "max", -1, or the root, which has no such file
    return [int(words[0]) / int(words[1])]
