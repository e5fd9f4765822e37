"""Watches one execution: deadlines, counters, and the helper processes that the run waits for."""

from __future__ import annotations

import time

from stockade.warden.run.phase import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.warden.run.supervision import Supervision

_BEGIN_SECONDS = 0.002
"""How often to look whether a warm guest has begun: no event wakes the warden for that."""
_SILENT_SECONDS = 0.002
"""The age of a warm guest from which on its streams are read. A guest that ends sooner leaves its output in the pipes,
so that the warden is not woken for it."""
_ENDING = ("wall_time", "cpu_time", "memory")
"""The limits of the meter that end a run. Of its others the caller only gets an event. ``OutputCapture``
watches output."""
_ENDING_ALL_EXECS = ("wall_time", "cpu_time")
"""Those that end a living instance. Where the kernel kills for memory, the kill ends an exec."""


class Watcher:
    """Decides when an execution needs attention, and gives it."""

    def __init__(self, supervision: Supervision) -> None:
        self._supervision = supervision
        self._execution = supervision.execution
        self._run = supervision.run
        self._ending: tuple[str, ...] = _ENDING
        if supervision.launch.lives and supervision.meter.counts_memory:
            self._ending = _ENDING_ALL_EXECS
        self._due = 0.0
        self._setup_deadline = time.monotonic() + supervision.launch.watch.setup_seconds

    def mark_due(self) -> None:
        """Check at the next tick, since something has happened."""
        self._due = 0.0

    def tick(self, now: float, *, active: bool) -> float:
        """Check what is due. Return when to call again, in seconds of the monotonic clock.

        ``active``: some guest has run, so a meter that sleeps may have to look.
        """
        if active and self._supervision.meter.wake(now):
            self._due = 0.0
        if now >= self._due or self._supervision.exit is not None:
            self._due = self._tick(now)
        return self._due

    def _tick(self, now: float) -> float:
        ending, phase = self._supervision.ending, self._run.phase
        if phase == Phase.ANSWERED:
            return ending.see_off(now)
        if phase == Phase.CONCLUDING:
            due = float("inf") if ending.collection is None else ending.collection.tick(now)
            return due if self._execution.proxy is None else min(due, self._execution.proxy.tick(now))
        if phase == Phase.ENDED:
            ending.conclude()
            return 0.0
        due = ending.enforce(now) if self._run.cause is not None else self._check_execution(now)
        return due if self._run.phase >= Phase.CONCLUDING else min(due, self._watch(now))

    def _check_execution(self, now: float) -> float:
        return self._execution.check(now, starting=self._run.phase < Phase.RUNNING)

    def _watch(self, now: float) -> float:
        """Check the set-up or the program. Return when to check again."""
        supervision, execution = self._supervision, self._execution
        meter, ending = supervision.meter, supervision.ending
        ending.check_patience(now)
        if not meter.started and execution.lasting:
            execution.poll()  # the report that the program has begun, for which no event wakes the warden
        if not meter.started:
            return self._watch_setup(now)
        if self._run.cause is not None:
            return ending.press(now)
        if not supervision.output.begun:
            if now < meter.begin + _SILENT_SECONDS:
                return meter.begin + _SILENT_SECONDS
            supervision.output.begin()
        if now >= meter.next_look:
            self._check_limits(now)
        if now >= meter.next_report:
            self._report_usage(now)
        return min(meter.next_look, meter.next_report, supervision.control.pull(now))

    def carry_out_requests(self) -> None:
        """Carry out requests now if the program runs: input that follows a request must arrive after it."""
        if self._supervision.meter.started and self._run.cause is None and self._run.phase < Phase.ENDED:
            self._supervision.control.pull(time.monotonic())

    def _watch_setup(self, now: float) -> float:
        if now >= self._setup_deadline:
            self._run.refuse(f"the sandbox took too long to set up: {self._execution.setup_state}")
            self._setup_deadline = float("inf")
        if not self._execution.lasting:
            return self._setup_deadline
        return min(self._setup_deadline, self._supervision.ending.patience, now + _BEGIN_SECONDS)

    def _check_limits(self, now: float) -> None:
        run, meter, ending = self._run, self._supervision.meter, self._supervision.ending
        if meter.oom_outside and not self._supervision.launch.lives:
            ending.kill("setup")  # the run has lost a process by no fault of its own
        for guarantee, state, used, figure in meter.look(now):
            run.connection.send("limit", guarantee=guarantee, state=state, used=used, figure=figure)
            if state == "met" and guarantee in self._ending:
                self._end_for(guarantee)
        if run.cause is None and meter.cpu_seconds >= self._supervision.launch.watch.engine_cpu:
            run.owner.weights.look(run, meter, self._execution.group, now)

    def _end_for(self, guarantee: str) -> None:
        """End the run for a limit. If an init that stands still could not report the end, that is a failure of the
        sandbox, and not the guest's wall time."""
        held = self._execution.standing_still() if guarantee == "wall_time" else ""
        if held:
            self._run.refuse(f"{held}, and the run's wall time is over")
        else:
            self._supervision.ending.kill(guarantee)

    def report_usage(self, now: float) -> None:
        """Send the caller a report on usage."""
        usage = self._supervision.meter.usage(now)
        self._run.connection.send("usage", output=self._supervision.output.count, **usage)

    def _report_usage(self, now: float) -> None:
        if not self._run.connection.pending:  # a slow reader must not find a heap of old reports
            self.report_usage(now)
        else:
            self._supervision.meter.usage(now)  # plans the next one
