"""The caller's side of a run, and the state that all parts of the run share.

A run first waits for an instance. From then on it has a ``Supervision`` of the guest's execution, until the release.
"""

from __future__ import annotations

import _socket as socket
import os
import time

from stockade.core import trace
from stockade.core.launch import Launch
from stockade.core.report import Failure
from stockade.linux.kill_switch import REFUSED
from stockade.warden import loop, protocol
from stockade.warden.run.connection import Connection
from stockade.warden.run.control import ASKS
from stockade.warden.run.phase import Phase
from stockade.warden.run.sandbox_execution import SandboxExecution
from stockade.warden.run.slot_execution import SlotExecution
from stockade.warden.run.stdin import ENOUGH, StdinFeeder
from stockade.warden.run.supervision import Supervision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.linux.kill_switch import KillSwitch
    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.owner import RunOwner
    from stockade.warden.run.execution import Execution

_SEND_AHEAD = 1 << 20
"""Bytes that may wait for the caller before the warden stops reading the guest's output."""
_FED_EVERY = 1 << 17
"""Bytes of standard input after which the caller learns how much of it the guest has taken."""


class Run:
    """A run, from the caller's launch to the report. All callbacks come from one loop."""

    def __init__(
        self,
        events: loop.Loop,
        sock: socket.socket,
        decoder: protocol.Decoder,
        before: Launch | None,
        owner: RunOwner,
        *,
        broker: int = -1,
    ) -> None:
        """``before`` is the part of the last launch over ``sock`` that both ends remember.

        ``broker`` is a descriptor for the run's proxy, or -1.
        """
        self.owner = owner
        self.broker = broker
        """The second descriptor that came with the run, or -1. Whoever takes it leaves -1."""
        self.loop = loop.Guarded(events, self.refuse)
        self.stdin = StdinFeeder(self.loop, self._pace)
        self.phase = Phase.IDLE
        self.traced = 0
        """The number under which the run's steps are noted; 0 for no trace."""
        self.cause: str | None = None
        """The first reason why the warden ends the run."""
        self.failure: Failure | None = None
        """The first failure of the sandbox, or of the command's execution."""
        self.cold = ""
        """Why the run got a fresh interpreter, although a warm one would serve it."""
        self.prewarmed = False
        """Whether the sandbox was ready before the run came."""
        self.turned_away = False
        """Whether the run lost a warm interpreter before it began."""
        self.begun_again = False
        """Whether the run lost its sandbox before its program began, and got another one."""
        self.supervision: Supervision | None = None
        """The guest's side, from the moment the run has an execution until its release."""
        self._instance_due = float("inf")
        self._before = before
        self._launch: Launch | None = None
        self._began = 0.0
        self._asked: list[tuple[str, int]] = []
        self._fed = 0
        self._caller_waits = False
        self.connection = Connection(self.loop, sock, decoder, self)

    # -- messages of the caller --------------------------------------------------------------------------------

    def on_message(self, kind: str, fields: dict[str, Any]) -> None:
        """Begin with a launch; pass on standard input and requests."""
        if self.supervision is not None:
            self.supervision.watcher.mark_due()
        launched = self.phase > Phase.IDLE
        if kind == "launch" and not launched:
            self._on_launch(fields)
        elif kind == "ping":
            self.connection.send("pong")
        elif kind == "stdin":
            if launched:  # otherwise it was meant for an earlier run over this socket, which has ended
                self.stdin.take(fields["data"])
                self._pace()
        elif kind in ASKS:
            self._on_request(kind, fields.get("number", 0))
        elif kind == "usage":
            if self.supervision is not None:
                self.supervision.watcher.report_usage(time.monotonic())
        elif kind == "taken":
            if self.supervision is not None and launched:
                self.supervision.output.take_back(fields["stream"], fields["count"])
        else:
            raise protocol.WireError(f"unknown message: {kind}")

    def _on_request(self, kind: str, number: int) -> None:
        if self.phase > Phase.IDLE:
            self._asked.append((kind, number))
            if self.supervision is not None:
                self.supervision.watcher.carry_out_requests()

    def _on_launch(self, fields: dict[str, Any]) -> None:
        self.advance(Phase.QUEUED)
        self._launch = Launch.from_wire(fields, self._before)
        self._began = time.time()
        self._before = self._launch.remembered()
        self.traced = self._launch.trace
        trace.note(self.traced, trace.READ)
        short_of = self.owner.start(self, self._launch)
        if self.phase < Phase.HANDED_OVER:
            self._caller_waits = True
            self.connection.send("waiting", short_of=short_of)

    def on_nonsense(self, reason: str) -> None:
        """Refuse a message that cannot be decoded."""
        self.refuse(reason)

    def on_cancel(self) -> None:
        """End the run; the caller waits for the verdict."""
        if self.supervision is None:
            self.refuse("cancelled before it began")
        else:
            self.supervision.ending.kill("cancelled")

    def stop_if_named(self, switch: KillSwitch) -> bool:
        """End the run if the kill switch names it. Return whether it does."""
        launch = self._launch
        if launch is None or not switch.concerns(launch.labels, launch.sandbox, self._began):
            return False
        if self.supervision is None:
            self.refuse(REFUSED)
        else:
            self.supervision.ending.kill("kill_switch")
        return True

    def on_gone(self) -> None:
        """End the run: nobody waits for its answer."""
        if self.supervision is None:
            self._end()
        elif not (self._launch is not None and self._launch.detached):
            # After the end this does nothing: the run waits for its last process.
            self.supervision.ending.kill("caller_gone")

    def on_answered(self, sock: socket.socket, decoder: protocol.Decoder) -> None:
        """Hand the socket on to the next run."""
        self.owner.serve(sock, decoder, self._before)

    def on_flushed(self) -> None:
        """Adapt the pace to the caller's; forget the run after the last byte of the answer."""
        self._pace()
        if self.phase == Phase.ANSWERED and self.connection.gone and self.supervision is None:
            self._end()

    def _pace(self) -> None:
        """Read the guest's output only as fast as the caller, and the caller's input only as fast as the guest."""
        if self.phase == Phase.ANSWERED:
            return
        if self.stdin.taken - self._fed >= _FED_EVERY:
            self._fed = self.stdin.taken
            self.connection.send("fed", count=self._fed)
        self.connection.listen(self.stdin.size < ENOUGH)
        if self.supervision is not None:
            self.supervision.pause_reading(self.connection.pending >= _SEND_AHEAD)

    # -- calls of the warden -----------------------------------------------------------------------------------

    @property
    def gone(self) -> bool:
        """Whether nobody waits for this run any more."""
        return self.phase == Phase.ANSWERED or self.connection.gone

    def adopt(self, slot: CgroupSlot) -> None:
        """Use the instance of ``slot``, and hand it the launch as soon as it is ready."""
        assert self._launch is not None
        trace.note(self.traced, trace.TAKEN)
        kind = SandboxExecution if self._launch.lives else SlotExecution
        self.execute(kind(self.loop, self.owner, slot, self._launch, self.broker))

    def execute(self, execution: Execution) -> None:
        """Run the guest by ``execution``."""
        assert self._launch is not None
        self.advance(Phase.SETTING_UP)
        self.supervision = Supervision(self, execution, self._launch, self._asked)
        self.supervision.begin()

    def tick(self, now: float, *, active: bool) -> float:
        """Check clock and counters if a check is due or something has happened. Return when to call again, in seconds
        of the monotonic clock. ``active``: some guest has run since such a tick before."""
        if self.supervision is not None:
            return self.supervision.watcher.tick(now, active=active)
        if now >= self._instance_due and self.phase < Phase.ANSWERED:
            self._instance_due = float("inf")
            self.refuse("the warden did not find a sandbox for the run in time, and gave no other reason")
        return self._instance_due

    def expect_instance(self, due: float) -> None:
        """Refuse the run unless it has an instance at the time ``due``, by the monotonic clock."""
        self._instance_due = due

    def refuse(self, message: str) -> None:
        """Answer that the sandbox failed, and end the run."""
        self.fail(message)
        if self.supervision is not None:
            self.supervision.ending.kill("setup")
        elif self.phase < Phase.ANSWERED:
            self.phase = Phase.ANSWERED
            self.stdin.close()
            self.connection.send("refused", last=True, message=message)

    def lost(self, message: str) -> None:
        """Answer that the sandbox failed: a process that the run depends on is gone.

        Where the warden itself ends the run, such a process may die first. The run's own end then gives the verdict.
        """
        if self.cause is None and not (self.supervision is not None and self.supervision.lose(message)):
            self.refuse(message)

    def on_end(self, fields: dict[str, Any]) -> None:
        """Conclude: the worker reports that no process of its guest is left."""
        if self.supervision is not None:
            self.supervision.on_end(fields)

    def on_death(self) -> None:
        """Conclude: the worker is dead."""
        if self.supervision is not None:
            self.supervision.on_death()

    # -- calls of the run's parts ------------------------------------------------------------------------------

    def advance(self, phase: int) -> None:
        """Move on to ``phase``, unless the run is past it."""
        self.phase = max(self.phase, phase)

    def fail(self, message: str) -> None:
        """Record that the sandbox failed; the first failure stands."""
        self.failure = self.failure or Failure(kind="setup", message=message)

    def hand_over(self) -> None:
        """Move on, and tell a caller that waits. A caller that then finds the warden gone must know that the run may
        have begun, so this comes before the guest gets anything."""
        self.advance(Phase.HANDED_OVER)
        if self._caller_waits:
            self._caller_waits = False
            self.connection.send("accepted")

    def release(self) -> None:
        """Give back the execution after the answer: its guest is dead. This may wait for the kernel."""
        supervision, self.supervision = self.supervision, None
        if supervision is not None:
            supervision.execution.release()
        trace.note(self.traced, trace.RELEASED)
        if self.connection.gone:
            self._end()

    def _end(self) -> None:
        self.phase = Phase.ANSWERED
        self.stdin.close()
        self.connection.close()
        if self.broker >= 0:
            os.close(self.broker)
            self.broker = -1
        self.owner.done(self)
