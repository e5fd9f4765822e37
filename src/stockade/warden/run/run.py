"""One run under the warden's eyes: fed, counted, timed, ended, reaped, and reported."""

from __future__ import annotations

import _socket as socket
import os
import time

from stockade.core import trace
from stockade.core.launch import Launch
from stockade.linux import faults
from stockade.warden import loop, protocol
from stockade.warden.cold.cgroup_slot import Slot
from stockade.warden.cold.instance import LISTENER, OUTLET
from stockade.warden.handover import Handover
from stockade.warden.helper_liveness import Helper
from stockade.warden.run.connection import Link
from stockade.warden.run.control import ASKS, Reins
from stockade.warden.run.denials import Denials
from stockade.warden.run.ending import GUEST_TO_BE, Ending
from stockade.warden.run.meter import Meter
from stockade.warden.run.output import Outlets
from stockade.warden.run.stdin import ENOUGH, Feeder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any

    from stockade.warden.cold.instance import Cell
    from stockade.warden.owner import House
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
        self, events: loop.Loop, sock: socket.socket, decoder: protocol.Decoder, before: Launch | None, house: House
    ) -> None:
        """``before`` is what both ends remember of the last launch over ``sock``."""
        self._before = before
        self._loop = loop.Guarded(events, self.refuse)
        self._house = house
        self._feeder = Feeder(self._loop, self._pace)
        self._denials: Denials | None = None
        self._control = protocol.Decoder()
        self._launch: Launch | None = None
        self._announced: int | None = None
        self._pending = False
        self._failure: dict[str, Any] | None = None
        self._exit: dict[str, Any] | None = None
        self._outlets: Outlets | None = None
        self._collection = None
        self._over = False
        self._dead = False
        self._reins: Reins | None = None
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
        self.slot: Slot | None = None
        self.cell: Cell | None = None
        self.meter: Meter | None = None
        self._link = Link(self._loop, sock, decoder, self)

    # -- the caller's side -------------------------------------------------------------------------------------

    def on_message(self, kind: str, fields: dict[str, Any]) -> None:
        """Begin with a launch; feed standard input."""
        self._stir()
        if kind == "launch" and not self._launched:
            self._launched = True
            self._launch = Launch.from_wire(fields, self._before)
            self._before = self._launch.remembered()
            self.traced = self._launch.trace
            trace.note(self.traced, trace.READ)
            self._house.start(self, self._launch)
            if not (self._handed_over or self._finished):
                self._waits = True
                self._link.send("waiting")
        elif kind == "ping":
            self._link.send("pong")
        elif kind == "stdin":
            if self._launched:  # or it was meant for an earlier run over this socket, which has ended
                self._feeder.take(fields["data"])
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
        if self.cell is None:
            self.refuse("cancelled before it began")
        else:
            self.kill("cancelled")

    def on_gone(self) -> None:
        """Nobody waits for the answer, so nothing may go on running for it."""
        if self.cell is None:
            self._end()
        else:
            self.kill("caller_gone")  # nothing to kill if it has ended; then its last process is waited for

    def on_answered(self, sock: socket.socket, decoder: protocol.Decoder) -> None:
        """Hand the socket on to the next run."""
        self._house.serve(sock, decoder, self._before)

    def on_flushed(self) -> None:
        """Go on reading the guest's output, or stop, or be done."""
        self._pace()
        if self._finished and self._link.gone and self.cell is None:
            self._end()

    def refuse(self, message: str) -> None:
        """Answer that the sandbox failed, and end."""
        self._failure = self._failure or {"kind": "setup", "message": message}
        if self.cell is not None:
            self.kill("setup")
        elif not self._finished:
            self._finished = True
            self._feeder.close()
            self._link.send("refused", last=True, message=message)

    def lost(self, message: str) -> None:
        """Answer that the sandbox failed: a process that it hangs on is gone."""
        self.refuse(message)

    @property
    def gone(self) -> bool:
        """Whether nobody waits for this run any more."""
        return self._finished or self._link.gone

    def _end(self) -> None:
        self._finished = True
        self._feeder.close()
        self._link.close()
        self._house.done(self)

    def _pace(self) -> None:
        """Take the guest's output only as fast as the caller does, and the caller's input as fast as the guest."""
        if self._finished:
            return
        if self._feeder.taken - self._fed >= _FED_EVERY:
            self._fed = self._feeder.taken
            self._link.send("fed", count=self._fed)
        self._link.listen(self._feeder.size < ENOUGH)
        if self._outlets is not None:
            self._outlets.pause(self._link.pending >= _SEND_AHEAD)
        if self._collection is not None:
            self._collection.pause(self._link.pending >= _SEND_AHEAD)

    # -- the guest's side --------------------------------------------------------------------------------------

    def adopt(self, slot: Slot) -> None:
        """Take a slot's cell and hand it the launch as soon as it is ready."""
        cell, launch = slot.cell, self._launch
        assert cell is not None and launch is not None
        self.slot, self.cell = slot, cell
        self._init = Helper(cell.init, "the sandbox's init", time.monotonic())
        self._handover = Handover(self._loop, cell, self._on_control)
        self._stir()
        trace.note(self.traced, trace.TAKEN)
        watch = launch.watch
        self.meter = Meter(watch, slot, launch.groups)
        freezer = partial(self._house.freezer, slot)
        self._reins = Reins(cell.init, watch.engine_tasks, self.meter, freezer, self._asked)
        if self.cause is not None:
            cell.kill()
        elif cell.ready:
            self._hand_over()  # before all else: the cell wakes up meanwhile
        self._watch = watch
        self._setup_deadline = time.monotonic() + watch.setup_seconds
        self._denials = Denials(self._loop, launch.errnos)
        self._denials.open(cell.take_listener())
        if not cell.lasting:  # or others watch, and tell
            self._loop.watch(cell.pidfd, loop.READ, self.on_death)
            self._handover.listen()
        self._outlets = Outlets(
            self._loop,
            cell,
            watch,
            channel=launch.channel,
            on_head=self._on_head,
            on_limit=self._on_output_limit,
            on_end=_nothing if cell.lasting else self._expect_end,
            on_announced=self._on_announced if cell.lasting else None,
            at_once=watch.live or not cell.lasting,  # else the guest most likely ends before anybody has to
        )
        if not launch.stdin:
            self._feeder.take(b"")
        self._feeder.open(cell.take_stdin())

    def _hand_over(self) -> None:
        assert self.cell is not None and self.slot is not None and self._launch is not None
        assert self.meter is not None and self._handover is not None
        self.meter.hand_over()
        self._handed_over = True
        if self._waits:
            self._link.send("accepted")  # first: whoever finds us gone must know that the run may have begun
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
        more = self._hear()
        if self._ended:
            self._conclude()
            return False
        return more

    def _hear(self) -> bool:
        assert self.cell is not None
        try:
            data = self.cell.receive(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.forget(self.cell.control.fileno())
            if not (self.cell.lasting or self._ended):
                self._deaf = min(self._deaf, time.monotonic())
                self._stir()
            return False
        for kind, fields in self._control.feed(data):
            self._on_report(kind, fields)
        return True

    def _on_report(self, kind: str, fields: dict[str, Any]) -> None:
        assert self.meter is not None
        assert self.cell is not None
        if kind == LISTENER:
            self._on_listener()
        elif kind == OUTLET:
            if not self.cell.hear(OUTLET):
                self.refuse("no descriptor was free for the folder to collect from")
        elif self.cell.hear(kind):
            if self.cell.ready:
                self._hand_over()
        elif kind == "exec":
            trace.note(self.traced, trace.STARTED)
            trace.notes.extend(fields["notes"])
            self.meter.start(fields["at"], fields["cpu_seconds"], fields["peak_memory"])
            self._stir()
            self._house.begun(self)
            self._link.send_with_next("started")
            if self._watch.live:
                self._link.flush()
        elif kind == "exit":
            self._on_exit(fields)
        elif kind.endswith("_failed") and self._failure is None:
            self._failure = fields | {"kind": kind.removesuffix("_failed")}
            if kind == "init_failed":
                self.kill("setup")

    def _on_exit(self, fields: dict[str, Any]) -> None:
        """Nothing of the guest is left."""
        assert self.cell is not None
        self._ended = True
        if not (self.meter is None or self.meter.started or self.cause) and os.WIFSIGNALED(fields["status"] or 0):
            number = os.WTERMSIG(fields["status"])
            message = f"{GUEST_TO_BE} was ended by signal {number} from outside before the program began"
            self._failure = self._failure or {"kind": "setup", "message": message}
        trace.note(self.traced, trace.REAPED, fields["at"])
        trace.note(self.traced, trace.EMPTY)
        self._link.flush()  # the caller wakes up while the readings are taken
        self._exit = fields | self.cell.see()
        if self._announced is not None:
            self._exit["status"] = self._announced << 8

    def on_end(self, fields: dict[str, Any]) -> None:
        """Conclude: a keeper that stays says so of its guest."""
        if self.cell is not None and not self._over:
            while self._hear():
                pass  # what the guest-to-be has said last
            self._on_exit(fields)
            self._conclude()

    def _on_announced(self, status: int) -> None:
        """The guest says that it is done, and with which status: its own choice in any case. It is killed; if the
        kernel counts no other process of the run, there is nothing to wait for: what a killed one has is taken down
        behind the answer. Who follows the run as it happens is told of its end when that is done, too."""
        cell, slot, launch = self.cell, self.slot, self._launch
        if cell is None or slot is None or launch is None or self._over or self.cause is not None:
            return
        self._announced = status
        cell.end_guest()
        trace.note(self.traced, trace.HEARD)
        self._hear()  # that the program has begun
        group = slot.group
        counted = group is not None and group.counts_memory
        if launch.collect is None and not launch.watch.live and counted and slot.holds_one():
            trace.note(self.traced, trace.ALONE)
            self._exit = {"status": status << 8, **cell.see()}
            self._ended = self._pending = True
            self._conclude()

    def _on_listener(self) -> None:
        assert self.cell is not None and self._denials is not None
        if self.cell.hear(LISTENER):
            self._denials.open(self.cell.take_listener())
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
            self._hear()  # that the program has begun; if it has ended as well, the next tick concludes
        if self.cell is not None and self.cell.lasting and not self._watch.live and self._link.pending < _SMALL:
            self._link.send_with_next("output", stream=number, at=at, data=data)  # most likely it is all there is
        else:
            self._link.send("output", stream=number, at=at, data=data)

    def _on_output_limit(self, state: str, used: int) -> None:
        self._link.send("limit", guarantee="output", state=state, used=used, figure=self._watch.output_bytes)
        if state == "met" and self._watch.kill_on_output:
            self.kill("output")


def _nothing() -> None:
    pass
