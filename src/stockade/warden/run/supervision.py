"""The supervision of one execution: what is the same for every guest, however it runs."""

from __future__ import annotations

import os
import time

from stockade.core import trace
from stockade.core.report import Failure
from stockade.warden.run.control import RunControl
from stockade.warden.run.denials import Denials
from stockade.warden.run.ending import Ending
from stockade.warden.run.execution import END_GUEST, KILL
from stockade.warden.run.meter import Meter
from stockade.warden.run.output import OutputCapture
from stockade.warden.run.phase import Phase
from stockade.warden.run.second_start import start_again
from stockade.warden.run.watcher import Watcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.core.launch import Launch
    from stockade.warden.run.execution import Execution
    from stockade.warden.run.run import Run

_EXPECT_SECONDS = 0.0005
_SMALL = 1 << 15
"""Bytes of output that may wait for the end of a short run, to reach the caller with it."""


class Supervision:
    """Connects the execution of one run with its parts: ``watcher`` watches it, and ``ending`` ends it."""

    def __init__(self, run: Run, execution: Execution, launch: Launch, asked: list[tuple[str, int]]) -> None:
        """Connect the parts, without a system call. ``asked`` are the caller's requests, in their order."""
        self.run, self.execution, self.launch = run, execution, launch
        self.meter = Meter(launch.watch, execution, launch.groups)
        self.control = RunControl(execution, self.meter, asked)
        self.denials = Denials(run.loop, launch.errnos)
        self.output = OutputCapture(
            run.loop,
            execution.streams,
            launch.watch,
            channel=launch.channel,
            on_head=self._on_head,
            on_limit=self._on_output_limit,
            on_end=_nothing if execution.lasting else self._expect_end,
            on_completed=self._on_completed if execution.lasting else None,
            at_once=launch.watch.live or not execution.lasting,  # a short warm guest ends before anybody must read
            window=launch.stdio.window,
        )
        self.exit: dict[str, Any] | None = None
        """The report on the end; ``None`` until it has come."""
        self.pending = False
        """Whether the guest's only process was killed, and not yet reaped, when the run was concluded."""
        self.completed: int | None = None
        """The exit status that the guest announced before the warden killed it."""
        self._lost = ""
        """The process that the guest had lost when the warden killed it before its program began."""
        self.ending = Ending(self)
        self.watcher = Watcher(self)

    def begin(self) -> None:
        """Start the execution, and begin to read."""
        self.execution.start(self)
        self.output.start()
        if not self.launch.stdin:
            self.run.stdin.take(b"")
        self.run.stdin.open(self.execution.take_stdin())

    def pause_reading(self, pause: bool) -> None:
        """Stop reading output and collected files, or read them again."""
        self.output.pause(pause)
        if self.ending.collection is not None:
            self.ending.collection.pause(pause)

    # -- reports of the execution ------------------------------------------------------------------------------

    def on_handing_over(self) -> None:
        """Start the clock, in case the guest ends before its start is reported, and tell the caller."""
        self.meter.hand_over()
        self.run.hand_over()

    def on_listener(self, listener: int) -> None:
        """Answer refused system calls at ``listener``."""
        self.denials.open(listener)

    def on_started(self, fields: dict[str, Any]) -> None:
        """Start the wall clock: the program begins."""
        run = self.run
        run.stdin.begun()
        trace.note(run.traced, trace.STARTED)
        trace.notes.extend(fields["notes"])
        self.meter.start(fields["at"], fields["cpu_seconds"], fields["peak_memory"])
        run.advance(Phase.RUNNING)
        self.watcher.mark_due()
        run.owner.begun(run)
        run.connection.send_with_next("started", pid=fields.get("pid", 0))
        if self.launch.watch.live:
            run.connection.flush()

    def on_exit(self, fields: dict[str, Any]) -> None:
        """Keep the report that no process of the guest is left."""
        run = self.run
        run.advance(Phase.ENDED)
        self.exit = fields
        if not (self.meter.started or run.cause) and os.WIFSIGNALED(fields["status"] or 0):
            number = os.WTERMSIG(fields["status"])
            run.fail(
                f"the process that becomes the guest was ended by signal {number} from outside before the program began"
            )
        trace.note(run.traced, trace.REAPED, fields["at"])
        trace.note(run.traced, trace.EMPTY)
        run.connection.flush()  # the caller wakes up while the last counters are read
        self.exit = fields | self.execution.measure()
        if self.completed is not None:
            self.exit["status"] = self.completed << 8

    def on_failed(self, kind: str, message: str) -> None:
        """Keep the first failure; end the run if its init failed."""
        if self.run.failure is None:
            self.run.failure = Failure(kind=kind, message=message)
            if kind == "init":
                self.ending.kill("setup")

    def on_trouble(self, message: str) -> None:
        """End the run: the sandbox does not work any more."""
        self.run.refuse(message)

    def lose(self, message: str) -> bool:
        """Kill a guest that depends on a lost process. Return ``False`` if its program may have begun."""
        while self.execution.poll():
            pass  # most likely the report that the program has begun
        if self.run.phase >= Phase.RUNNING or not self.execution.may_start_again:
            return False
        self._lost = self._lost or message
        self.execution.control(KILL)
        return True

    def on_end(self, fields: dict[str, Any]) -> None:
        """Conclude: a worker reports that no process of its guest is left."""
        if self.run.phase >= Phase.CONCLUDING:
            return
        while self.execution.poll():
            pass  # the last reports of the guest's process
        if os.WIFSIGNALED(fields["status"] or 0) and start_again(self):
            return
        self.on_exit(fields)
        self.ending.conclude()

    def on_death(self) -> None:
        """Conclude: everything that could run for this guest is dead, by the kernel's word."""
        run = self.run
        while run.phase < Phase.CONCLUDING and self.execution.poll() and not self.conclude_if_ended():
            pass  # the last reports: most likely that the program had begun
        if start_again(self):
            return
        self.conclude_if_ended()
        self.ending.guest_dead = True
        if self.exit is None and run.cause is None and not self.ran_out_of_memory():
            run.fail(self._lost or f"{self.execution.name} was killed from outside, and the run with it")
        self.ending.conclude()
        if run.phase == Phase.ANSWERED and run.supervision is self:
            self.ending.release()

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel has killed a process of the run for its memory limit."""
        return self.execution.group is not None and self.execution.group.oom_kills() > 0

    def conclude_if_ended(self) -> bool:
        """Conclude the run if the guest has ended; return whether it has."""
        if self.run.phase < Phase.ENDED:
            return False
        self.ending.conclude()
        return True

    def mark_due(self) -> None:
        """Check the run at the next turn of the loop."""
        self.watcher.mark_due()

    # -- the guest's output ------------------------------------------------------------------------------------

    def _on_completed(self, status: int) -> None:
        """The guest announces that it is done, and its exit status, which it may choose in any case. Kill it.

        If the kernel counts no other process of the run, the answer need not wait for the kernel to take down the
        killed one. A caller that follows live events learns of the end only when that is done, too.
        """
        run, execution, launch = self.run, self.execution, self.launch
        if run.phase >= Phase.CONCLUDING or run.cause is not None:
            return
        self.completed = status
        execution.control(END_GUEST)
        trace.note(run.traced, trace.COMPLETION_SEEN)
        execution.poll()  # the report that the program has begun
        group = execution.group
        counted = group is not None and group.counts_memory
        if launch.collect is None and not launch.watch.live and counted and execution.holds_one():
            trace.note(run.traced, trace.ALONE)
            self.exit = {"status": status << 8, **execution.measure()}
            self.pending = True
            run.advance(Phase.ENDED)
            self.ending.conclude()

    def _expect_end(self) -> None:
        """Wait a moment for the end: both streams have ended, so most likely the guest has, and its init is about to
        report it. To fall asleep and be woken again would cost more."""
        until = time.monotonic() + _EXPECT_SECONDS
        while self.run.phase < Phase.CONCLUDING and time.monotonic() < until:
            os.sched_yield()
            self.execution.poll()
            self.conclude_if_ended()

    def _on_head(self, number: int, at: int, data: bytes) -> None:
        if not self.meter.started:
            self.execution.poll()  # the report that the program has begun; after an end, the next tick concludes
        connection = self.run.connection
        if self.execution.lasting and not self.launch.watch.live and connection.pending < _SMALL:
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
