"""Watches one execution: deadlines, counters, and the helper processes that the run waits for."""

from __future__ import annotations

import time

from stockade.warden.helper_liveness import Helper
from stockade.warden.run.phase import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.warden.run.execution import Execution

_BEGIN_SECONDS = 0.002
"""How often to look whether a warm guest has begun: no event wakes the warden for that."""
_SILENT_SECONDS = 0.002
"""The age of a warm guest from which on its streams are read. A guest that ends sooner leaves its output in the pipes,
so that the warden is not woken for it."""
_ENDING = ("wall_time", "cpu_time", "memory")
"""The limits that end a run; of the others the caller only gets an event."""
_DEAF_SECONDS = 0.5
"""An init that has closed its control socket must be dead after this time; otherwise the socket has failed."""
GUEST_TO_BE = "the process that becomes the guest"


class Watcher:
    """Decides when an execution needs attention, and gives it."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._run = execution.run
        now = time.monotonic()
        self._init = Helper(execution.instance.init, "the sandbox's init", now)
        self._due = 0.0
        self._setup_deadline = now + execution.launch.watch.setup_seconds
        self._silent_since = float("inf")

    def mark_due(self) -> None:
        """Check at the next tick, since something has happened."""
        self._due = 0.0

    def note_silence(self) -> None:
        """Record that the init's control socket is closed: the init must be dead soon."""
        self._silent_since = min(self._silent_since, time.monotonic())
        self.mark_due()

    def tick(self, now: float) -> float:
        """Check what is due. Return when to call again, in seconds of the monotonic clock."""
        if now >= self._due or self._execution.exit is not None:
            self._due = self._tick(now)
        return self._due

    def _tick(self, now: float) -> float:
        ending, phase = self._execution.ending, self._run.phase
        if phase == Phase.ANSWERED:
            return ending.see_off(now)
        if phase == Phase.CONCLUDING:
            return float("inf") if ending.collection is None else ending.collection.tick(now)
        if phase == Phase.ENDED:
            ending.conclude()
            return 0.0
        due = ending.enforce(now) if self._run.cause is not None else self._check_helpers(now)
        return due if self._run.phase >= Phase.CONCLUDING else min(due, self._watch(now))

    def _check_helpers(self, now: float) -> float:
        """Fail a run whose init, or guest's process, does not work any more. Return when to check again."""
        init = self._execution.instance.init
        if now >= self._silent_since + _DEAF_SECONDS:
            self._run.refuse(f"the control socket of the sandbox's init (pid {init}) failed, or was shut down")
            return now
        trouble = self._init.trouble(now, child=GUEST_TO_BE if self._run.phase < Phase.RUNNING else "")
        if trouble:
            self._run.refuse(trouble)
        return min(self._init.next_look, self._silent_since + _DEAF_SECONDS)

    def _watch(self, now: float) -> float:
        """Check the set-up or the program. Return when to check again."""
        execution, meter, ending = self._execution, self._execution.meter, self._execution.ending
        ending.check_patience(now)
        if not meter.started and execution.instance.lasting:
            execution.read_control()  # the report that the program has begun, for which no event wakes the warden
        if not meter.started:
            return self._watch_setup(now)
        if self._run.cause is not None:
            return ending.press(now)
        if not execution.output.begun:
            if now < meter.begin + _SILENT_SECONDS:
                return meter.begin + _SILENT_SECONDS
            execution.output.begin()
        if now >= meter.next_look:
            self._check_limits(now)
        if now >= meter.next_report:
            self._report_usage(now)
        return min(meter.next_look, meter.next_report, execution.control.pull(now))

    def _watch_setup(self, now: float) -> float:
        instance = self._execution.instance
        if now >= self._setup_deadline:
            step = "the guest's process did not begin its program" if instance.ready else "its init was not ready"
            self._run.refuse(f"the sandbox took too long to set up: {step} (init: pid {instance.init})")
            self._setup_deadline = float("inf")
        if not instance.lasting:
            return self._setup_deadline
        return min(self._setup_deadline, self._execution.ending.patience, now + _BEGIN_SECONDS)

    def _check_limits(self, now: float) -> None:
        run, meter, ending = self._run, self._execution.meter, self._execution.ending
        if meter.oom_outside:
            ending.kill("setup")  # the run has lost a process by no fault of its own
        for guarantee, state, used, figure in meter.look(now):
            run.connection.send("limit", guarantee=guarantee, state=state, used=used, figure=figure)
            if state == "met" and guarantee in _ENDING:
                self._end_for(guarantee)
        if run.cause is None:
            run.owner.weights.look(run, meter, self._execution.slot.group, now)

    def _end_for(self, guarantee: str) -> None:
        """End the run for a limit. If an init that stands still could not report the end, that is a failure of the
        sandbox, and not the guest's wall time."""
        held = self._init.standing_still() if guarantee == "wall_time" else ""
        if held:
            self._run.refuse(f"{held}, and the run's wall time is over")
        else:
            self._execution.ending.kill(guarantee)

    def _report_usage(self, now: float) -> None:
        usage = self._execution.meter.usage(now)
        if not self._run.connection.pending:  # a slow reader must not find a heap of old reports
            self._run.connection.send("usage", output=self._execution.output.count, **usage)
