"""The meter: reads clock and counters of one run, and finds limits that are near or met."""

from __future__ import annotations

import os
import time

from stockade.core.launch import Groups, Watch
from stockade.core.report import MeterReport
from stockade.linux import tree
from stockade.linux.cgroups import outer
from stockade.warden.activity import LOOK_SECONDS
from stockade.warden.run.uncounted import UncountedMemory
from stockade.warden.weights import STARTING_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from stockade.linux.cgroups import Counters, Group
    from stockade.warden.run.execution import Execution

    Finding = tuple[str, str, float, float]
    """Guarantee, state (``"soft"``, ``"near"`` or ``"met"``), use, and limit."""

NEAR = 0.8
"""The fraction of a limit from which on the limit is near."""
_SHORTEST = 0.002
_SAMPLE_EVERY = 0.02
_SAMPLE_CLOSELY = 0.005
_TIMES_THE_COST = 4
_SIGKILL = 9
_CPUS = len(os.sched_getaffinity(0))
_NO_FIGURES = Groups()


class Meter:
    """Reads the counters of one run on demand, and plans the next look."""

    def __init__(self, watch: Watch, execution: Execution, groups: Groups = _NO_FIGURES) -> None:
        """``groups`` are the limits that the run's control groups enforce."""
        self._watch = watch
        self._groups = groups
        self._execution = execution
        self._own_tasks = execution.own_tasks
        self._soft = watch.soft_memory
        self._past_soft: int | None = None
        self._use(execution.group)
        self._begin = 0.0
        self._end = 0.0
        self._paused: float | None = None
        self._reported: dict[str, str] = {}
        self._cpu = 0.0
        self._memory: int | None = None
        self._tasks: int | None = None
        self._spent = 0.0
        self._reaped_before = 0.0
        self._setup_peak = 0
        self._outer_kills = 0
        self._peak_memory = 0
        self._uncounted = UncountedMemory(watch)
        self._uncounted_bytes = self._peak_uncounted_bytes = 0
        self._peak_tasks = 0
        self._asleep = False
        self._looked = 0.0
        self._seen: float | None = None  # the CPU time of the group at the last look
        self.started = False
        self.next_look = float("inf")
        self.next_report = float("inf")

    def _use(self, group: Group | None) -> None:
        """Read the counters of ``group`` from now on. A container's group exists only once its engine has made it."""
        self._group = group
        self._has_cpu = group is not None and group.counts_cpu
        self._group_has_memory = group is not None and group.counts_memory
        sampled = self._watch.sampled_memory is not None or (self._soft is not None and not self._group_has_memory)
        self._sampling = sampled or not self._has_cpu
        self._may_sleep = group is not None and group.in_tree and not self._sampling

    @property
    def _head(self) -> int:
        return self._execution.head

    @property
    def counts_memory(self) -> bool:
        """Whether the kernel limits and counts the run's memory."""
        return self._group_has_memory

    @property
    def begin(self) -> float:
        """The start of the wall clock, in seconds of the monotonic clock."""
        return self._begin

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of the run at the last look."""
        return self._cpu

    def hand_over(self) -> None:
        """Start the clock at the hand-over, in case the instance dies before it reports ``exec``.

        By then a worker has reaped all earlier guests. Their CPU time does not count for this run.
        """
        self._begin = time.monotonic()
        if self._group is not self._execution.group:
            self._use(self._execution.group)
        if self._sampling:
            self._reaped_before = tree.reaped_cpu_seconds(self._head)

    def start(self, begun: float, spent: float, peak: int) -> None:
        """Start the clock at ``begun``, when the program began. The report of it may arrive later.

        The set-up itself used ``spent`` CPU seconds, and ``peak`` bytes at most; neither counts for the program.
        """
        self.started = True
        self._spent = spent
        self._setup_peak = peak
        self._outer_kills = 0 if self._group_has_memory else outer.oom_kills()
        now = time.monotonic()
        self._begin = min(begun, now)
        self.next_look = self._plan_next_look(now, now - self._begin, None if self._soft is None else 0)
        if self._watch.report_seconds is not None:
            self.next_report = self._begin + self._watch.report_seconds

    def pause(self, now: float) -> None:
        """Stop the wall clock until ``resume``."""
        self._paused = now

    def resume(self, now: float) -> None:
        """Resume the wall clock."""
        if self._paused is not None:
            self._begin += now - self._paused
            self._paused = None
            self.next_look = now

    def stop(self) -> None:
        """Stop the wall clock for good: the last process is gone."""
        self._end = time.monotonic() if self._paused is None else self._paused

    def look(self, now: float) -> list[Finding]:
        """Return each limit that is newly ``"near"`` or ``"met"``, and memory newly past its ``"soft"`` limit."""
        self._looked, self._seen = now, None if self._group is None else self._group.cpu_seconds()
        wall = self._read(now)
        held = self._watch_soft()
        found: list[Finding] = []
        if held is not None and self._soft is not None and self._past_soft == held:
            found.append(("memory", "soft", held, self._soft))
        for guarantee, used, figure, met in self._limit_states(wall):
            state = "met" if met else "near" if used >= NEAR * figure else ""
            if state and self._reported.get(guarantee) not in (state, "met"):
                self._reported[guarantee] = state
                found.append((guarantee, state, used, figure))
        self.next_look = self._plan_next_look(now, wall, held)
        return found

    def wake(self, now: float) -> bool:
        """Wake up if something has run in the group since the last look. Return whether a look is due."""
        if self._asleep and self._group is not None and self._group.cpu_seconds() != self._seen:
            self._asleep, self.next_look = False, now
        return now >= self.next_look

    @property
    def still_since(self) -> float:
        """The time since which nothing has run in the group, as far as the meter knows; infinity if something has."""
        return self._looked if self._asleep else float("inf")

    def _watch_soft(self) -> int | None:
        """Return the memory of the tree, or ``None`` once an earlier look saw it past the soft limit."""
        if self._soft is None or self._past_soft is not None:
            return None
        held = self._memory or 0
        if self._group_has_memory and self._group is not None:
            held = self._group.memory_held(self._soft)
        if held >= self._soft:
            self._past_soft = held
        return held

    @property
    def oom_outside(self) -> bool:
        """Whether the kernel killed a process of the run for memory outside of the run's own limit."""
        return self._group is not None and self._group_has_memory and self._group.oom_outside() > 0

    def usage(self, now: float) -> dict[str, Any]:
        """Return the current use, and plan the next usage report."""
        wall = self._read(now)
        if self._watch.report_seconds is not None:
            self.next_report = now + self._watch.report_seconds
        counted = self._group is not None and self._group_has_memory
        return {
            "cpu_seconds": self._cpu,
            "wall_seconds": wall,
            "memory": self._group.memory_held(0) if counted and self._group is not None else self._memory,
            "processes": self._tasks,
        }

    def _limit_states(self, wall: float) -> Iterator[tuple[str, float, float, bool]]:
        """Yield guarantee, use, limit, and whether it is met. The kernel's counter decides for its own limits."""
        watch, group = self._watch, self._group
        if watch.wall_seconds is not None:
            yield "wall_time", wall, watch.wall_seconds, wall >= watch.wall_seconds
        if watch.cpu_seconds is not None:
            yield "cpu_time", self._cpu, watch.cpu_seconds, self._cpu >= watch.cpu_seconds
        if watch.sampled_memory is not None:
            used = self._memory or 0
            yield "memory", used, watch.sampled_memory, used >= watch.sampled_memory or self._uncounted.has_most_locks
        elif group is not None and self._group_has_memory and self._groups.memory is not None:
            yield "memory", self._memory_held(group, self._groups.memory), self._groups.memory, self._is_full(group)
        if self._groups.processes is not None and self._tasks is not None:
            refused = group is not None and group.forks_refused() > 0
            used = self._tasks if self._tasks > 1 else 0  # a guest with its one first task is not near a limit of one
            yield "processes", used, self._groups.processes - watch.other_tasks, refused

    def _memory_held(self, group: Group, limit: int) -> int:
        """Return the memory of the tree, with socket buffers and locks that its control group does not count."""
        cpu = self._seen if self._has_cpu else None
        uncounted = self._uncounted.held(self._head, limit, all_kinds=not group.counts_sockets, cpu=cpu)
        held = group.memory_held(0 if uncounted else int(NEAR * limit)) + uncounted
        self._uncounted_bytes = held if uncounted or group.uncounted_sockets() else 0
        self._peak_uncounted_bytes = max(self._peak_uncounted_bytes, self._uncounted_bytes)
        return held

    def _is_full(self, group: Group) -> bool:
        """Return whether the memory limit is met. The kernel limits socket buffers separately, but not their sum with
        other memory."""
        is_over = self._uncounted_bytes >= (self._groups.memory or 0) > 0
        return group.oom_kills() > 0 or is_over or self._uncounted.has_most_locks

    def _read(self, now: float) -> float:
        """Read clock and counters. Return the wall time."""
        tasks = self._group.look() if self._group is not None else None
        if tasks is not None and self._watch.counts_tasks:
            self._tasks = max(1, tasks - self._own_tasks - self._watch.other_tasks)
        self._sample()
        if self._has_cpu and self._group is not None:
            self._cpu = max(0.0, (self._group.cpu_seconds() or 0.0) - self._spent)
        return (now if self._paused is None else self._paused) - self._begin

    def _sample(self) -> None:
        if not self._sampling:
            return
        bound = self._watch.sampled_memory if self._past_soft is not None or self._soft is None else self._soft
        sample = self._execution.sample(bound)
        self._cpu = max(self._cpu, sample.cpu_seconds - self._reaped_before - self._spent)
        self._memory = sample.memory
        if self._watch.sampled_memory is not None:
            self._memory += self._uncounted.held(self._head, self._watch.sampled_memory, all_kinds=True)
        self._peak_memory = max(self._peak_memory, self._memory)
        self._peak_tasks = max(self._peak_tasks, sample.tasks)
        if self._group is None and self._watch.counts_tasks:
            self._tasks = max(1, sample.tasks - self._watch.other_tasks)

    def _plan_next_look(self, now: float, wall: float, held: int | None) -> float:
        """Return a time before which no time limit can be met: CPU time grows by at most one second a second and core.

        Memory that no control group limits can grow at any speed. So it is sampled more often, the nearer the limit.
        A run without such a reason sleeps until something runs in its group: until then no counter can change.
        """
        pause = LOOK_SECONDS
        if self._watch.cpu_seconds is not None:
            pause = min(pause, (self._watch.cpu_seconds - self._cpu) / _CPUS)
        for used, limit in ((self._memory or 0, self._watch.sampled_memory), (held, self._soft)):
            if limit is not None and used is not None:
                pause = min(pause, _SAMPLE_CLOSELY if 2 * used > limit else _SAMPLE_EVERY)
        if 2 * self._uncounted_bytes > (self._groups.memory or 0):
            pause = min(pause, _SAMPLE_EVERY)
        # A guest can fill the tables of its network, and reading them must leave the warden time for its neighbours.
        pause = max(pause, _SHORTEST, _TIMES_THE_COST * self._uncounted.cost)
        self._asleep = self._may_sleep and pause == LOOK_SECONDS and wall >= STARTING_SECONDS
        pause = float("inf") if self._asleep else pause
        if self._watch.wall_seconds is not None and self._paused is None:
            part = 1.0 if "wall_time" in self._reported else NEAR
            pause = min(pause, part * self._watch.wall_seconds - wall)
        return now + max(pause, 0.0)

    def report(self, exit_report: dict[str, Any] | None, *, killed: bool = False) -> MeterReport:
        """Return the final readings. ``exit_report`` came from the init, if it lived to send one.

        ``killed`` means that the warden itself ended the run.
        """
        counters = self._group.read() if self._group is not None else None
        init_report = exit_report or {}
        was_killed = not killed and _is_killed(init_report.get("status"))
        kills = _oom_kills(counters, was_killed=was_killed)
        cpu = counters.cpu_seconds if counters else None
        source = "cgroup"
        if cpu is not None:
            cpu = max(0.0, cpu - self._spent)
        else:
            cpu, source = max(self._cpu, init_report.get("cpu_seconds", 0.0) - self._spent, 0.0), "sampled"
        peak = counters.peak_memory if counters else None
        if peak is not None:
            peak = max(peak, self._peak_uncounted_bytes)
        else:
            # The kernel keeps the peak of a process's whole life, which includes the time before it became the guest.
            reported_peak = init_report.get("peak_memory", 0)
            peak = max(self._peak_memory, reported_peak if reported_peak > self._setup_peak else 0) or None
        return MeterReport(
            status=init_report.get("status"),
            started=self.started,
            wall_seconds=self._end - self._begin if self._begin else 0.0,
            cpu_seconds=cpu,
            cpu_source=source,
            peak_memory=peak,
            peak_sockets=counters.peak_sockets if counters else None,
            locks=self._uncounted.locks,
            past_soft_memory=self._past_soft,
            peak_processes=self._most_tasks(counters.peak_processes if counters else None),
            oom_kills=kills,
            oom_outside=self._killed_outside(counters, peak or 0, was_killed=was_killed and not kills),
            forks_refused=counters.forks_refused if counters else None,
            engine=init_report.get("engine", b""),
            disk_free=init_report.get("disk_free"),
            inodes_free=init_report.get("inodes_free"),
        )

    def _killed_outside(self, counters: Counters | None, peak: int, *, was_killed: bool) -> int | None:
        """Return how many tasks of the run the kernel killed for memory outside of the run's own limit.

        Without a group that counts memory nothing tells. If SIGKILL ended the first process below its own limit while
        the kernel killed something in the warden's own group, it was most likely this process.
        """
        if self._group_has_memory:
            return counters.oom_outside if counters else None
        limit = self._watch.sampled_memory
        is_below = limit is None or peak < limit
        is_lost = self.started and was_killed and is_below
        return 1 if is_lost and outer.oom_kills() > self._outer_kills else None

    def _most_tasks(self, counted: int | None) -> int | None:
        if not (self.started and self._watch.counts_tasks):
            return None
        if self._group is not None:
            return None if counted is None else max(1, counted - self._own_tasks - self._watch.other_tasks)
        return max(1, self._peak_tasks - self._watch.other_tasks)


def _is_killed(status: int | None) -> bool:
    return status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == _SIGKILL


def _oom_kills(counters: Counters | None, *, was_killed: bool) -> int | None:
    """Return how many tasks the kernel killed at the run's own limit on memory; ``None`` if no counter shows it.

    In version 2 the group of an exec counts no memory, and the sandbox's group counts the kills of all its execs.
    They are taken for this exec's if SIGKILL ended its first process, and the warden did not send it.
    """
    if counters is None or counters.oom_kills is not None:
        return None if counters is None else counters.oom_kills
    return (counters.oom_kills_above or None) if was_killed else None
