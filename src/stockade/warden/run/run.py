"""One run under the warden's eyes: fed, counted, timed, ended, reaped, and reported."""

from __future__ import annotations

import _socket as socket
import os
import time

from stockade.core import trace
from stockade.core.launch import Launch
from stockade.core.report import Failure
from stockade.linux import faults
from stockade.warden import loop, protocol
from stockade.warden.cold.cgroup_slot import CgroupSlot
from stockade.warden.cold.instance import COLLECT_FDS, LISTENER
from stockade.warden.handover import Handover
from stockade.warden.helper_liveness import Helper
from stockade.warden.run.connection import Connection
from stockade.warden.run.control import ASKS, RunControl
from stockade.warden.run.denials import Denials
from stockade.warden.run.ending import GUEST_TO_BE, Ending
from stockade.warden.run.meter import Meter
from stockade.warden.run.output import OutputCapture
from stockade.warden.run.stdin import ENOUGH, StdinFeeder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any

    from stockade.warden.cold.instance import Instance
    from stockade.warden.owner import RunOwner
else:
    from _functools import partial

_CHUNK = 1 << 16
_EXPECT_SECONDS = 0.0005
_SEND_AHEAD = 1 << 20
_SMALL = 1 << 15
_FED_EVERY = 1 << 17


class Run(Ending):
    """The state of one run, from the caller's launch to the report. All callbacks come from one loop."""

    def __init__(
        self, events: loop.Loop, sock: socket.socket, decoder: protocol.Decoder, before: Launch | None, owner: RunOwner
    ) -> None:
        """``before`` is what both ends remember of the last launch over ``sock``."""
        self._before = before
        self._loop = loop.Guarded(events, self.refuse)
        self._owner = owner
        self._stdin = StdinFeeder(self._loop, self._pace)
        self._denials: Denials | None = None
        self._control = protocol.Decoder()
        self._launch: Launch | None = None
        self._completion_status: int | None = None
        self._pending = False
        self._failure: Failure | None = None
        self._exit: dict[str, Any] | None = None
        self._output: OutputCapture | None = None
        self._collection = None
        self._over = False
        self._dead = False
        self._run_control: RunControl | None = None
        self._asked: list[tuple[str, int]] = []
        self._fed = 0
        self._launched = False
        self.traced = 0
        self._ended = False
        self._finished = False
        self._due = 0.0
        self._setup_deadline = float("inf")
        self._patience = self._deaf = self._dying = float("inf")
        self._init: Helper | None = None
        self._handover: Handover | None = None
        self._handed_over = self._waits = False
        self.turned_away = False
        """Whether a warm interpreter was lost for it, before it began."""
        self.cause: str | None = None
        self.slot: CgroupSlot | None = None
        self.instance: Instance | None = None
        self.meter: Meter | None = None
        self._connection = Connection(self._loop, sock, decoder, self)

    # -- the caller's side -------------------------------------------------------------------------------------

    def on_message(self, kind: str, fields: dict[str, Any]) -> None:
        """Begin with a launch; feed standard input."""
        self._mark_due()
        if kind == "launch" and not self._launched:
            self._launched = True
            self._launch = Launch.from_wire(fields, self._before)
            self._before = self._launch.remembered()
            self.traced = self._launch.trace
            trace.note(self.traced, trace.READ)
            self._owner.start(self, self._launch)
            if not (self._handed_over or self._finished):
                self._waits = True
                self._connection.send("waiting")
        elif kind == "ping":
            self._connection.send("pong")
        elif kind == "stdin":
            if self._launched:  # or it was meant for an earlier run over this socket, which has ended
                self._stdin.take(fields["data"])
                self._pace()
        elif kind in ASKS:
            if self._launched:
                self._asked.append((kind, fields.get("number", 0)))  # done at the next tick
        else:
            raise protocol.WireError(f"no such message: {kind}")

    def on_nonsense(self, reason: str) -> None:
        """Refuse what cannot be understood."""
        self.refuse(reason)

    def on_cancel(self) -> None:
        """End the run; the caller waits for the verdict."""
        if self.instance is None:
            self.refuse("cancelled before it began")
        else:
            self.kill("cancelled")

    def on_gone(self) -> None:
        """Nobody waits for the answer, so nothing may go on running for it."""
        if self.instance is None:
            self._end()
        else:
            self.kill("caller_gone")  # nothing to kill if it has ended; then its last process is waited for

    def on_answered(self, sock: socket.socket, decoder: protocol.Decoder) -> None:
        """Hand the socket on to the next run."""
        self._owner.serve(sock, decoder, self._before)

    def on_flushed(self) -> None:
        """Go on reading the guest's output, or stop, or be done."""
        self._pace()
        if self._finished and self._connection.gone and self.instance is None:
            self._end()

    def refuse(self, message: str) -> None:
        """Answer that the sandbox failed, and end."""
        self._failure = self._failure or Failure(kind="setup", message=message)
        if self.instance is not None:
            self.kill("setup")
        elif not self._finished:
            self._finished = True
            self._stdin.close()
            self._connection.send("refused", last=True, message=message)

    def lost(self, message: str) -> None:
        """Answer that the sandbox failed: a process that it hangs on is gone."""
        self.refuse(message)

    @property
    def gone(self) -> bool:
        """Whether nobody waits for this run any more."""
        return self._finished or self._connection.gone

    def _end(self) -> None:
        self._finished = True
        self._stdin.close()
        self._connection.close()
        self._owner.done(self)

    def _pace(self) -> None:
        """Take the guest's output only as fast as the caller does, and the caller's input as fast as the guest."""
        if self._finished:
            return
        if self._stdin.taken - self._fed >= _FED_EVERY:
            self._fed = self._stdin.taken
            self._connection.send("fed", count=self._fed)
        self._connection.listen(self._stdin.size < ENOUGH)
        if self._output is not None:
            self._output.pause(self._connection.pending >= _SEND_AHEAD)
        if self._collection is not None:
            self._collection.pause(self._connection.pending >= _SEND_AHEAD)

    # -- the guest's side --------------------------------------------------------------------------------------

    def adopt(self, slot: CgroupSlot) -> None:
        """Take a slot's cell and hand it the launch as soon as it is ready."""
        instance, launch = slot.instance, self._launch
        assert instance is not None and launch is not None
        self.slot, self.instance = slot, instance
        self._init = Helper(instance.init, "the sandbox's init", time.monotonic())
        self._handover = Handover(self._loop, instance, self._on_control)
        self._mark_due()
        trace.note(self.traced, trace.TAKEN)
        watch = launch.watch
        self.meter = Meter(watch, slot, launch.groups)
        freezer = partial(self._owner.freezer, slot)
        self._run_control = RunControl(instance.init, watch.engine_tasks, self.meter, freezer, self._asked)
        if self.cause is not None:
            instance.kill()
        elif instance.ready:
            self._hand_over()  # before all else: the cell wakes up meanwhile
        self._watch = watch
        self._setup_deadline = time.monotonic() + watch.setup_seconds
        self._denials = Denials(self._loop, launch.errnos)
        self._denials.open(instance.take_listener())
        if not instance.lasting:  # or others watch, and tell
            self._loop.watch(instance.pidfd, loop.READ, self.on_death)
            self._handover.listen()
        self._output = OutputCapture(
            self._loop,
            instance,
            watch,
            channel=launch.channel,
            on_head=self._on_head,
            on_limit=self._on_output_limit,
            on_end=_nothing if instance.lasting else self._expect_end,
            on_completed=self._on_completed if instance.lasting else None,
            at_once=watch.live or not instance.lasting,  # else the guest most likely ends before anybody has to
        )
        if not launch.stdin:
            self._stdin.take(b"")
        self._stdin.open(instance.take_stdin())

    def _hand_over(self) -> None:
        assert self.instance is not None and self.slot is not None and self._launch is not None
        assert self.meter is not None and self._handover is not None
        self.meter.hand_over()
        self._handed_over = True
        if self._waits:
            self._connection.send("accepted")  # first: whoever finds us gone must know that the run may have begun
        try:
            self.slot.arm(self._launch.groups)
            trace.note(self.traced, trace.HANDED_OVER)
            self._handover.send(self.slot.order(self._launch))
        except OSError as error:
            self.refuse(faults.explain("hand the run over to the process that becomes its guest", error))

    def _on_control(self, events: int) -> bool:
        """Take what the cell's own processes report, and conclude if it is the end; return whether more may come."""
        if events & loop.WRITE and self._handover is not None:
            self._handover.go_on()
        more = self._read_control()
        if self._ended:
            self._conclude()
            return False
        return more

    def _read_control(self) -> bool:
        assert self.instance is not None
        try:
            data = self.instance.receive(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.forget(self.instance.control.fileno())
            if not (self.instance.lasting or self._ended):
                self._deaf = min(self._deaf, time.monotonic())
                self._mark_due()
            return False
        for kind, fields in self._control.feed(data):
            self._on_report(kind, fields)
        return True

    def _on_report(self, kind: str, fields: dict[str, Any]) -> None:
        assert self.meter is not None
        assert self.instance is not None
        if kind == LISTENER:
            self._on_listener()
        elif kind == COLLECT_FDS:
            if not self.instance.accept_message(COLLECT_FDS):
                self.refuse("no descriptor was free for the folder to collect from")
        elif self.instance.accept_message(kind):
            if self.instance.ready:
                self._hand_over()
        elif kind == "exec":
            trace.note(self.traced, trace.STARTED)
            trace.notes.extend(fields["notes"])
            self.meter.start(fields["at"], fields["cpu_seconds"], fields["peak_memory"])
            self._mark_due()
            self._owner.begun(self)
            self._connection.send_with_next("started")
            if self._watch.live:
                self._connection.flush()
        elif kind == "exit":
            self._on_exit(fields)
        elif kind.endswith("_failed") and self._failure is None:
            self._failure = Failure(kind=kind.removesuffix("_failed"), message=fields["message"])
            if kind == "init_failed":
                self.kill("setup")

    def _on_exit(self, fields: dict[str, Any]) -> None:
        """Nothing of the guest is left."""
        assert self.instance is not None
        self._ended = True
        if not (self.meter is None or self.meter.started or self.cause) and os.WIFSIGNALED(fields["status"] or 0):
            number = os.WTERMSIG(fields["status"])
            message = f"{GUEST_TO_BE} was ended by signal {number} from outside before the program began"
            self._failure = self._failure or Failure(kind="setup", message=message)
        trace.note(self.traced, trace.REAPED, fields["at"])
        trace.note(self.traced, trace.EMPTY)
        self._connection.flush()  # the caller wakes up while the readings are taken
        self._exit = fields | self.instance.see()
        if self._completion_status is not None:
            self._exit["status"] = self._completion_status << 8

    def on_end(self, fields: dict[str, Any]) -> None:
        """Conclude: a keeper that stays says so of its guest."""
        if self.instance is not None and not self._over:
            while self._read_control():
                pass  # what the guest-to-be has said last
            self._on_exit(fields)
            self._conclude()

    def _on_completed(self, status: int) -> None:
        """The guest says that it is done, and with which status: its own choice in any case. It is killed; if the
        kernel counts no other process of the run, there is nothing to wait for: what a killed one has is taken down
        behind the answer. Who follows the run as it happens is told of its end when that is done, too."""
        instance, slot, launch = self.instance, self.slot, self._launch
        if instance is None or slot is None or launch is None or self._over or self.cause is not None:
            return
        self._completion_status = status
        instance.end_guest()
        trace.note(self.traced, trace.COMPLETION_SEEN)
        self._read_control()  # that the program has begun
        group = slot.group
        counted = group is not None and group.counts_memory
        if launch.collect is None and not launch.watch.live and counted and slot.holds_one():
            trace.note(self.traced, trace.ALONE)
            self._exit = {"status": status << 8, **instance.see()}
            self._ended = self._pending = True
            self._conclude()

    def _on_listener(self) -> None:
        assert self.instance is not None and self._denials is not None
        if self.instance.accept_message(LISTENER):
            self._denials.open(self.instance.take_listener())
        else:
            self.refuse("no descriptor was free for the listener of the system-call filter")

    def _expect_end(self) -> None:
        """The streams have ended, so most likely the guest has: its init is about to say so. To fall asleep now
        and be woken again would cost more than to wait a moment."""
        until = time.monotonic() + _EXPECT_SECONDS
        while not self._over and time.monotonic() < until:
            os.sched_yield()
            self._on_control(0)

    def _on_head(self, number: int, at: int, data: bytes) -> None:
        if self.meter is not None and not self.meter.started:
            self._read_control()  # that the program has begun; if it has ended as well, the next tick concludes
        if (
            self.instance is not None
            and self.instance.lasting
            and not self._watch.live
            and self._connection.pending < _SMALL
        ):
            self._connection.send_with_next("output", stream=number, at=at, data=data)  # most likely it is all there is
        else:
            self._connection.send("output", stream=number, at=at, data=data)

    def _on_output_limit(self, state: str, used: int) -> None:
        self._connection.send("limit", guarantee="output", state=state, used=used, figure=self._watch.output_bytes)
        if state == "met" and self._watch.kill_on_output:
            self.kill("output")


def _nothing() -> None:
    pass
