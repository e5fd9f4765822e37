"""The guest's side of one run: its instance, what the processes there report, and what the guest writes."""

from __future__ import annotations

import os
import time

from stockade.core import trace
from stockade.core.report import Failure
from stockade.linux import faults
from stockade.warden import loop, protocol
from stockade.warden.cold.instance import COLLECT_FDS, LISTENER
from stockade.warden.handover import Handover
from stockade.warden.run.control import RunControl
from stockade.warden.run.denials import Denials
from stockade.warden.run.ending import Ending
from stockade.warden.run.meter import Meter
from stockade.warden.run.output import OutputCapture
from stockade.warden.run.phase import Phase
from stockade.warden.run.watcher import GUEST_TO_BE, Watcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any

    from stockade.core.launch import Launch
    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.cold.instance import Instance
    from stockade.warden.run.run import Run
else:
    from _functools import partial  # ``functools`` imports half a dozen modules

_CHUNK = 1 << 16
_EXPECT_SECONDS = 0.0005
_SMALL = 1 << 15
"""Bytes of output that may wait for the end of a short run, to reach the caller with it."""


class Execution:
    """An instance at work for one run. ``watcher`` watches it, and ``ending`` ends it."""

    def __init__(
        self, run: Run, slot: CgroupSlot, instance: Instance, launch: Launch, asked: list[tuple[str, int]]
    ) -> None:
        """Connect the parts, without a system call. ``asked`` are the caller's requests, in their order."""
        self.run, self.slot, self.instance, self.launch = run, slot, instance, launch
        self.meter = Meter(launch.watch, slot, launch.groups)
        self.control = RunControl(
            instance.init, launch.watch.engine_tasks, self.meter, partial(run.owner.freezer, slot), asked
        )
        self.denials = Denials(run.loop, launch.errnos)
        self.output = OutputCapture(
            run.loop,
            instance,
            launch.watch,
            channel=launch.channel,
            on_head=self._on_head,
            on_limit=self._on_output_limit,
            on_end=_nothing if instance.lasting else self._expect_end,
            on_completed=self._on_completed if instance.lasting else None,
            at_once=launch.watch.live or not instance.lasting,  # a short warm guest ends before anybody must read
        )
        self.exit: dict[str, Any] | None = None
        """The report of init or worker on the end; ``None`` until it has come."""
        self.pending = False
        """Whether the guest's only process was killed, and not yet reaped, when the run was concluded."""
        self.completed: int | None = None
        """The exit status that the guest announced before the warden killed it."""
        self._decoder = protocol.Decoder()
        self._handover = Handover(run.loop, instance, self._on_control)
        self.ending = Ending(self)
        self.watcher = Watcher(self)

    def begin(self) -> None:
        """Hand over the launch if the instance is ready, and begin to read."""
        if self.instance.ready:
            self._hand_over()  # before all else: the guest's process wakes up meanwhile
        self.denials.open(self.instance.take_listener())
        if not self.instance.lasting:  # a worker's socket and pidfd are watched by its pool
            self.run.loop.watch(self.instance.pidfd, loop.READ, self._on_init_death)
            self._handover.listen()
        self.output.start()
        if not self.launch.stdin:
            self.run.stdin.take(b"")
        self.run.stdin.open(self.instance.take_stdin())

    def pause_reading(self, pause: bool) -> None:
        """Stop reading output and collected files, or read them again."""
        self.output.pause(pause)
        if self.ending.collection is not None:
            self.ending.collection.pause(pause)

    def _hand_over(self) -> None:
        self.meter.hand_over()
        self.run.hand_over()
        try:
            self.slot.arm(self.launch.groups)
            trace.note(self.run.traced, trace.HANDED_OVER)
            self._handover.send(self.slot.order(self.launch))
        except OSError as error:
            self.run.refuse(faults.explain("hand the run over to the process that becomes its guest", error))

    # -- reports of the instance's processes -------------------------------------------------------------------

    def _on_control(self, events: int) -> bool:
        """Read the control socket, and conclude at the end of the guest. Return whether more may come."""
        if events & loop.WRITE:
            self._handover.go_on()
        more = self.read_control()
        if self.run.phase >= Phase.ENDED:
            self.ending.conclude()
            return False
        return more

    def read_control(self) -> bool:
        """Read reports of the instance's processes. Return whether more may come."""
        try:
            data = self.instance.receive(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.run.loop.forget(self.instance.control.fileno())
            if not self.instance.lasting and self.run.phase < Phase.ENDED:
                self.watcher.note_silence()
            return False
        for kind, fields in self._decoder.feed(data):
            self._on_report(kind, fields)
        return True

    def _on_report(self, kind: str, fields: dict[str, Any]) -> None:
        run = self.run
        if kind == LISTENER:
            self._on_listener()
        elif kind == COLLECT_FDS:
            if not self.instance.accept_message(COLLECT_FDS):
                run.refuse("no descriptor was free for the folder to collect from")
        elif self.instance.accept_message(kind):
            if self.instance.ready:
                self._hand_over()
        elif kind == "exec":
            self._on_exec(fields)
        elif kind == "exit":
            self._on_exit(fields)
        elif kind.endswith("_failed") and run.failure is None:
            run.failure = Failure(kind=kind.removesuffix("_failed"), message=fields["message"])
            if kind == "init_failed":
                self.ending.kill("setup")

    def _on_listener(self) -> None:
        if self.instance.accept_message(LISTENER):
            self.denials.open(self.instance.take_listener())
        else:
            self.run.refuse("no descriptor was free for the listener of the system-call filter")

    def _on_exec(self, fields: dict[str, Any]) -> None:
        """The program begins."""
        run = self.run
        trace.note(run.traced, trace.STARTED)
        trace.notes.extend(fields["notes"])
        self.meter.start(fields["at"], fields["cpu_seconds"], fields["peak_memory"])
        run.advance(Phase.RUNNING)
        self.watcher.mark_due()
        run.owner.begun(run)
        run.connection.send_with_next("started")
        if self.launch.watch.live:
            run.connection.flush()

    def _on_exit(self, fields: dict[str, Any]) -> None:
        """No process of the guest is left, by the report of init or worker."""
        run = self.run
        run.advance(Phase.ENDED)
        self.exit = fields
        if not (self.meter.started or run.cause) and os.WIFSIGNALED(fields["status"] or 0):
            number = os.WTERMSIG(fields["status"])
            run.fail(f"{GUEST_TO_BE} was ended by signal {number} from outside before the program began")
        trace.note(run.traced, trace.REAPED, fields["at"])
        trace.note(run.traced, trace.EMPTY)
        run.connection.flush()  # the caller wakes up while the last counters are read
        self.exit = fields | self.instance.see()
        if self.completed is not None:
            self.exit["status"] = self.completed << 8

    def on_end(self, fields: dict[str, Any]) -> None:
        """Conclude: a worker reports that no process of its guest is left."""
        if self.run.phase >= Phase.CONCLUDING:
            return
        while self.read_control():
            pass  # the last reports of the guest's process
        self._on_exit(fields)
        self.ending.conclude()

    def _on_init_death(self, _events: int) -> None:
        self.on_death()

    def on_death(self) -> None:
        """Conclude: the init is dead, and with it, by the kernel's word, everything in its PID namespace."""
        run = self.run
        while run.phase < Phase.CONCLUDING and self._on_control(0):
            pass  # the last reports: most likely that the program had begun
        run.loop.forget(self.instance.pidfd)
        self.ending.init_dead = True
        if self.exit is None and run.cause is None and not self._ran_out_of_memory():
            run.fail(f"the sandbox's init (pid {self.instance.init}) was killed from outside, and the run with it")
        self.ending.conclude()
        if run.phase == Phase.ANSWERED and run.execution is self:
            self.ending.release()

    def _ran_out_of_memory(self) -> bool:
        return self.slot.group is not None and self.slot.group.oom_kills() > 0

    # -- the guest's output ------------------------------------------------------------------------------------

    def _on_completed(self, status: int) -> None:
        """The guest announces that it is done, and its exit status, which it may choose in any case. Kill it.

        If the kernel counts no other process of the run, the answer need not wait for the kernel to take down the
        killed one. A caller that follows live events learns of the end only when that is done, too.
        """
        run, slot, launch = self.run, self.slot, self.launch
        if run.phase >= Phase.CONCLUDING or run.cause is not None:
            return
        self.completed = status
        self.instance.end_guest()
        trace.note(run.traced, trace.COMPLETION_SEEN)
        self.read_control()  # the report that the program has begun
        group = slot.group
        counted = group is not None and group.counts_memory
        if launch.collect is None and not launch.watch.live and counted and slot.holds_one():
            trace.note(run.traced, trace.ALONE)
            self.exit = {"status": status << 8, **self.instance.see()}
            self.pending = True
            run.advance(Phase.ENDED)
            self.ending.conclude()

    def _expect_end(self) -> None:
        """Wait a moment for the end: both streams have ended, so most likely the guest has, and its init is about to
        report it. To fall asleep and be woken again would cost more."""
        until = time.monotonic() + _EXPECT_SECONDS
        while self.run.phase < Phase.CONCLUDING and time.monotonic() < until:
            os.sched_yield()
            self._on_control(0)

    def _on_head(self, number: int, at: int, data: bytes) -> None:
        if not self.meter.started:
            self.read_control()  # the report that the program has begun; after an end, the next tick concludes
        connection = self.run.connection
        if self.instance.lasting and not self.launch.watch.live and connection.pending < _SMALL:
            connection.send_with_next("output", stream=number, at=at, data=data)  # most likely the whole output
        else:
            connection.send("output", stream=number, at=at, data=data)

    def _on_output_limit(self, state: str, used: int) -> None:
        watch = self.launch.watch
        self.run.connection.send("limit", guarantee="output", state=state, used=used, figure=watch.output_bytes)
        if state == "met" and watch.kill_on_output:
            self.ending.kill("output")


def _nothing() -> None:
    pass
