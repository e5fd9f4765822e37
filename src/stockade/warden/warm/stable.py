"""The warm interpreters of one warden: one for each kind of run, with copies that wait for the next ones."""

from __future__ import annotations

import _socket as socket
import os
import sys
import time

from stockade import _trace
from stockade._launch import Groups, Warm
from stockade.warden import loop, wire
from stockade.warden.slot import Slot, SlotError, spare_until
from stockade.warden.warm.slot import WarmSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any, Protocol

    from stockade._launch import Launch
    from stockade.linux import cgroups
    from stockade.warden.cell import Cell
    from stockade.warden.run import Run
else:
    from _functools import partial

    Protocol = object

_KINDS = 4
"""Warm interpreters at most; the one that has not been used for the longest time makes room."""
_SLOTS = 16
"""Copies of one at most: a run more than that is started cold."""
_AFTER_RUNS = 2
"""A kind that was wanted so often is worth an interpreter that waits."""
_IDLE_SECONDS = 60.0
_START_SECONDS = 60.0
_ASK_SECONDS = 5.0
_CPUS = len(os.sched_getaffinity(0))
_MOST_USES = 10_000
_RUNS_AFTER_FAILURE = 1000
_REMEMBERED = 256
_LAST_WORDS = 4096


class House(Protocol):
    """What warm interpreters need of the warden around them."""

    def start(self, run: Run, launch: Launch) -> None:
        """Find a cell for ``run``, in another way if need be."""

    def take_slot(self) -> Slot:
        """Return a slot for a cell."""

    def drop(self, slot: Slot) -> None:
        """Take it back."""

    def expect(self, slot: Slot, taker: Any) -> None:
        """Have ``taker`` told when the cell that was asked for is there."""

    def take_group(self) -> cgroups.Group | None:
        """Return fresh control groups, if there are any."""

    def take_uid(self) -> int | None:
        """Return a host uid, where root starts the runs."""

    def give_back(self, uid: int | None, group: cgroups.Group | None) -> None:
        """Take them back."""


class Stable:
    """Decides which run is started warm, and what is kept for the next."""

    def __init__(self, events: loop.Loop, house: House) -> None:
        self._loop = events
        self._house = house
        self._zygotes: dict[bytes, Zygote] = {}
        self._wanted: dict[bytes, int] = {}

    def take(self, run: Run, launch: Launch) -> bool:
        """Have ``run`` started from a warm interpreter, now or in a moment; return whether it will be."""
        key = launch.warm
        zygote = self._find(key)
        if zygote is None:
            self._wanted[key] = self._wanted.get(key, 0) + 1
            if launch.eager or self._wanted[key] >= _AFTER_RUNS:
                zygote = self._begin(key, launch.groups)
        if zygote is not None and zygote.take(run, launch.groups):
            return True
        if launch.eager and zygote is not None and not zygote.ready:
            zygote.wait_for(run, launch)
            return True
        return False

    def _find(self, key: bytes) -> Zygote | None:
        zygote = self._zygotes.get(key)
        if zygote is not None and zygote.ended:
            self._zygotes.pop(key).close()
            return None
        return zygote

    def close(self) -> None:
        """End them all, and what runs in them."""
        for zygote in self._zygotes.values():
            zygote.close()
            zygote.abandon()
        self._zygotes.clear()

    def tick(self, now: float) -> float:
        """Give back what has been idle for long; return when to look again."""
        for key, zygote in list(self._zygotes.items()):
            if not zygote.ended and zygote.idle_since(now) >= _IDLE_SECONDS:
                self._wanted.pop(key, None)  # it was worth it, and will be again
                zygote.close()
            elif zygote.is_late(now):
                zygote.refuse(f"it was not there after {_START_SECONDS:.0f} s")
            if zygote.ended:
                self._zygotes.pop(key).close()
        return min((zygote.give_back(now) for zygote in self._zygotes.values()), default=float("inf"))

    def _begin(self, key: bytes, groups: Groups) -> Zygote | None:
        if len(self._zygotes) >= _KINDS:
            oldest = min(self._zygotes, key=lambda each: self._zygotes[each].used)
            if self._zygotes[oldest].busy:
                return None
            self._zygotes.pop(oldest).close()
            self._wanted.pop(oldest, None)
        if len(self._wanted) > _REMEMBERED:
            self._wanted.clear()
        self._wanted[key] = -_RUNS_AFTER_FAILURE  # should it fail, that many runs go by before another try
        try:
            zygote = self._zygotes[key] = Zygote(self._loop, self._house, Warm.decode(key), groups)
        except (OSError, SlotError):
            return None  # no room for it; runs go on cold
        return zygote


