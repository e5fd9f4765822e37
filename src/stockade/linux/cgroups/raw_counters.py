"""Read the raw counters of one run's control groups, whatever the version of their hierarchies."""

from __future__ import annotations

from stockade.linux import files
from stockade.linux.cgroups.counters import Files

PEAK_SOCKETS_V1 = "memory.kmem.tcp.max_usage_in_bytes"


class RawCounters(Files):
    """The counters of one run's groups, as the kernel reports them since the groups were made."""

    in_tree = True
    """Whether the tree of the warden's groups holds these, so that its CPU time includes theirs."""

    @property
    def counts_memory(self) -> bool:
        """Return whether a group counts memory."""
        return "memory" in self._paths

    @property
    def counts_sockets(self) -> bool:
        """Return whether a group counts buffers of TCP and UDP."""
        return "sockets" in self._paths

    @property
    def counts_cpu(self) -> bool:
        """Return whether a group counts CPU time."""
        return "cpuacct" in self._paths

    @property
    def unified(self) -> str | None:
        """Return the group's folder in the v2 hierarchy, or ``None``."""
        return next((path for path, version in self._versions if version == 2), None)

    def is_empty_but_for(self, residents: set[int]) -> bool:
        """Return whether the group contains exactly the ``residents``."""
        try:
            return all(
                set(map(int, files.read(f"{folder}/cgroup.procs").split())) == residents for folder in self.folders
            )
        except (OSError, ValueError):
            return False

    def _oom_kills(self) -> int | None:
        return self._field("memory", {1: "memory.oom_control", 2: "memory.events"}, "oom_kill")

    def _limit_hits(self) -> int | None:
        return self._field("memory", {2: "memory.events"}, "oom")

    def _forks_refused(self) -> int | None:
        return self._field("pids", {1: "pids.events", 2: "pids.events"}, "max")

    def _cpu(self) -> float | None:
        if self._version.get("cpuacct") == 1:
            spent = self._number("cpuacct", {1: "cpuacct.usage"})
            return None if spent is None else spent / 1e9
        spent = self._field("cpuacct", {2: "cpu.stat"}, "usage_usec")
        return None if spent is None else spent / 1e6

    def _peak_memory(self) -> int | None:
        return self._number("memory", {1: "memory.max_usage_in_bytes", 2: "memory.peak"})

    def _charged(self) -> int | None:
        """Return the bytes charged now, including the buffers that version 1 counts separately."""
        charged = self._number("memory", {1: "memory.usage_in_bytes", 2: "memory.current"})
        return None if charged is None else charged + self.uncounted_sockets()

    def uncounted_sockets(self) -> int:
        """Return the bytes of TCP and UDP buffers beyond the group's other memory; 0 in version 2, which counts them
        there.
        """
        return (self._number("memory", {1: "memory.kmem.tcp.usage_in_bytes"}) or 0) if "sockets" in self._paths else 0

    def _peak_sockets(self) -> int | None:
        """Return the peak of those buffers; ``None`` if no group counts them."""
        if "sockets" not in self._paths:
            return None
        return self._number("memory", {1: PEAK_SOCKETS_V1}) if self._version["memory"] == 1 else 0

    def _peak_processes(self) -> int | None:
        return self._number("pids", {1: "pids.peak", 2: "pids.peak"})

    def _forget_peak(self) -> bool:
        """Reset the memory peak; return whether the kernel could: v1 always, v2 since Linux 6.12."""
        if "memory" not in self._paths:
            return True
        try:
            if self._version["memory"] == 2:  # resets the peak of this one descriptor
                self._reset("memory.peak", b"reset")
            else:
                self._reset("memory.max_usage_in_bytes", b"0")
                if "sockets" in self._paths:
                    self._reset(PEAK_SOCKETS_V1, b"0")
        except OSError:
            return False
        return True
