"""One run's control groups: limits set, use read."""

from __future__ import annotations

import os

from stockade.linux import files
from stockade.linux.cgroups import disks, weights
from stockade.linux.cgroups.counters import Counters, Files
from stockade.linux.cgroups.freezer import FROZEN
from stockade.linux.cgroups.places import SOCKETS_V1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.launch import Groups
    from stockade.linux.cgroups.places import Hierarchy

RENEWABLE = 8 << 20
"""Bytes that an earlier run may leave charged: they count for the next one as well."""
PEAK_SOCKETS_V1 = "memory.kmem.tcp.max_usage_in_bytes"
_FEW_TASKS = 16
_HEADROOM = 16 << 20  # bytes: what a keeper touches when it ends a guest, many times over
_ABOUT = 1 << 20  # bytes: what the kernel charges in one go stays that far below a limit that it cannot meet
_CPU_PERIOD = 100_000  # microseconds, the kernel's default period for bandwidth control


class Group(Files):
    """One run's groups, a folder in each hierarchy."""

    def __init__(self, places: list[tuple[Hierarchy, str]]) -> None:
        super().__init__(places)
        self._before: dict[str, float] = {}
        self._most_processes = self._hidden_peak = 0
        self._least_tasks = 0
        self._limits: Groups | None = None
        self._throttled = False
        self._slowed: list[str] = []
        self._memory: tuple[int, int | None] | None = None
        self._roomy = self._loose = False
        self.weight = weights.Weight(self._paths, self._version)

    def open_cgroup_fds(self) -> list[int]:
        """Return a descriptor for each folder; whoever writes ``0`` to it enters the group."""
        return [os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for path in self.folders]

    def limit(self, groups: Groups) -> None:
        """Set the limits of this run; ``None`` leaves a resource without one."""
        self._limits, self._loose, self._roomy = groups, False, False
        memory, swap, processes, cores = groups.memory, groups.swap, groups.processes, groups.cores
        self._memory = None if memory is None or "memory" not in self._paths else (memory, swap)
        if self._memory is not None:
            self._limit_memory(*self._memory)
        if processes is not None and "pids" in self._paths:
            self._set("pids", "pids.max", processes)
        if cores is not None:
            self._throttled = True
            quota = max(1000, int(cores * _CPU_PERIOD))  # 1 ms is the least quota the kernel takes
            if self._version["cpu"] == 2:
                self._set("cpu", "cpu.max", f"{quota} {_CPU_PERIOD}")
            else:
                self._set("cpu", "cpu.cfs_period_us", _CPU_PERIOD)
                self._set("cpu", "cpu.cfs_quota_us", quota)
        if groups.io_read is not None and "io" in self._paths:
            self._slow_down(groups.io_read)

    def _slow_down(self, rate: int) -> None:
        self._slowed = disks.found()
        for disk in self._slowed:
            self._set("io", *disks.setting(self._version["io"], disk, rate))

    def _lift_rates(self) -> None:
        slowed, self._slowed = self._slowed, []
        for disk in slowed:
            self._set("io", *disks.setting(self._version["io"], disk, None))

    def _limit_memory(self, memory: int, swap: int | None) -> None:
        if self._version["memory"] == 2:
            # Not memory.oom.group: the nursery and the cell's init stand in the group too, and would be killed with
            # the guest before either could say what happened.
            self._set("memory", "memory.max", memory)
            if swap is not None and "swap" in self._paths:
                self._set("memory", "memory.swap.max", swap)
        else:
            self._set("memory", "memory.limit_in_bytes", memory)
            if swap is not None and "swap" in self._paths:
                self._set("memory", "memory.memsw.limit_in_bytes", memory + swap)
            if "sockets" in self._paths:
                self._set("memory", SOCKETS_V1, memory)

    def begin(self, own_tasks: int) -> None:
        """A run begins: readings are differences to now, and the limits that were set hold again, where the last one
        was let go of them for its end. ``own_tasks`` in the group are not the run's."""
        if self._loose and self._limits is not None:
            self.limit(self._limits)
        self.weight.restore()
        self._least_tasks = own_tasks + 1
        # What the last reading needs is opened here: later no descriptor may be free.
        held = 0 if self._forget_peak() else self._peak_memory() or 0
        self._hidden_peak = held if self._before else 0
        self._before = {
            "cpu": self._cpu() or 0.0,
            "oom_kills": self._oom_kills() or 0,
            "limit_hits": self._limit_hits() or 0,
            "forks_refused": self._forks_refused() or 0,
            "peak_processes": self._peak_processes() or 0,
        }
        self._most_processes = 0

    def read(self) -> Counters:
        """Return what has been counted for this run."""
        kills = self._since("oom_kills", self._oom_kills())
        return Counters(
            cpu_seconds=self.cpu_seconds(),
            peak_memory=self._own_peak(),
            peak_sockets=self._peak_sockets(),
            oom_kills=None if kills is None else self.oom_kills(),
            oom_outside=None if kills is None else self.oom_outside(),
            forks_refused=self._since("forks_refused", self._forks_refused()),
            peak_processes=self._since_peak(),
        )

    def look(self) -> int | None:
        """Sample what has no peak that could be begun anew; return how many tasks there are now."""
        tasks = self._number("pids", {1: "pids.current", 2: "pids.current"})
        self._most_processes = max(self._most_processes, tasks or 0)
        return tasks

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of every task of this run, the dead included."""
        spent = self._cpu()
        return None if spent is None else spent - self._before.get("cpu", 0.0)

    def oom_kills(self) -> int:
        """Return how many tasks the kernel has killed because the group's own memory was used up."""
        kills = self._since("oom_kills", self._oom_kills()) or 0
        return kills if kills and self._has_met_limit() else 0

    def oom_outside(self) -> int:
        """Return how many it has killed while the group was below its own limit: memory was used up outside of it."""
        kills = self._since("oom_kills", self._oom_kills()) or 0
        return 0 if kills and self._has_met_limit() else kills

    @property
    def counts_memory(self) -> bool:
        """Whether memory is counted here."""
        return "memory" in self._paths

    @property
    def counts_sockets(self) -> bool:
        """Whether buffers of TCP and UDP are counted here."""
        return "sockets" in self._paths

    @property
    def counts_cpu(self) -> bool:
        """Whether CPU time is counted here."""
        return "cpuacct" in self._paths

    def memory_held(self, concern: int) -> int:
        """Return the bytes charged now without pages of files, which the kernel takes back when others need them
        (cgroup-v1/memory.rst, cgroup-v2.rst: ``active_file``, ``inactive_file``). Less than ``concern`` in all is
        returned as it is, with them: that costs one read less."""
        charged = self._charged() or 0
        if charged < concern:
            return charged
        pages = 0
        for kind in ("active_file", "inactive_file"):
            pages += self._field("memory", {1: "memory.stat", 2: "memory.stat"}, kind) or 0
        return max(0, charged - pages)

    def left_behind(self, least: int) -> int:
        """Return the bytes charged now that are no process's own memory, and so can outlive who has asked for them:
        pages of files that were read or made, shared memory and buffers that the kernel has not taken down yet. Less
        than ``least`` in all is returned as it is: that costs one read less."""
        charged = self._charged() or 0
        if charged < least:
            return charged
        own = "rss" if self._version["memory"] == 1 else "anon"
        return max(0, charged - (self._field("memory", {1: "memory.stat", 2: "memory.stat"}, own) or 0))

    def forks_refused(self) -> int:
        """Return how often a task more was asked for than the group may have."""
        return self._since("forks_refused", self._forks_refused()) or 0

    @property
    def unified(self) -> str | None:
        """The folder of the group in the v2 hierarchy, if it has one there."""
        return next((path for path, version in self._versions if version == 2), None)

    def renew(self, residents: set[int]) -> bool:
        """Make the group ready for another run; return whether it can be.

        Nothing but the ``residents`` may be left in it, and little charged: file pages that a run has read stay
        charged, and would count for the next one. Its peak of memory must be one that can be begun anew.
        """
        try:
            if not self.is_empty_but_for(residents):
                return False
            charged = self._charged()
            if charged is not None and charged > RENEWABLE:
                return False
            if (self._peak_processes() or 0) > _FEW_TASKS:
                return False  # its peak would hide the next run's
            if self.unified is not None and not files.remove_folder(f"{self.unified}/{FROZEN}"):
                return False
            self.lift_limits()
        except (OSError, ValueError):
            return False
        return self._forget_peak()

    def is_empty_but_for(self, residents: set[int]) -> bool:
        """Return whether the group holds these processes and no others."""
        try:
            return all(
                set(map(int, files.read(f"{folder}/cgroup.procs").split())) == residents for folder in self.folders
            )
        except (OSError, ValueError):
            return False

    def lift_limits(self) -> None:
        """Set no limit any more."""
        self._memory = self._limits = None
        self._roomy = self._loose = False
        if self._version.get("memory") == 2:
            self._set("memory", "memory.max", "max")
            if "swap" in self._paths:
                self._set("memory", "memory.swap.max", "max")
        elif "memory" in self._paths:
            if "swap" in self._paths:
                self._set("memory", "memory.memsw.limit_in_bytes", -1)
            self._set("memory", "memory.limit_in_bytes", -1)
            if "sockets" in self._paths:
                self._set("memory", SOCKETS_V1, -1)
        if "pids" in self._paths:
            self._set("pids", "pids.max", "max")
        self._lift_quota()
        self._lift_rates()

    def unthrottle(self) -> bool:
        """Let what is left in the group have what it needs to end with: CPU, what a call has asked of a disk already,
        for which even a killed process waits, and some memory. Return whether to do so again while it lasts."""
        slowed = self._slowed
        self._loose = True
        try:
            self.weight.restore()
            if self._throttled:
                self._lift_quota()
            self._add_headroom()
            self._lift_rates()
        except OSError:
            pass  # a matter of time only
        self._slowed = slowed
        return bool(slowed)

    def _add_headroom(self) -> None:
        """Where the guest is being killed for all of the memory, and still holds it, whoever is to see to its end would
        be the next to be killed for a page more."""
        if self._memory is None or self._roomy:
            return
        memory, swap = self._memory
        self._roomy = True
        if self._version["memory"] == 1 and swap is not None and "swap" in self._paths:
            self._set("memory", "memory.memsw.limit_in_bytes", memory + _HEADROOM + swap)  # never below the other
        name = "memory.max" if self._version["memory"] == 2 else "memory.limit_in_bytes"
        self._set("memory", name, memory + _HEADROOM)

    def _lift_quota(self) -> None:
        self._throttled = False
        if self._version.get("cpu") == 2:
            self._set("cpu", "cpu.max", "max")
        elif "cpu" in self._paths:
            self._set("cpu", "cpu.cfs_quota_us", -1)

    def _since(self, name: str, value: int | None) -> int | None:
        return None if value is None else value - int(self._before.get(name, 0))

    def _oom_kills(self) -> int | None:
        return self._field("memory", {1: "memory.oom_control", 2: "memory.events"}, "oom_kill")

    def _limit_hits(self) -> int | None:
        return self._field("memory", {2: "memory.events"}, "oom")

    def _has_met_limit(self) -> bool:
        """Return whether a charge could not be met at the group's own limit. In version 2 the kernel counts that; in
        version 1 such a charge leaves the peak at the limit."""
        if self._memory is None:
            return False
        if self._version["memory"] == 2:
            return self._since("limit_hits", self._limit_hits()) != 0
        peak = self._peak_memory()
        return peak is None or peak >= self._memory[0] - _ABOUT

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
        """Return the bytes charged now, with the buffers that version 1 counts apart."""
        charged = self._number("memory", {1: "memory.usage_in_bytes", 2: "memory.current"})
        return None if charged is None else charged + self.uncounted_sockets()

    def uncounted_sockets(self) -> int:
        """Return the bytes that buffers of TCP and UDP hold now beside the group's other memory: none in version 2."""
        return (self._number("memory", {1: "memory.kmem.tcp.usage_in_bytes"}) or 0) if "sockets" in self._paths else 0

    def _peak_sockets(self) -> int | None:
        """Return the most that those buffers have held; ``None`` where nothing counts them."""
        if "sockets" not in self._paths:
            return None
        return self._number("memory", {1: PEAK_SOCKETS_V1}) if self._version["memory"] == 1 else 0

    def _peak_processes(self) -> int | None:
        return self._number("pids", {1: "pids.peak", 2: "pids.peak"})

    def _since_peak(self) -> int | None:
        """Return the most tasks of this run by the kernel's peak, ``None`` where that cannot be told."""
        peak = self._peak_processes()
        before = self._before.get("peak_processes", 0)
        if peak is None:
            return self._most_processes or None
        if peak > before:
            return peak
        return int(before) if before <= self._least_tasks else None  # hidden by an earlier run's peak

    def _own_peak(self) -> int | None:
        """Return the most memory of this run, ``None`` where an earlier one's peak may hide it."""
        peak = self._peak_memory()
        return None if peak is None or peak <= self._hidden_peak else peak

    def _forget_peak(self) -> bool:
        """Begin the peak of memory anew, where the kernel lets us: v1 always, v2 since Linux 6.12."""
        if "memory" not in self._paths:
            return True
        try:
            if self._version["memory"] == 2:  # it counts from now on for whoever reads through the same descriptor
                self._begin_anew("memory.peak", b"reset")
            else:
                self._begin_anew("memory.max_usage_in_bytes", b"0")
                if "sockets" in self._paths:
                    self._begin_anew(PEAK_SOCKETS_V1, b"0")
        except OSError:
            return False
        return True
