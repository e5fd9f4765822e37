"""The weight of a group: its share of a processor while other groups want it as well.

A new group has the weight of one ordinary task. Sources: cgroup-v2.rst (``cpu.weight``) and sched-design-CFS.rst
(``cpu.shares``) of the kernel.
"""

from __future__ import annotations

import os

from stockade.linux import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_TICKS = os.sysconf("SC_CLK_TCK")  # per second, in cpuacct.stat
_KERNEL_TIME = {1: ("cpuacct.stat", "system", _TICKS), 2: ("cpu.stat", "system_usec", 1_000_000)}
_FILES = {1: ("cpu.shares", 1024), 2: ("cpu.weight", 100)}

FULL = 1.0
"""The weight of a new group, and of an ordinary task."""
LIGHT = 1 / 64
"""The weight of one run's group beside the groups of other runs, after the run has proved to be a bad neighbour."""
LIGHT_TREE = 1 / 16
"""The weight of all runs of one caller beside the rest of the host, while only bad neighbours need a processor."""


def setting(version: int, part: float) -> tuple[str, str]:
    """Return the file of a group, and the text to write into it for ``part`` of the full weight."""
    name, full = _FILES[version]
    return name, str(round(full * part))


class Weight:
    """The weight of one run's group, and the kernel time that may justify a change."""

    def __init__(self, paths: Mapping[str, str], versions: Mapping[str, int]) -> None:
        """``paths`` and ``versions`` are those of the group, by controller."""
        self._paths = paths
        self._versions = versions
        self._is_light = False

    def lighten(self) -> None:
        """Lower the weight, so that other runs get a processor first."""
        self._is_light = True
        self._set(LIGHT)

    def restore(self) -> None:
        """Restore the weight of an ordinary group."""
        if self._is_light:
            self._is_light = False
            self._set(FULL)

    def kernel_seconds(self) -> float | None:
        """Return the CPU time that the group has spent in the kernel; ``None`` if no group counts it."""
        if "cpuacct" not in self._paths:
            return None
        name, field, unit = _KERNEL_TIME[self._versions["cpuacct"]]
        for line in files.read(f"{self._paths['cpuacct']}/{name}").splitlines():
            if line.startswith(f"{field} "):
                return int(line.split()[1]) / unit
        return None

    def _set(self, part: float) -> None:
        if "cpu" in self._paths:
            name, value = setting(self._versions["cpu"], part)
            files.write(f"{self._paths['cpu']}/{name}", value)
