"""How a run ends: by its time or another limit, by the caller's wish, or by itself; and what is said of it then."""

from __future__ import annotations

import time

from stockade.core import trace
from stockade.core.report import Failure, Report
from stockade.linux import faults
from stockade.warden.run.collection import Collection, uid_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any, Protocol

    from stockade.core.launch import Launch
    from stockade.warden import loop
    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.cold.instance import Instance
    from stockade.warden.helper_liveness import Helper
    from stockade.warden.owner import RunOwner
    from stockade.warden.run.connection import Connection
    from stockade.warden.run.control import RunControl
    from stockade.warden.run.denials import Denials
    from stockade.warden.run.meter import Meter
    from stockade.warden.run.output import OutputCapture
    from stockade.warden.run.stdin import StdinFeeder
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

    Protocol = object

_AGAIN_SECONDS = 0.1
_GENTLE_SECONDS = 0.5
_FEW = 4  # tasks
_BEGIN_SECONDS = 0.002
_SILENT_SECONDS = 0.002
"""A guest that announces its end before that has its output read then: nobody is woken for less. A pipe holds it."""
_ENDING = ("wall_time", "cpu_time", "memory")  # no program may outlive these; of the others it is told
GUEST_TO_BE = "the process that becomes the guest"
_DEAF_SECONDS = 0.5
"""An init that has closed its control socket is dead by then, and the kernel says so; or something is wrong with it."""
_DYING_SECONDS = 5.0
"""What was told to end is killed at once after that, and the caller has its answer after twice as long."""


