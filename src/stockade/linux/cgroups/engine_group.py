"""The control groups of a container: an engine has made them and holds their limits, and we read the counters.

They lie where the engine puts them, outside of the caller's own group. They vanish with the container, so the readings
that a verdict needs are kept before its end.
"""

from __future__ import annotations

from stockade.linux import files
from stockade.linux.cgroups.counters import Counters
from stockade.linux.cgroups.group import Group
from stockade.linux.cgroups.places import SOCKETS_V1, Hierarchy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.launch import Groups

_COUNTS = ("cpuacct", "memory", "pids")


def find(pid: int, container: str) -> EngineGroup | None:
    """Return the groups of the process ``pid``, if it is in ``container``; ``None`` if it is not, or not visible.

    Every engine names a container's group after its id. So this shows that ``pid`` is the container's, on this host.
    """
    paths = {}
    for line in files.read(f"/proc/{pid}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if container in path:
            paths[names] = path
    if not paths:
        return None
    found: list[tuple[Hierarchy, str]] = []
    for line in files.read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        mountpoint, (kind, _, options) = files.unescape(left.split()[4]), right.split()[:3]
        for names, path in paths.items():
            folder = f"{mountpoint}{path}"
            if kind == "cgroup2" and not names:
                found.append(_place(2, folder, (*_COUNTS, "sockets") if _has_memory(folder) else ()))
            elif kind == "cgroup" and names and set(names.split(",")) <= set(options.split(",")):
                found.append(_place(1, folder, tuple(each for each in names.split(",") if each in _COUNTS)))
    return EngineGroup([(hierarchy, path) for hierarchy, path in found if hierarchy.controllers])


def _has_memory(folder: str) -> bool:
    try:
        return "memory" in files.read(f"{folder}/cgroup.controllers").split()
    except OSError:
        return False


def _place(version: int, path: str, controllers: tuple[str, ...]) -> tuple[Hierarchy, str]:
    return Hierarchy(version=version, path=path, controllers=controllers), path


class EngineGroup(Group):
    """Reads the groups of one container."""

    in_tree = False
    _kept: Counters | None = None
    _ran_out = False

    @property
    def is_kept(self) -> bool:
        """Whether the readings have been kept."""
        return self._kept is not None

    def begin_run(self, limits: Groups, own_tasks: int) -> None:
        """Begin a run. ``limits`` are those that the engine has set. A peak before this moment is forgotten."""
        if limits.memory is not None and "memory" in self._paths:
            self._memory = (limits.memory, limits.swap)
            if self._version["memory"] == 1:
                self._bound_sockets(limits.memory)
        self.begin(own_tasks)

    def _bound_sockets(self, memory: int) -> None:
        """Limit buffers of TCP and UDP, which version 1 counts only under a limit, and engines set none (runc 1.1).

        Without the right to do so, the meter counts them socket by socket.
        """
        try:
            self._set("memory", SOCKETS_V1, memory)
        except OSError:
            return
        self._paths["sockets"], self._version["sockets"] = self._paths["memory"], 1

    def keep(self) -> None:
        """Keep the readings of this moment, the first time: from now on ``read`` returns them."""
        if self._kept is None:
            self._kept = super().read()

    def note_oom(self) -> None:
        """Learn from the engine that the kernel killed a process for memory, when it was too late to read it."""
        self._ran_out = True

    def read(self) -> Counters:
        """Return the counts of this run."""
        counts = super().read() if self._kept is None else self._kept
        return counts.adding(oom_kills=max(1, counts.oom_kills or 0)) if self._ran_out else counts

    def oom_kills(self) -> int:
        """Return how many tasks the kernel killed because the container had used up its memory."""
        if self._ran_out:
            return 1
        return super().oom_kills() if self._kept is None else self._kept.oom_kills or 0

    def oom_outside(self) -> int:
        """Return how many tasks the kernel killed for memory below the container's limit."""
        return super().oom_outside() if self._kept is None else self._kept.oom_outside or 0

    def unthrottle(self) -> bool:
        """Leave the limits as they are: they are the engine's."""
        return False
