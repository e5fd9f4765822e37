"""Clock and counters of one run: what has been used, what is near its limit, what has met it."""

from __future__ import annotations

import os
import time

from stockade._launch import Watch
from stockade.linux import tree
from stockade.warden.slot import OWN_TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.warden.slot import Slot

_NEAR = 0.8
_SHORTEST = 0.002
_LONGEST = 0.1
_SAMPLE_EVERY = 0.02
_SAMPLE_CLOSELY = 0.005
_CPUS = len(os.sched_getaffinity(0))


class Meter:
    """Looks at one run when asked to, and says when the next look is due."""

    def __init__(self, watch: Watch, slot: Slot) -> None:
        assert slot.cell is not None
        self._watch = watch
        self._init = slot.cell.init
        self._group = slot.group
        self._has_cpu = slot.group is not None and slot.group.cpu_seconds() is not None
        self._soft = watch.soft_memory
        self._past_soft: int | None = None
        self._group_has_memory = slot.group is not None and slot.group.counts_memory
        sampled = watch.sampled_memory is not None or (self._soft is not None and not self._group_has_memory)
        self._sampling = sampled or not self._has_cpu
        self._begin = 0.0
        self._end = 0.0
        self._near: set[str] = set()
        self._cpu = 0.0
        self._spent = 0.0
        self._setup_peak = 0
        self._peak_memory = 0
        self._peak_tasks = 0
        self.started = False
        self.next_look = float("inf")

    def hand_over(self) -> None:
        """The cell has the launch: should it die before it says that the program runs, time counts from here."""
        self._begin = time.monotonic()

    def start(self, spent: float, peak: int) -> None:
        """The program starts now; the set-up itself ``spent`` CPU seconds and held ``peak`` bytes."""
        self.started = True
        self._spent = spent
        self._setup_peak = peak
        self._begin = time.monotonic()
        self.next_look = self._plan_next_look(self._begin, 0.0, 0, None if self._soft is None else 0)

    def stop(self) -> None:
        """The last process is gone."""
        self._end = time.monotonic()

    def look(self, now: float) -> list[tuple[str, str]]:
        """Return each limit that is ``"near"`` for the first time, or ``"met"``, and memory past its ``"soft"`` one."""
        wall = now - self._begin
        if self._group is not None:
            self._group.look()
        memory = self._sample()
        if self._has_cpu and self._group is not None:
            self._cpu = max(0.0, (self._group.cpu_seconds() or 0.0) - self._spent)
        readings = (
            ("wall_time", wall, self._watch.wall_seconds),
            ("cpu_time", self._cpu, self._watch.cpu_seconds),
            ("memory", memory, self._watch.sampled_memory),
        )
        held = self._watch_soft(memory)
        found = [("memory", "soft")] if held is not None and self._past_soft == held else []
        if self._group is not None and self._group.oom_kills():
            found.append(("memory", "met"))
        for guarantee, used, limit in readings:
            if limit is not None and used >= limit:
                found.append((guarantee, "met"))
            elif limit is not None and used >= _NEAR * limit and guarantee not in self._near:
                self._near.add(guarantee)
                found.append((guarantee, "near"))
        self.next_look = self._plan_next_look(now, wall, memory, held)
        return found

    def _watch_soft(self, sampled: int) -> int | None:
        """Return what the tree holds, as long as its soft limit has not been passed before this look."""
        if self._soft is None or self._past_soft is not None:
            return None
        held = sampled
        if self._group_has_memory and self._group is not None:
            held = self._group.memory_held(self._soft)
        if held >= self._soft:
            self._past_soft = held
        return held

    def _sample(self) -> int:
        if not self._sampling:
            return 0
        bound = self._watch.sampled_memory if self._past_soft is not None or self._soft is None else self._soft
        sample = tree.sample(self._init, bound)
        self._cpu = max(self._cpu, sample.cpu_seconds - self._spent)
        self._peak_memory = max(self._peak_memory, sample.memory)
        self._peak_tasks = max(self._peak_tasks, sample.tasks)
        return sample.memory

    def _plan_next_look(self, now: float, wall: float, memory: int, held: int | None) -> float:
        """No limit can be met before this: time runs at one second a second, CPU at most one a core.

        Memory may, but for the group's own limit: it is looked at the more often, the nearer it is.
        """
        pause = _LONGEST
        if self._watch.cpu_seconds is not None:
            pause = min(pause, (self._watch.cpu_seconds - self._cpu) / _CPUS)
        for used, limit in ((memory, self._watch.sampled_memory), (held, self._soft)):
            if limit is not None and used is not None:
                pause = min(pause, _SAMPLE_CLOSELY if 2 * used > limit else _SAMPLE_EVERY)
        pause = max(pause, _SHORTEST)
        if self._watch.wall_seconds is not None:
            pause = min(pause, self._watch.wall_seconds - wall)
        return now + max(pause, 0.0)

    def report(self, exit_report: dict[str, Any] | None) -> dict[str, Any]:
        """Return the final readings; ``exit_report`` is the init's, if it lived to send one."""
        counters = self._group.read() if self._group is not None else None
        told = exit_report or {}
        cpu = counters.cpu_seconds if counters else None
        source = "cgroup"
        if cpu is not None:
            cpu = max(0.0, cpu - self._spent)
        else:
            cpu, source = max(self._cpu, told.get("cpu_seconds", 0.0) - self._spent, 0.0), "sampled"
        peak = counters.peak_memory if counters else None
        if peak is None:
            # The kernel keeps the highest of a process's life, from before it became the guest as well.
            told_peak = told.get("peak_memory", 0)
            peak = max(self._peak_memory, told_peak if told_peak > self._setup_peak else 0) or None
        return {
            "status": told.get("status"),
            "started": self.started,
            "wall_seconds": self._end - self._begin if self._begin else 0.0,
            "cpu_seconds": cpu,
            "cpu_source": source,
            "peak_memory": peak,
            "past_soft_memory": self._past_soft,
            "peak_processes": self._most_tasks(counters.peak_processes if counters else None),
            "oom_kills": counters.oom_kills if counters else None,
            "forks_refused": counters.forks_refused if counters else None,
            "engine": told.get("engine", b""),
            "disk_free": told.get("disk_free"),
            "inodes_free": told.get("inodes_free"),
        }

    def _most_tasks(self, counted: int | None) -> int | None:
        if not self.started:
            return None
        if self._group is not None:
            return None if counted is None else max(1, counted - OWN_TASKS - self._watch.engine_tasks)
        return max(1, self._peak_tasks - self._watch.engine_tasks)