class Ending:
    """The part of a run that looks at its clock and concludes it."""

    _loop: loop.Guarded
    _owner: RunOwner
    _connection: Connection
    _stdin: StdinFeeder
    _launch: Launch | None
    _denials: Denials | None
    _output: OutputCapture | None
    _run_control: RunControl | None
    _collection: Collection | None
    _failure: Failure | None
    _completion_status: int | None
    """The exit status that the guest has announced before it was killed."""
    _exit: dict[str, Any] | None
    """What the init has said of the end."""
    _ended: bool
    """Whether nothing of the guest is left, by somebody's word."""
    _dead: bool
    """Whether its init is dead."""
    _over: bool
    """Whether it is concluded, but for what is being brought out."""
    _finished: bool
    """Whether the caller has its answer."""
    _pending: bool
    """Whether its first process was killed, and not reaped yet, when it was concluded."""
    _due: float
    """When the next look is due."""
    _setup_deadline: float
    _patience: float
    """Until when a keeper that stays may take to end it."""
    _deaf: float
    """When the control socket of the init has said its last word."""
    _dying: float
    """When it was told to end, and has not."""
    _init: Helper | None
    traced: int
    cause: str | None
    slot: CgroupSlot | None
    instance: Instance | None
    meter: Meter | None

    if TYPE_CHECKING:  # what the other part has

        def _read_control(self) -> bool:
            """Take what the cell's own processes report; return whether more may come."""

        def _on_control(self, _events: int) -> bool:
            """Do so, and conclude if it is the end."""

        def _end(self) -> None:
            """Forget the run."""

        def refuse(self, message: str) -> None:
            """Answer that the sandbox failed, and end."""

    def tick(self, now: float) -> float:
        """Look at the clock and the counters, if that is due or something has happened; return when to look again, in
        seconds of the monotonic clock."""
        if now >= self._due or self._ended:
            self._due = self._tick(now)
        return self._due

    def _mark_due(self) -> None:
        """Something has happened: the next tick is to look."""
        self._due = 0.0

    def _tick(self, now: float) -> float:
        if self.instance is None or self.meter is None:
            return float("inf")
        if self._finished:
            return self._see_off(self.instance, now)
        if self._over:
            return float("inf") if self._collection is None else self._collection.tick(now)
        if self._ended:
            self._conclude()
            return 0.0
        return min(self._look_after_helpers(now), self._go_on(now))

    def _look_after_helpers(self, now: float) -> float:
        """Give up what the run waits for in vain; return when to look again."""
        assert self._init is not None and self.instance is not None and self.meter is not None
        if now >= self._dying + 2 * _DYING_SECONDS:
            self._failure = self._failure or Failure(kind="setup", message="the run's processes could not be ended")
            self._conclude()
            return 0.0
        if now >= self._dying + _DYING_SECONDS:
            self.instance.kill_at_once()
        if self.cause is not None:
            return self._dying + (_DYING_SECONDS if now < self._dying + _DYING_SECONDS else 2 * _DYING_SECONDS)
        if now >= self._deaf + _DEAF_SECONDS:
            self.refuse(f"the control socket of the sandbox's init (pid {self.instance.init}) failed, or was shut down")
            return now
        trouble = self._init.trouble(now, child="" if self.meter.started else GUEST_TO_BE)
        if trouble:
            self.refuse(trouble)
        return min(self._init.next_look, self._deaf + _DEAF_SECONDS)

    def _see_off(self, instance: Instance, now: float) -> float:
        """The caller has its answer. See to it that the init ends as well; return when to look again."""
        if now >= self._dying + _DYING_SECONDS:
            instance.kill_at_once()
            self._dying = now
        return self._dying + _DYING_SECONDS

    def _go_on(self, now: float) -> float:
        assert self.instance is not None and self.meter is not None
        if self.cause is not None and self.instance.lasting and now >= self._patience:
            self._patience = float("inf")
            self.instance.kill()
        if not self.meter.started and self.instance.lasting:
            self._read_control()  # that it has begun, which nobody is woken for
        if not self.meter.started:
            if now >= self._setup_deadline:
                self.refuse(self._late(self.instance))
                self._setup_deadline = float("inf")
            soon = min(self._patience, now + _BEGIN_SECONDS) if self.instance.lasting else float("inf")
            return min(self._setup_deadline, soon)
        if self.cause is not None:
            return min(self._patience, now + _AGAIN_SECONDS if self._unthrottle() else float("inf"))
        assert self._run_control is not None and self._output is not None
        if not self._output.begun:
            if now < self.meter.begin + _SILENT_SECONDS:
                return self.meter.begin + _SILENT_SECONDS
            self._output.begin()
        if now >= self.meter.next_look:
            self._look(now)
        if now >= self.meter.next_report:
            self._tell_usage(now)
        return min(self.meter.next_look, self.meter.next_report, self._run_control.pull(now))

    def _look(self, now: float) -> None:
        assert self.meter is not None
        if self.meter.oom_outside:
            self.kill("setup")  # what is left of the run has lost a part by no fault of its own
        for guarantee, state, used, figure in self.meter.look(now):
            self._connection.send("limit", guarantee=guarantee, state=state, used=used, figure=figure)
            if state == "met" and guarantee in _ENDING:
                self._end_for(guarantee)
        if self.cause is None:
            self._owner.weights.look(self, now)

    def _end_for(self, guarantee: str) -> None:
        """End the run for a limit, unless its time is up because of us: a helper that stands still says of no end."""
        assert self._init is not None
        held = self._init.standing_still() if guarantee == "wall_time" else ""
        if held:
            self.refuse(f"{held} was stopped by a signal from outside, and the run's wall time is over")
        else:
            self.kill(guarantee)

    @staticmethod
    def _late(instance: Instance) -> str:
        step = "the guest's process did not begin its program" if instance.ready else "its init was not ready"
        return f"the sandbox took too long to set up: {step} (init: pid {instance.init})"

    def _tell_usage(self, now: float) -> None:
        assert self.meter is not None and self._output is not None
        usage = self.meter.usage(now)
        if not self._connection.pending:  # or a slow reader would find a heap of old ones
            self._connection.send("usage", output=self._output.count, **usage)

    def kill(self, cause: str) -> None:
        """End the run for ``cause``; the first cause stands. If only the collecting is left, that is ended."""
        if self._over:
            if self._collection is not None:
                self._collection.stop(f"ended while files were brought out: {cause}")
            return
        self.cause = self.cause or cause
        self._mark_due()
        if (
            self.instance is not None and not self._ended and not self._finished
        ):  # or a keeper that stays would be killed
            self._dying = min(self._dying, time.monotonic())
            try:
                self._kill(self.instance)
            except OSError:
                self.instance.kill_at_once()

    def _kill(self, instance: Instance) -> None:
        self._unthrottle()  # or the dying would wait for their share of the CPU, and who ends them die for memory
        if self._may_end_gently(instance):
            instance.end_guest()
            self._patience = min(self._patience, time.monotonic() + _GENTLE_SECONDS)
        else:
            instance.kill()
        if self._run_control is not None:
            self._run_control.release()

    def _may_end_gently(self, instance: Instance) -> bool:
        """Return whether to leave it to a keeper that stays to end all beside the guest's first process: it needs its
        turn on a processor for that, for which many others would make it wait."""
        if not instance.lasting or self._patience < time.monotonic() or self.slot is None:
            return False
        tasks = self.slot.tasks()
        return tasks is not None and tasks <= _FEW

    def _unthrottle(self) -> bool:
        return self.slot is not None and self.slot.group is not None and self.slot.group.unthrottle()

    def _conclude(self) -> None:
        """Nothing of the guest is left, by the init's word or the kernel's: bring out what is wanted, and answer."""
        assert self.meter is not None and self._output is not None
        if self._over or self._finished:
            return
        self.meter.stop()
        known = self.cause
        self._output.take_output()  # it may be past its limit, which is a cause
        if self.cause != known and self._completion_status is not None and self._exit is not None:
            self._exit["status"] = int(signal.SIGKILL)  # by which it has ended, whatever it has announced
        self._over = True
        try:
            self._collection = self._collect()
        except OSError as error:
            self._answer(faults.explain("start the process that brings files out", error))
            return
        if self._collection is None:
            self._answer("")

    def _collect(self) -> Collection | None:
        instance, launch, slot = self.instance, self._launch, self.slot
        assert instance is not None and launch is not None and slot is not None and self.meter is not None
        if launch.collect is None or not self.meter.started:
            return None
        uid = slot.uid if launch.host_uid is None else launch.host_uid
        return Collection(
            self._loop,
            launch.collect,
            instance.collect_fds,
            uid_for(uid),
            on_data=self._on_collected,
            on_end=self._answer,
        )

    def _on_collected(self, data: bytes) -> None:
        self._connection.send("collected", data=data)

    def _answer(self, trouble: str) -> None:
        """Read what there is to read of the run and say it all; ``trouble`` is what kept files from coming out."""
        instance, meter = self.instance, self.meter
        assert instance is not None and meter is not None
        self._finished = True
        self._dying = time.monotonic()
        self._mark_due()
        try:
            self._report(meter, trouble)
        except Exception as error:  # the caller must have its answer, whatever cannot be read
            self._connection.send("refused", last=True, message=faults.explain("read the end of the run", error))
        self._stdin.close()
        if self._denials is not None:
            self._denials.close()
        if self._output is not None:
            self._output.close()
        self._loop.forget(instance.control.fileno())
        if self._dead or (instance.lasting and self._ended):
            self._release_slot()
        else:
            instance.dismiss()

    def _report(self, meter: Meter, trouble: str) -> None:
        assert self._output is not None
        self._output.take_report()
        report = self._findings(meter, trouble)
        self._owner.note(report.peak_memory, starved=bool(report.oom_outside))
        trace.note(self.traced, trace.ANSWERED)
        self._connection.send("exited", last=True, report=report.as_wire(), notes=trace.take() if self.traced else [])

    def _findings(self, meter: Meter, trouble: str) -> Report:
        assert self._denials is not None and self._output is not None
        return Report(
            **meter.report(self._exit).as_dict(),
            cause=self.cause,
            failure=self._failure,
            collect_trouble=trouble,
            warm=self.instance is not None and self.instance.lasting,
            pending=self._pending,
            **self._output.report(),
            **self._denials.report(),
        )

    def on_death(self, _events: int) -> None:
        """The init is dead, so by the kernel's word nothing of its PID namespace is left."""
        instance = self.instance
        assert instance is not None
        while not self._over and self._on_control(0):
            pass  # what the dead have said last: that the program had begun, most likely
        self._loop.forget(instance.pidfd)
        self._dead = True
        if self._exit is None and self.cause is None and not self._ran_out_of_memory():
            message = f"the sandbox's init (pid {instance.init}) was killed from outside, and the run with it"
            self._failure = self._failure or Failure(kind="setup", message=message)
        self._conclude()
        if self._finished and self.instance is not None:
            self._release_slot()

    def _ran_out_of_memory(self) -> bool:
        return self.slot is not None and self.slot.group is not None and self.slot.group.oom_kills() > 0

    def _release_slot(self) -> None:
        """Give the slot back: its cell is dead, and nobody looks into what it has left."""
        instance, slot = self.instance, self.slot
        assert instance is not None and slot is not None
        instance.close()
        self.instance = None
        self._owner.release(slot)  # after the answer: it may wait for the kernel
        trace.note(self.traced, trace.RELEASED)
        if self._connection.gone:
            self._end()
