"""Set the limits of one run's control groups, and read their counters."""

from __future__ import annotations

import os

from stockade.linux import files
from stockade.linux.cgroups import disks, reserve, weights
from stockade.linux.cgroups.counters import Counters
from stockade.linux.cgroups.freezer import FROZEN
from stockade.linux.cgroups.places import SOCKETS_V1, Hierarchy
from stockade.linux.cgroups.raw_counters import RawCounters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.launch import Groups

RENEWABLE = 8 << 20
"""Bytes that an earlier run may leave charged. They count for the next run as well."""
_FEW_TASKS = 16
_HEADROOM = 16 << 20  # bytes: many times the memory that init or worker touches to end a guest
_ONE_CHARGE = 1 << 20  # bytes: one charge of the kernel, by which the peak may stay below the limit
_COUNTED = {1: ("cpuacct", "memory", "pids"), 2: ("cpuacct",)}
"""The controllers that count in a group below a run's own, by version."""


class Group(RawCounters):
    """The groups of one run, a folder in each hierarchy."""

    def __init__(self, places: list[tuple[Hierarchy, str]], most_cores: float | None = None) -> None:
        """``most_cores`` is the quota of the tree, which version 1 lets no group below exceed."""
        super().__init__(places)
        self._most_cores = most_cores
        self._before: dict[str, float] = {}
        self._most_processes = self._hidden_peak = 0
        self._least_tasks = 0
        self._limits: Groups | None = None
        self._throttled = False
        self._slowed_disks: list[str] = []
        self._memory: tuple[int, int | None] | None = None
        self._has_headroom = self._is_unthrottled = False
        self.weight = weights.Weight(self._paths, self._version)

    def make_below(self, name: str) -> GroupBelow:
        """Make a group below this one, without limits of its own, that counts for some of the run's processes.

        Version 2 counts CPU time in every group. Other controllers would need a group without processes here.
        """
        places = []
        for path, version in self._versions:
            names = [each for each, folder in self._paths.items() if folder == path and each in _COUNTED[version]]
            if names:
                os.mkdir(f"{path}/{name}")
                places.append((Hierarchy(version=version, path=path, controllers=tuple(names)), f"{path}/{name}"))
        return GroupBelow(places, self)

    def open_cgroup_fds(self) -> list[int]:
        """Return a descriptor for each folder. A process that writes ``0`` to it enters the group."""
        fds: list[int] = []
        try:
            for path in self.folders:
                fds.append(os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            for fd in fds:
                os.close(fd)
            raise
        return fds

    def limit(self, groups: Groups) -> None:
        """Set the limits of this run; ``None`` leaves a resource unlimited."""
        self._limits, self._is_unthrottled, self._has_headroom = groups, False, False
        memory, swap, processes, cores = groups.memory, groups.swap, groups.processes, groups.cores
        self._memory = None if memory is None or "memory" not in self._paths else (memory, swap)
        if self._memory is not None:
            self._limit_memory(*self._memory)
        if processes is not None and "pids" in self._paths:
            self._set("pids", "pids.max", processes)
        if cores is not None:
            self._throttled = True
            most = cores if self._most_cores is None else min(cores, self._most_cores)
            reserve.set_quota(self._paths["cpu"], self._version["cpu"], most)
        if groups.io_read is not None and "io" in self._paths:
            self._slow_down(groups.io_read)

    def _slow_down(self, rate: int) -> None:
        self._slowed_disks = disks.found()
        for disk in self._slowed_disks:
            self._set("io", *disks.setting(self._version["io"], disk, rate))

    def _lift_rates(self) -> None:
        slowed, self._slowed_disks = self._slowed_disks, []
        for disk in slowed:
            self._set("io", *disks.setting(self._version["io"], disk, None))

    def _limit_memory(self, memory: int, swap: int | None) -> None:
        if self._version["memory"] == 2:
            # Not memory.oom.group: the spawner and the instance's init live in the group too. They would be killed with
            # the guest before either could report what happened.
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
        """Begin a run: later readings are differences to this moment.

        If limits were lifted for the end of the last run, they apply again. ``own_tasks`` is the number of tasks in the
        group that do not belong to the run.
        """
        if self._is_unthrottled and self._limits is not None:
            self.limit(self._limits)
        self.weight.restore()
        self._least_tasks = own_tasks + 1
        # Files for the last reading are opened here: later, no descriptor may be free.
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
        """Return the counts of this run."""
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
        """Sample counters whose peak cannot be reset; return the number of tasks now."""
        tasks = self._number("pids", {1: "pids.current", 2: "pids.current"})
        self._most_processes = max(self._most_processes, tasks or 0)
        return tasks

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of every task of this run, including dead ones."""
        spent = self._cpu()
        return None if spent is None else spent - self._before.get("cpu", 0.0)

    def oom_kills(self) -> int:
        """Return how many tasks the kernel killed because the group had used up its own memory."""
        kills = self._since("oom_kills", self._oom_kills()) or 0
        return kills if kills and self._has_met_limit() else 0

    def oom_outside(self) -> int:
        """Return how many tasks the kernel killed below the group's limit: memory outside of it was used up."""
        kills = self._since("oom_kills", self._oom_kills()) or 0
        return 0 if kills and self._has_met_limit() else kills

    def memory_held(self, concern: int) -> int:
        """Return the bytes charged now, without file pages, which the kernel takes back when others need memory.

        Sources: cgroup-v1/memory.rst, cgroup-v2.rst: ``active_file``, ``inactive_file``. If all charges together are
        below ``concern``, they are returned with the file pages, which saves one read.
        """
        charged = self._charged() or 0
        if charged < concern:
            return charged
        pages = 0
        for kind in ("active_file", "inactive_file"):
            pages += self._field("memory", {1: "memory.stat", 2: "memory.stat"}, kind) or 0
        return max(0, charged - pages)

    def left_behind(self, least: int) -> int:
        """Return the bytes charged now that are not private memory of a process, and so can outlive every process.

        Examples are pages of files that were read or made, shared memory, and buffers that the kernel has not freed
        yet. If all charges together are below ``least``, they are returned unchanged, which saves one read.
        """
        charged = self._charged() or 0
        if charged < least:
            return charged
        own = "rss" if self._version["memory"] == 1 else "anon"
        return max(0, charged - (self._field("memory", {1: "memory.stat", 2: "memory.stat"}, own) or 0))

    def forks_refused(self) -> int:
        """Return how often the kernel refused a new task because of the group's limit."""
        return self._since("forks_refused", self._forks_refused()) or 0

    def renew(self, residents: set[int]) -> bool:
        """Prepare the group for another run; return whether it can be used again.

        The group may contain only the ``residents``, and little charged memory. File pages that a run has read stay
        charged, and would count for the next run. The kernel must be able to reset the memory peak.
        """
        try:
            if not self.is_empty_but_for(residents):
                return False
            charged = self._charged()
            if charged is not None and charged > RENEWABLE:
                return False
            if (self._peak_processes() or 0) > _FEW_TASKS:
                return False  # this peak would hide the next run's peak
            if self.unified is not None and not files.remove_folder(f"{self.unified}/{FROZEN}"):
                return False
            self.lift_limits()
        except (OSError, ValueError):
            return False
        return self._forget_peak()

    def lift_limits(self) -> None:
        """Lift all limits."""
        self._memory = self._limits = None
        self._has_headroom = self._is_unthrottled = False
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
        """Lift limits that would slow down the end of the remaining processes; return whether to repeat this until they
        end.

        They get CPU time, some memory, and their pending reads from a disk at full speed: even a killed process waits
        for those.
        """
        slowed = self._slowed_disks
        self._is_unthrottled = True
        try:
            self.weight.restore()
            if self._throttled:
                self._lift_quota()
            self._add_headroom()
            self._lift_rates()
        except OSError:
            pass  # they only take longer to end
        self._slowed_disks = slowed
        return bool(slowed)

    def _add_headroom(self) -> None:
        """Add headroom to the memory limit.

        While a guest that has used up all memory is being killed, it still holds that memory. The process that ends it
        would be killed next, for one more page.
        """
        if self._memory is None or self._has_headroom:
            return
        memory, swap = self._memory
        self._has_headroom = True
        if self._version["memory"] == 1 and swap is not None and "swap" in self._paths:
            self._set(
                "memory", "memory.memsw.limit_in_bytes", memory + _HEADROOM + swap
            )  # never below the limit on memory
        name = "memory.max" if self._version["memory"] == 2 else "memory.limit_in_bytes"
        self._set("memory", name, memory + _HEADROOM)

    def _lift_quota(self) -> None:
        self._throttled = False
        if "cpu" in self._paths:
            reserve.set_quota(self._paths["cpu"], self._version["cpu"], None)

    def _since(self, name: str, value: int | None) -> int | None:
        return None if value is None else value - int(self._before.get(name, 0))

    def _has_met_limit(self) -> bool:
        """Return whether a charge failed at the group's own limit.

        Version 2 counts such charges. In version 1, such a charge leaves the peak at the limit.
        """
        if self._memory is None:
            return False
        if self._version["memory"] == 2:
            return self._since("limit_hits", self._limit_hits()) != 0
        peak = self._peak_memory()
        return peak is None or peak >= self._memory[0] - _ONE_CHARGE

    def _since_peak(self) -> int | None:
        """Return the most tasks of this run by the kernel's peak; ``None`` if an earlier run may hide it."""
        peak = self._peak_processes()
        before = self._before.get("peak_processes", 0)
        if peak is None:
            return self._most_processes or None
        if peak > before:
            return peak
        return int(before) if before <= self._least_tasks else None  # hidden by an earlier run's peak

    def _own_peak(self) -> int | None:
        """Return the peak memory of this run; ``None`` if an earlier run's peak may hide it."""
        peak = self._peak_memory()
        return None if peak is None or peak <= self._hidden_peak else peak


class GroupBelow(Group):
    """A group below a run's own, whose limits are those of the run."""

    def __init__(self, places: list[tuple[Hierarchy, str]], above: Group) -> None:
        super().__init__(places)
        self._above = above
        self._counts_above = above.counts_memory and not self.counts_memory
        self._kills_above = 0

    def begin(self, own_tasks: int) -> None:
        """Count from now on."""
        super().begin(own_tasks)
        self._kills_above = self._above.oom_kills() if self._counts_above else 0

    def read(self) -> Counters:
        """Return the counts of this exec."""
        counts = super().read()
        return (
            counts.adding(oom_kills_above=self._above.oom_kills() - self._kills_above) if self._counts_above else counts
        )

    def _has_met_limit(self) -> bool:
        return self._above._has_met_limit()

    def members(self) -> list[int]:
        """Return the pids of the group's processes."""
        return [int(line) for line in files.read(f"{self.folders[0]}/cgroup.procs").split()]

    def kill(self) -> bool:
        """Have the kernel kill every process of the group; return ``False`` where it cannot (before Linux 5.14, v1)."""
        if self.unified is None:
            return False
        try:
            files.write(f"{self.unified}/cgroup.kill", "1")
        except OSError:
            return False
        return True

    def remove(self) -> bool:
        """Remove the group; return ``False`` while it holds a process. Its counts stay with the run's own group."""
        self.close()
        left = [folder for folder in self.folders if not files.remove_folder(folder)]
        return not left