class Zygote:
    """One warm interpreter, in a cell of its own, and its slots."""

    gone = False

    def __init__(self, events: loop.Loop, house: House, warm: Warm, groups: Groups) -> None:
        """Have it started; it can be used when it says so. ``groups`` are the limits that its runs most likely have."""
        self._loop = events
        self._house = house
        self._warm = warm
        self.groups = groups
        self.used = self._begun = time.monotonic()
        self.ended = False
        self.ready = False
        self._queue: list[tuple[Run, Launch]] = []
        self._sent = False
        self._decoder = wire.Decoder()
        self._slots: set[WarmSlot] = set()
        self._spares: list[WarmSlot] = []
        self._waiting: dict[WarmSlot, Run] = {}
        self._numbers: list[tuple[int, int | None]] = [(0, None)] * _SLOTS
        self._home = house.take_slot()
        self._mapped: list[int] = []
        try:
            if self._home.uid is not None:
                self._lease()
            house.expect(self._home, self)
            self._home.request(warm.zygote, Groups(), own_network=True)
        except (OSError, SlotError):
            self._leave()
            raise

    def _lease(self) -> None:
        """Take a uid for each copy, which the interpreter's user namespace has from its start."""
        for _ in range(_SLOTS):
            uid = self._house.take_uid()
            assert uid is not None
            self._mapped.append(uid)
        self._numbers = [(number, uid) for number, uid in enumerate(self._mapped, 1)]

    # -- its own start ---------------------------------------------------------------------------------------------

    def adopt(self, slot: Slot) -> None:
        """Its cell is there."""
        cell = slot.cell
        assert cell is not None
        self._loop.watch(cell.control.fileno(), loop.READ, self._on_word)
        self._loop.watch(cell.pidfd, loop.READ, self._on_end)

    def refuse(self, message: str) -> None:
        """There will be none."""
        self.ended = True
        queue, self._queue = self._queue, []
        for run, _ in queue:
            run.refuse(f"no interpreter could be kept warm: {message}")

    def wait_for(self, run: Run, launch: Launch) -> None:
        """Start ``run`` when the interpreter is there, or refuse it."""
        self._queue.append((run, launch))

    def is_late(self, now: float) -> bool:
        """Return whether it should have said long ago that it is there."""
        return not self.ready and now - self._begun >= _START_SECONDS

    def _on_word(self, _events: int) -> None:
        cell = self._home.cell
        assert cell is not None
        try:
            data = cell.receive(1 << 12)
            if not data:
                raise OSError("it has ended")
            for kind, fields in self._decoder.feed(data):
                self._hear(cell, kind, fields)
        except BlockingIOError:
            return
        except (OSError, wire.WireError) as error:
            self._fail(cell, str(error))

    def _fail(self, cell: Cell, message: str) -> None:
        try:
            message += os.read(cell.stderr, _LAST_WORDS).decode("utf-8", "replace")
        except OSError:
            pass  # it said nothing
        self.refuse(message)
        self.close()

    def _hear(self, cell: Cell, kind: str, fields: dict[str, Any]) -> None:
        if kind == "warm":
            self.ready = True
            queue, self._queue = self._queue, []
            for run, launch in queue:
                if not (run.gone or self.take(run, launch.groups)):
                    self._house.start(run, launch)  # all copies are taken: it is started cold
            if not self._slots:
                self._spare()
        elif kind == "refused" or kind.endswith("_failed"):
            raise OSError(fields["message"])
        elif kind == "exit":
            raise OSError("it ended while it was started: ")
        elif cell.hear(kind) and cell.ready and not self._sent:
            self._sent = True
            cell.send(
                wire.encode(
                    "launch",
                    steps=[("own_users", [self._home.uid, *self._mapped])] if self._mapped else [],
                    argv=self._warm.argv,
                    environment=self._warm.environment,
                    channel=True,
                    keeps_control=True,
                    trace=0,
                )
            )

    def _on_end(self, _events: int) -> None:
        self.refuse("it has ended")
        self.close()

    def ask(self, fds: list[int], *, uid: int) -> None:
        """Have it make a copy of itself for a slot."""
        cell = self._home.cell
        if cell is None:
            raise OSError("it has ended")
        rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
        steps = [self._warm.slot, self._warm.network, self._warm.guest]
        words = wire.encode("slot", uid=uid, steps=steps)
        cell.control.settimeout(_ASK_SECONDS)  # one that stands still must not hold up every run
        try:
            cell.control.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        finally:
            cell.control.setblocking(False)

    # -- runs ------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether any run is in it, or waits for it."""
        return len(self._slots) > len(self._spares) or bool(self._waiting) or bool(self._queue)

    def idle_since(self, now: float) -> float:
        """Return for how many seconds nobody has wanted it."""
        return 0.0 if self.busy else now - self.used

    def take(self, run: Run, groups: Groups) -> bool:
        """Give ``run`` a copy, or one that is being made, with these limits; return whether there is any."""
        if not self.ready or self.ended:
            return False
        self.used = time.monotonic()
        self.groups = groups
        slot = self._best()
        if slot is None:
            slot = self._grow()
            if slot is None:
                return False
        elif slot in self._spares:
            self._spares.remove(slot)
        if slot.cell is None:
            self._waiting[slot] = run
        else:
            self._hand(slot, run)
        if not any(spare.cell is not None for spare in self._spares) and len(self._spares) < _CPUS:
            self._spare()
        return True

    def _hand(self, slot: WarmSlot, run: Run) -> None:
        slot.run = run
        slot.traced = run.traced
        run.adopt(slot, self._warm.leave)

    def _best(self) -> WarmSlot | None:
        """Return the one that was used last: of those that are too many it then shows that nobody needs them."""
        ready = (slot for slot in reversed(self._spares) if slot.cell is not None)
        return next(ready, self._spares[0] if self._spares else None)

    def give_back(self, now: float) -> float:
        """Let go of one spare that nobody has needed for long, if there is any; return when to look again."""
        due = spare_until(self._spares)
        if due <= now:
            self._lose(self._spares[0])
        return min(due, now + _IDLE_SECONDS)

    def _spare(self) -> None:
        slot = self._grow()
        if slot is not None:
            self._spares.append(slot)

    def _grow(self) -> WarmSlot | None:
        if not self._numbers:
            return None
        group = None
        number, uid = self._numbers.pop()
        try:
            group = self._house.take_group()
            slot = WarmSlot(self, number=number, uid=uid, group=group)
        except (OSError, SlotError):
            self._numbers.append((number, uid))
            self._house.give_back(None, group)
            return None
        self._slots.add(slot)
        slot.used = time.monotonic()
        self._loop.watch(slot.control.fileno(), loop.READ, partial(self._on_slot, slot))
        try:
            slot.ask()
        except SlotError:  # it has ended, which is told of in a moment
            self._lose(slot)
            return None
        return slot

    def _on_slot(self, slot: WarmSlot, _events: int) -> None:
        """Hear what keeper and guest-to-be have to say."""
        try:
            for kind, fields in slot.hear():
                if kind == "furnished":
                    self._on_furnished(slot)
                elif kind == "exit" and slot.run is not None:
                    slot.run.on_end(fields)
                elif kind != "exit":
                    raise SlotError(fields["message"])
                elif slot.cell is not None:
                    raise SlotError("it has ended before its time")
                else:  # it was answered before
                    _trace.note(slot.traced, _trace.REAPED, fields["at"])
                    _trace.note(slot.traced, _trace.EMPTY)
        except (SlotError, wire.WireError, OSError) as error:
            self._on_trouble(slot, str(error))

    def _on_furnished(self, slot: WarmSlot) -> None:
        if not slot.is_alone(1):
            raise SlotError("its groups are not empty")
        if slot.pidfd >= 0:
            self._loop.watch(slot.pidfd, loop.READ, partial(self._on_death, slot))
        slot.arm(self.groups)
        _trace.note(slot.traced, _trace.FURNISHED)
        run = self._waiting.pop(slot, None)
        if run is None:
            return
        if run.gone:
            self._spares.append(slot)
        else:
            self._hand(slot, run)

    def _on_trouble(self, slot: WarmSlot, message: str) -> None:
        waiting = self._waiting.pop(slot, None)
        if waiting is None and slot.run is not None:
            self._loop.forget(slot.control.fileno())  # its run hears of the keeper's death, and gives the slot back
            slot.kill()
            return
        self._lose(slot)
        if waiting is not None:
            waiting.refuse(f"no copy of a warm interpreter could be made: {message}")

    def _on_death(self, slot: WarmSlot, _events: int) -> None:
        """The keeper is dead, and with it, by the kernel's word, all that was in its PID namespace."""
        self._loop.forget(slot.pidfd)
        if slot.run is not None:
            slot.run.on_death(0)
        else:
            self._on_trouble(slot, "it has ended")

    def release(self, slot: WarmSlot) -> None:
        """Take back a slot whose guest is gone, or killed and alone."""
        self.used = slot.used = time.monotonic()
        slot.run = slot.cell = None  # the run has closed it
        try:
            if self.ended or slot.dead:
                raise SlotError("it has ended")
            slot.reuse()
        except SlotError:
            self._lose(slot)
            if self.ended and not self._slots:
                self._leave()
            elif not self.ended and not self._spares:
                self._spare()
            return
        self._spares.append(slot)

    def _lose(self, slot: WarmSlot) -> None:
        """End a slot for good."""
        if slot not in self._slots:
            return
        self._slots.discard(slot)
        if slot in self._spares:
            self._spares.remove(slot)
        self._loop.forget(slot.control.fileno())
        if slot.pidfd >= 0:
            self._loop.forget(slot.pidfd)
        slot.close()
        self._house.give_back(None, slot.group)
        self._numbers.append((slot.number, slot.uid))

    def close(self) -> None:
        """End it, with all its copies. A run that waits for one is started cold by nobody: it is told."""
        self.refuse("it has ended")
        for slot in list(self._slots):
            waiting = self._waiting.pop(slot, None)
            if waiting is not None:
                waiting.refuse("the warm interpreter has ended")
            if slot in self._spares or waiting is not None:
                self._lose(slot)
        home, self.ready = self._home, False
        if home.cell is not None:
            self._loop.forget(home.cell.control.fileno())
            self._loop.forget(home.cell.pidfd)
        if not self.busy:
            self._leave()

    def abandon(self) -> None:
        """End its runs as well: nobody will, or wants to hear of them."""
        for slot in list(self._slots):
            self._lose(slot)

    def _leave(self) -> None:
        self._house.drop(self._home)
        for uid in self._mapped:
            self._house.give_back(uid, None)
        self._mapped = []
