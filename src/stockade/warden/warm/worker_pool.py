"""The workers of one zygote: idle ones, those that a run has, and those that are being made."""

from __future__ import annotations

import os
import time

from stockade.core import trace
from stockade.warden import loop, protocol
from stockade.warden.cold.cgroup_slot import SlotError, idle_until
from stockade.warden.cold.pool import ANSWER_SECONDS
from stockade.warden.failures import MOST_IN_A_ROW
from stockade.warden.helper_liveness import LOOK_SECONDS
from stockade.warden.run.phase import Phase
from stockade.warden.warm.worker_handle import WorkerHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from functools import partial

    from stockade.core.launch import Launch
    from stockade.warden.run.run import Run
    from stockade.warden.warm.interfaces import PoolOwner
else:
    from _functools import partial

MOST = 16
"""The most workers of one zygote. If all are taken, the next run starts cold."""
IDLE_SECONDS = 60.0
_CPUS = len(os.sched_getaffinity(0))
_LOOP_SECONDS = 0.002
"""A caller is in a loop if its next run comes this soon after the last one. It needs its next guest at once."""


class WorkerPool:
    """Makes workers, hands them to runs, and takes them back."""

    def __init__(
        self,
        *,
        events: loop.Loop,
        owner: PoolOwner,
        fork: Callable[[list[int], int], None],
        numbers: Sequence[tuple[int, int | None]],
        launch: Launch,
        turn_away: Callable[[Run, Launch, str], None],
        on_unfit: Callable[[str], None],
        on_empty: Callable[[], None],
    ) -> None:
        """``fork`` asks the zygote for a worker, with these descriptors, whose guests have this uid.

        ``numbers`` pairs each uid as the zygote's user namespace knows it with the host's uid. ``launch`` is a sample
        of the runs to expect. ``turn_away`` gets a run whose worker failed, with the reason. ``on_unfit`` is called if
        a worker fails before any worker had a guest ready, several fail in a row, or it seems that the zygote is dying;
        ``on_empty`` when the last worker ends after ``close``.
        """
        self._turn_away, self._on_unfit, self._on_empty = turn_away, on_unfit, on_empty
        self._loop = events
        self._owner = owner
        self._fork = fork
        self._numbers = list(numbers)
        self._groups = launch.groups
        self._last_template = self._template = launch.next_template
        self._all: set[WorkerHandle] = set()
        self._idle: list[WorkerHandle] = []
        self._waiting: dict[WorkerHandle, tuple[Run, Launch]] = {}
        self._retried: set[Run] = set()
        """Runs that wait for a second worker, because the first one was lost."""
        self._closed = False
        self._dying = 0
        self.proved = False
        """Whether any worker ever had a guest ready."""
        self.uses = 0
        self.served = 0  # runs whose worker was fit for the next one
        self._failures = 0  # workers in a row that had no guest ready
        self.used = time.monotonic()
        self._in_a_loop = False

    @property
    def busy(self) -> bool:
        """Whether a run has a worker, or waits for one."""
        return self._taken > 0 or bool(self._waiting)

    @property
    def _taken(self) -> int:
        return len(self._all) - len(self._idle)

    def take(self, run: Run, launch: Launch) -> bool:
        """Give ``run`` a worker, or one that is being made; return whether there is any."""
        if self._closed:
            return False
        self._note_use(launch)
        worker = self._most_recent()
        while worker is not None and worker.instance is not None and worker.dead:
            self._drop(worker)  # nothing has begun in it, so the run takes the next one
            worker = self._most_recent()
        if worker is None:
            worker = self._grow()
            if worker is None:
                return False
        elif worker in self._idle:
            self._idle.remove(worker)
        if worker.instance is None:
            self._waiting[worker] = run, launch
        else:
            self._hand_over(worker, run)
        self._keep_one_ready()
        return True

    def _note_use(self, launch: Launch) -> None:
        now = time.monotonic()
        self._in_a_loop = now - self.used < _LOOP_SECONDS
        self.used = now
        self.uses += 1
        self._groups = launch.groups
        template, before = launch.next_template, self._last_template
        if template == before:  # else two kinds of run that alternate would send each worker a new template every time
            self._template = template
        self._last_template = template

    def _keep_one_ready(self) -> None:
        if not any(each.instance is not None for each in self._idle) and len(self._idle) < _CPUS:
            self.add_idle()

    def _hand_over(self, worker: WorkerHandle, run: Run) -> None:
        self._retried.discard(run)
        worker.run = run
        worker.traced = run.traced
        self._waiting.pop(worker, None)  # not earlier: an error until here must find the run
        run.adopt(worker)

    def _most_recent(self) -> WorkerHandle | None:
        """Return the idle worker that was used last, so that superfluous workers stay unused and are closed."""
        ready = (worker for worker in reversed(self._idle) if worker.instance is not None)
        return next(ready, self._idle[0] if self._idle else None)

    def close_idle(self, now: float) -> float:
        """Close one worker that was idle for long, if there is any; return when to check again."""
        due = idle_until(self._idle)
        if due <= now:
            self._drop(self._idle[0])
        return min(due, now + IDLE_SECONDS, self._check_answers(now))

    def _check_answers(self, now: float) -> float:
        """Give up workers that do not make the guest that was asked for; return when to check again."""
        asked = [worker for worker in self._all if worker.instance is None]
        for worker in asked:
            trouble = worker.helper.trouble(now, child="the process that becomes its guest") if worker.pid > 0 else ""
            if trouble:
                self._on_trouble(worker, trouble)
            elif now - worker.asked >= ANSWER_SECONDS:
                self._on_trouble(worker, f"it (pid {worker.pid}) has not answered for {ANSWER_SECONDS:.0f} s")
        return now + LOOK_SECONDS if asked else float("inf")

    def shed(self) -> bool:
        """End the idle workers; return whether there was any."""
        idle = list(self._idle)
        for worker in idle:
            self._drop(worker)
        return bool(idle)

    def add_idle(self) -> None:
        """Have one more worker made for the next run, if the host has enough left."""
        worker = self._grow() if self._owner.has_slack() else None
        if worker is not None:
            self._idle.append(worker)

    def _grow(self) -> WorkerHandle | None:
        if not self._numbers:
            return None
        group = None
        number, uid = self._numbers.pop()
        try:
            group = self._owner.take_group()
            worker = WorkerHandle(self._fork, self, number=number, uid=uid, group=group)
        except (OSError, SlotError):
            self._numbers.append((number, uid))
            self._owner.release_resources(None, group)
            return None
        self._all.add(worker)
        worker.used = time.monotonic()
        guarded = loop.Guarded(self._loop, partial(self._on_trouble, worker))
        guarded.watch(worker.control.fileno(), loop.READ, partial(self._on_readable, worker))
        try:
            worker.ask(protocol.FORK_WARMED_UP, self._template)
        except SlotError:  # the worker has ended; its zygote reports the reason
            self._drop(worker)
            return None
        return worker

    def _on_readable(self, worker: WorkerHandle, _events: int) -> None:
        """Handle messages of a worker and of the process that becomes its guest."""
        try:
            for kind, fields in worker.read_messages():
                if kind == "set_up":
                    self._on_guest_ready(worker)
                elif kind == "exit" and worker.run is not None:
                    worker.run.on_end(fields)
                elif kind != "exit":
                    raise SlotError(fields["message"])
                elif worker.instance is not None:
                    raise SlotError("the guest ended before a run was given to it")
                else:  # the run was answered earlier, from its completion marker
                    trace.note(worker.traced, trace.REAPED, fields["at"])
                    trace.note(worker.traced, trace.EMPTY)
        except (SlotError, protocol.WireError, OSError) as error:
            self._on_trouble(worker, str(error))

    def _on_guest_ready(self, worker: WorkerHandle) -> None:
        tasks = worker.tasks()  # ``None`` without a task count; then only the worker says that it has no child left
        if tasks is not None and tasks > 1:
            raise SlotError("its control groups are not empty")
        self.proved, self._failures = True, 0
        guarded = loop.Guarded(self._loop, partial(self._on_trouble, worker))
        guarded.watch(worker.pidfd, loop.READ, partial(self._on_death, worker))
        if worker.has_residual_memory:
            self._replace(worker)
            return
        worker.arm(self._groups)
        trace.note(worker.traced, trace.SET_UP)
        waiting = self._waiting.get(worker)
        if waiting is None:
            return
        if waiting[0].gone:
            del self._waiting[worker]
            self._idle.append(worker)
        else:
            self._hand_over(worker, waiting[0])

    def _replace(self, worker: WorkerHandle) -> None:
        """Replace a worker whose only fault is memory that its control groups are still charged with."""
        waiting = self._waiting.pop(worker, None)
        self._drop(worker)
        if waiting is None:
            if not self._closed:
                self._keep_one_ready()
        elif waiting[0].gone or not self.take(*waiting):
            self._turn_away(*waiting, "its control groups are still charged with memory of an earlier run")

    def _on_trouble(self, worker: WorkerHandle, message: str) -> None:
        waiting = self._waiting.pop(worker, None)
        if waiting is None and worker.run is not None:
            self._loop.forget(worker.control.fileno())  # the run notices the worker's death, and releases the handle
            worker.run.lost(f"the worker (pid {worker.pid}) that holds the guest is lost: {message}")
            worker.kill()
            return
        self._failures += worker.instance is None
        self._drop(worker)
        lost_twice = waiting is not None and waiting[0] in self._retried  # most likely the zygote is dying
        served = waiting is None or self._take_another(*waiting)
        if lost_twice or not self.proved or self._failures >= MOST_IN_A_ROW:
            self._on_unfit(message)
        if waiting is not None and not served:
            self._turn_away(*waiting, message)  # now that this pool takes no run, if it is unfit

    def _take_another(self, run: Run, launch: Launch) -> bool:
        """Give ``run``, which has not begun, one other worker; return whether there is any."""
        if run in self._retried or run.gone or not self.proved:
            self._retried.discard(run)
            return False
        self._retried.add(run)
        return self.take(run, launch)

    def _on_death(self, worker: WorkerHandle, _events: int) -> None:
        """Handle the death of a worker. The kernel has then killed everything in its PID namespace."""
        self._loop.forget(worker.pidfd)
        if worker.run is not None:
            worker.run.on_death()
        else:
            self._on_trouble(worker, "it has ended")

    def release(self, worker: WorkerHandle) -> None:
        """Take back a worker whose guest is gone, or is killed and the only process of its run."""
        self.used = worker.used = time.monotonic()
        starts_again = worker.run is not None and worker.run.phase == Phase.QUEUED
        worker.run = worker.instance = None  # the run has closed the instance
        try:
            if starts_again and worker.dead:  # most likely together with its zygote, whose other workers are dying, too
                self._on_unfit("a worker was killed from outside before the program of its run began")
            if self._closed or worker.dead:
                raise SlotError("it has ended")
            hurry = self._in_a_loop or self._taken > _CPUS
            worker.reuse(protocol.FORK_AT_ONCE if hurry else protocol.FORK_WARMED_UP, self._template)
        except SlotError:
            self._drop(worker)
            if not (self._closed or self._idle):
                self.add_idle()
            return
        self.served += 1
        self._idle.append(worker)

    def _drop(self, worker: WorkerHandle) -> None:
        """End a worker for good."""
        if worker not in self._all:
            return
        self._all.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        self._loop.forget(worker.control.fileno())
        if worker.pidfd >= 0:
            self._loop.forget(worker.pidfd)
        if worker.instance is not None:
            self._loop.forget(worker.instance.control.fileno())
        worker.end()
        self._dying += 1
        self._owner.dispose(worker.is_gone, partial(self._on_gone, worker))

    def _on_gone(self, worker: WorkerHandle, gone: bool) -> None:
        self._dying -= 1
        if gone:
            self._owner.release_resources(None, worker.group)
            self._numbers.append((worker.number, worker.uid))
        else:
            worker.abandon()  # keep its uid and groups from others, because something may still run there
        if self._closed and not self:
            self._on_empty()

    @property
    def awaits_zygote(self) -> bool:
        """Whether the zygote has not yet forked a worker that it was asked for."""
        return any(worker.pid < 0 for worker in self._all)

    @property
    def awaited(self) -> bool:
        """Whether a run waits for a worker that is being made."""
        return bool(self._waiting)

    def close(self, why: str) -> None:
        """Make no more workers, and end those without a run. Runs that wait are turned away with ``why``."""
        if self._closed:
            return
        self._closed = True
        if not self:
            self._on_empty()
        for worker in list(self._all):
            waiting = self._waiting.pop(worker, None)
            if waiting is not None:
                self._turn_away(*waiting, why)
            if worker in self._idle or waiting is not None:
                self._drop(worker)

    def abandon(self) -> None:
        """End all workers, even those with a run. Nobody wants these runs any more."""
        for worker in list(self._all):
            self._drop(worker)

    def __bool__(self) -> bool:
        """Return whether any worker is left, dying ones included."""
        return bool(self._all) or self._dying > 0
