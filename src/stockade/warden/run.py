"""One run under the warden's eyes: fed, counted, timed, ended, reaped, and reported."""

from __future__ import annotations

import _socket as socket
import os
import time

from stockade._launch import Launch
from stockade.warden import loop, wire
from stockade.warden.meter import Meter
from stockade.warden.slot import OWN_TASKS, Slot
from stockade.warden.streams import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any, Protocol

    from stockade.warden.cell import Cell
else:
    from _functools import partial  # ``functools`` imports half a dozen modules

    Protocol = object

CHANNEL_LIMIT = 1 << 20
_CHUNK = 1 << 16
_SEND_AHEAD = 1 << 20
_STDIN_AHEAD = 1 << 20


class House(Protocol):
    """What a run needs of the warden around it."""

    def start(self, run: Run, launch: Launch, raw: bytes) -> None:
        """Find a cell for ``run``."""

    def release(self, slot: Slot) -> None:
        """Take back a slot whose cell is dead."""

    def done(self, run: Run) -> None:
        """Forget ``run``."""


class Run:
    """The state of one run, from the caller's launch to the report. All callbacks come from one loop."""

    def __init__(self, events: loop.Loop, sock: socket.socket, house: House) -> None:
        self._loop = events
        self._sock = sock
        self._house = house
        self._decoder = wire.Decoder()
        self._outgoing = bytearray()
        self._stdin: list[memoryview] = []
        self._stdin_size = 0
        self._stdin_ended = False
        self._failure: dict[str, Any] | None = None
        self._exit: dict[str, Any] | None = None
        self._channel = bytearray()
        self._channel_overflow = False
        self._caller_gone = False
        self._shut = False
        self._finished = False
        self._setup_deadline = float("inf")
        self.cause: str | None = None
        self.slot: Slot | None = None
        self.cell: Cell | None = None
        self._launch: Launch | None = None
        self.meter: Meter | None = None
        self._raw = b""
        self._control = wire.Decoder()
        self._launched = False
        self._streams: dict[int, int] = {}
        self._paused = False
        self._watch_caller()

    # -- the caller's side -------------------------------------------------------------------------------------

    def _watch_caller(self) -> None:
        if self._sock.fileno() < 0:
            return  # refused and closed, with more of the caller's messages at hand
        listening = not self._caller_gone and not self._shut
        events = loop.SHUT if listening else 0
        events |= loop.READ if listening and self._stdin_size < _STDIN_AHEAD else 0
        events |= loop.WRITE if self._outgoing else 0
        self._loop.watch(self._sock.fileno(), events, self._on_caller)

    def _on_caller(self, events: int) -> None:
        if events & loop.HUNG_UP:
            self._lose_caller()
            return
        if events & loop.SHUT and not self._shut:
            self._shut = True
            self.kill("cancelled")
            self._watch_caller()
        if events & loop.WRITE:
            self._flush()
        if events & loop.READ and not self._finished and not self._shut:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose_caller()
            return
        try:
            for kind, fields in self._decoder.feed(data):
                self._on_message(kind, fields)
        except (wire.WireError, KeyError, TypeError) as error:
            self.refuse(f"the caller sent nonsense: {error!r}")

    def _on_message(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "launch" and not self._launched:
            self._launched = True
            raw = wire.encode(
                kind, steps=fields["steps"], argv=fields["argv"],
                environment=fields["environment"], channel=fields["channel"],
            )  # fmt: skip
            self._house.start(self, Launch.from_wire(fields), raw)
        elif kind == "stdin":
            self._take_stdin(fields["data"])
        else:
            raise wire.WireError(f"no such message: {kind}")

    def _lose_caller(self) -> None:
        """Nobody waits for the answer any more, so nothing may go on running for it."""
        self._caller_gone = True
        self._outgoing.clear()
        if self.cell is None:
            self._close()
        else:
            self._loop.forget(self._sock.fileno())
            self.kill("caller_gone")

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message to the caller, now as far as it goes and the rest when the socket takes it."""
        if not self._caller_gone:
            self._outgoing += wire.encode(kind, **fields)
            self._flush()

    def _flush(self) -> None:
        try:
            while self._outgoing:
                sent = self._sock.send(self._outgoing, socket.MSG_NOSIGNAL)
                del self._outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._lose_caller()
            return
        if self._finished and not self._outgoing:
            self._close()
            return
        if not self._finished:
            self._pace_streams()
        self._watch_caller()

    def refuse(self, message: str) -> None:
        """Answer that the sandbox failed, and end."""
        self._failure = self._failure or {"kind": "setup", "message": message}
        if self.cell is not None:
            self.kill("setup")
            return
        self._stdin.clear()
        self._stdin_size = 0
        if not self._finished:
            self._finished = True
            self.send("refused", message=message)
            if not self._outgoing:
                self._close()

    def _close(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.forget(self._sock.fileno())
            self._sock.close()
            self._finished = True
            self._house.done(self)

    # -- the guest's side --------------------------------------------------------------------------------------

    def adopt(self, slot: Slot, launch: Launch, raw: bytes) -> None:
        """Take a slot's cell and hand it the launch as soon as its init says that it is ready."""
        cell = slot.cell
        assert cell is not None
        self.slot, self.cell, self._launch, self._raw = slot, cell, launch, raw
        watch = launch.watch
        self.meter = Meter(watch, slot)
        self._keepers = {number: Keeper(watch.output_bytes, head_only=watch.kill_on_output) for number in (1, 2)}
        self._kill_on_output = watch.kill_on_output
        self._setup_deadline = time.monotonic() + watch.setup_seconds
        self._loop.watch(cell.pidfd, loop.READ, self._on_death)
        self._loop.watch(cell.control.fileno(), loop.READ, self._on_control)
        self._loop.watch(cell.channel, loop.READ, self._on_channel)
        self._streams = {1: cell.stdout, 2: cell.stderr}
        for number, fd in self._streams.items():
            self._loop.watch(fd, loop.READ, partial(self._on_stream, number, fd))
        self._pump_stdin(0)
        if self.cause is not None:
            cell.kill()
        elif cell.ready:
            self._hand_over()

    def _hand_over(self) -> None:
        assert self.cell is not None and self.slot is not None and self._launch is not None
        groups = self._launch.groups
        try:
            if self.slot.group is not None:
                processes = None if groups.processes is None else groups.processes + OWN_TASKS
                self.slot.group.begin()
                self.slot.group.limit(groups.memory, groups.swap, processes, groups.cores)
            self.cell.control.sendall(self._raw)
        except OSError as error:
            self.refuse(f"the run could not be handed over: {error}")
        self._raw = b""

    def _on_control(self, _events: int) -> bool:
        """Take what the cell's own processes report; return whether more may come."""
        assert self.cell is not None
        try:
            data = self.cell.control.recv(_CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.forget(self.cell.control.fileno())
            return False
        for kind, fields in self._control.feed(data):
            self._on_report(kind, fields)
        return True

    def _on_report(self, kind: str, fields: dict[str, Any]) -> None:
        assert self.meter is not None
        if kind == "ready":
            self._hand_over()
        elif kind == "exec":
            self.meter.start(fields["cpu_seconds"], fields["peak_memory"])
            self._pump_stdin(0)
            self.send("started")
        elif kind == "exit":
            self._exit = fields
        elif kind.endswith("_failed") and self._failure is None:
            self._failure = fields | {"kind": kind.removesuffix("_failed")}
            if kind == "init_failed":
                self.kill("setup")

    def _take_stdin(self, data: bytes) -> None:
        if data:
            self._stdin.append(memoryview(data))
            self._stdin_size += len(data)
        else:
            self._stdin_ended = True
        self._pump_stdin(0)
        self._watch_caller()

    def _pump_stdin(self, _events: int) -> None:
        cell = self.cell
        if cell is None:  # it is being made; what comes meanwhile waits
            return
        if cell.stdin < 0:
            self._stdin.clear()
            self._stdin_size = 0
            return
        try:
            while self._stdin:
                written = os.write(cell.stdin, self._stdin[0][:_CHUNK])
                self._stdin_size -= written
                self._stdin[0] = self._stdin[0][written:]
                if not self._stdin[0]:
                    self._stdin.pop(0)
        except BlockingIOError:
            self._loop.watch(cell.stdin, loop.WRITE, self._on_stdin_room)
            return
        except OSError:  # nobody reads it any more
            self._stdin_ended = True
            self._stdin.clear()
            self._stdin_size = 0
        self._loop.forget(cell.stdin)
        if self._stdin_ended:
            os.close(cell.stdin)
            cell.stdin = -1

    def _on_stdin_room(self, events: int) -> None:
        self._pump_stdin(events)
        if not self._caller_gone and not self._finished:
            self._watch_caller()

    def _pace_streams(self) -> None:
        """Read the guest's output only as fast as the caller takes it."""
        pause = len(self._outgoing) >= _SEND_AHEAD
        if pause == self._paused:
            return
        self._paused = pause
        for number, fd in self._streams.items():
            if pause:
                self._loop.forget(fd)
            else:
                self._loop.watch(fd, loop.READ, partial(self._on_stream, number, fd))

    def _on_stream(self, number: int, fd: int, _events: int) -> None:
        self._on_output(number, fd)

    def _on_output(self, number: int, fd: int) -> bool:
        """Take what one stream holds; return whether more may come."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.forget(fd)
            self._streams.pop(number, None)
            return False
        keeper = self._keepers[number]
        already = keeper.exceeded
        at = keeper.count
        head = keeper.take(data)
        if head:
            self.send("output", stream=number, at=at, data=head)
        if keeper.exceeded and not already:
            self.send("limit", guarantee="output", state="met")
            if self._kill_on_output:
                self.kill("output")
        return True

    def _on_channel(self, _events: int) -> bool:
        assert self.cell is not None
        try:
            data = os.read(self.cell.channel, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.forget(self.cell.channel)
            return False
        room = CHANNEL_LIMIT - len(self._channel)
        self._channel += data[:room]
        self._channel_overflow |= len(data) > room
        return True

    # -- time and the end --------------------------------------------------------------------------------------

    def tick(self, now: float) -> float:
        """Look at the clock and the counters; return when to look again, in seconds of the monotonic clock."""
        if self._finished or self.cell is None or self.meter is None:
            return float("inf")
        if not self.meter.started:
            if now >= self._setup_deadline:
                self._failure = self._failure or {"kind": "setup", "message": "the sandbox took too long to set up"}
                self.kill("setup")
                self._setup_deadline = float("inf")
            return self._setup_deadline
        if self.cause is not None:
            return float("inf")
        if now < self.meter.next_look:
            return self.meter.next_look
        for guarantee, state in self.meter.look(now):
            self.send("limit", guarantee=guarantee, state=state)
            if state == "met":
                self.kill(guarantee)
        return self.meter.next_look

    @property
    def gone(self) -> bool:
        """Whether nobody waits for this run any more."""
        return self._finished or self._caller_gone

    def kill(self, cause: str) -> None:
        """End the run for ``cause``; the first cause stands."""
        if not self._finished:
            self.cause = self.cause or cause
            if self.cell is not None:
                self.cell.kill()

    def _on_death(self, _events: int) -> None:
        """The init is dead, so by the kernel's word nothing of its PID namespace is left."""
        cell, meter, slot = self.cell, self.meter, self.slot
        assert cell is not None and meter is not None and slot is not None
        meter.stop()
        self._drain()
        for fd in (cell.pidfd, cell.control.fileno(), cell.stdin, cell.stdout, cell.stderr, cell.channel):
            self._loop.forget(fd)
        report = meter.report(self._exit) | {
            "cause": self.cause,
            "failure": self._failure,
            "output": [self._keepers[1].count, self._keepers[2].count],
            "tails": [self._keepers[1].tail(), self._keepers[2].tail()],
            "channel": bytes(self._channel),
            "channel_overflow": self._channel_overflow,
        }
        cell.close()
        self.cell = None
        self._finished = True
        if not self._caller_gone:
            self.send("exited", report=report)
        self._house.release(slot)  # after the answer: it may wait for the kernel
        if self._caller_gone:
            self._close()

    def _drain(self) -> None:
        """Read what the dead have left in the pipes; nobody can add to it."""
        assert self.cell is not None
        while self._on_control(0):
            pass
        for number, fd in tuple(self._streams.items()):
            while self._on_output(number, fd):
                pass
        while self._on_channel(0):
            pass
