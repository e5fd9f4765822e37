"""The cold slots of one warden: free ones, spare ones with a cell in them, and those that a run waits for or has."""

from __future__ import annotations

import time

from stockade.core.launch import Groups, Launch
from stockade.core.record import Record
from stockade.linux import cgroups, faults
from stockade.warden import loop, protocol
from stockade.warden.cold.cgroup_slot import Slot, SlotError, SlotLostError, spare_until
from stockade.warden.helper_liveness import LOOK_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any, Protocol

    from stockade.warden.cold.disposal import Disposal
    from stockade.warden.cold.instance import Cell
    from stockade.warden.run.run import Run
else:
    from _functools import partial

    Protocol = object

_SPARES = 4  # at most, of different bases
_FREE = 16  # slots that wait for a run without a cell in them
_LOOP_SECONDS = 0.005
ANSWER_SECONDS = 10.0
"""A helper process that runs is given so long for its answer: a host with much to do may keep it from its processor."""


class Taker(Protocol):
    """Waits for a cell, or has one."""

    @property
    def gone(self) -> bool:
        """Whether it waits no more."""

    def adopt(self, slot: Slot) -> None:
        """Take the slot, in which the cell is."""

    def refuse(self, message: str) -> None:
        """There is none."""

    def lost(self, message: str) -> None:
        """The cell that was taken will end: the process that made it is gone."""


class Resources(Protocol):
    """Uids and groups, which warm slots take as well, and room."""

    def has_slack(self) -> bool:
        """Return whether there is room for something that no run waits for."""

    def put_back(self, taker: Any, launch: Launch, message: str) -> bool:
        """Have a run that could not begin wait for its turn again; return whether it does."""

    def take_uid(self) -> int | None:
        """Return a host uid that no other run has, where root starts them."""

    def take_group(self) -> cgroups.Group | None:
        """Return fresh control groups, where there can be any."""

    def give_back(self, uid: int | None, group: cgroups.Group | None) -> None:
        """Take back what nothing runs in or under any more."""


class _Waiting(Record):
    taker: Taker
    launch: Launch | None = None
    """What to begin anew, once, if the process that makes the cell is lost: nothing of the run has begun."""


class Pool:
    """Makes slots, has cells made in them, hands them out and takes them back."""

    def __init__(
        self, events: loop.Loop, home: Resources, disposal: Disposal, *, warden: int, privileged: bool
    ) -> None:
        """``warden`` is the warden's own pidfd."""
        self._loop = events
        self._home = home
        self._disposal = disposal
        self._self = warden
        self._privileged = privileged
        self._slots: set[Slot] = set()
        self._free: list[Slot] = []
        self._spares: list[Slot] = []
        self._waiting: dict[Slot, _Waiting] = {}
        self._takers: dict[Slot, Taker] = {}
        self._renewing: dict[Slot, tuple[bytes, Groups, bool]] = {}
        self._last_end = float("-inf")

    # -- runs ------------------------------------------------------------------------------------------------------

    def provide(self, run: Run, launch: Launch, *, again: bool = False) -> None:
        """Give ``run`` a cell, a spare one if it fits, and have the next one made meanwhile. ``again`` says that the
        run was given one before, and that one was lost."""
        common = launch.own_network and launch.host_uid is None
        waiting = _Waiting(taker=run, launch=None if again else launch)
        try:
            spare = self._take_spare(launch.base, bare=launch.bare) if common and not again else None
            if spare is not None and spare.cell is not None:
                self._hand(spare, run)
            elif spare is not None:
                self._waiting[spare] = waiting  # it is being made
            else:
                slot = self.take_slot()
                self._waiting[slot] = waiting
                slot.request(
                    launch.base,
                    launch.groups,
                    bare=launch.bare,
                    own_network=launch.own_network,
                    uid=launch.host_uid,
                )
        except (OSError, ValueError, SlotError) as error:
            for made in [slot for slot, each in self._waiting.items() if each is waiting]:
                self.drop(made)
            self._turn_away(waiting, error)
            return
        # A caller in a loop has its next cell made beside this run; for others that would slow the run down.
        if common and time.monotonic() - self._last_end < _LOOP_SECONDS:
            self._prepare_spare(launch.base, launch.groups, bare=launch.bare)

    def _turn_away(self, waiting: _Waiting, error: Exception) -> None:
        """Refuse a run that gets no sandbox, or put it back where the host was short of something."""
        message = (
            faults.explain("make the sandbox", error) if isinstance(error, OSError) else f"make the sandbox: {error}"
        )
        short = getattr(error, "errno", None) in faults.SHORTAGES
        if not (short and waiting.launch and self._home.put_back(waiting.taker, waiting.launch, message)):
            waiting.taker.refuse(message)

    def shed(self) -> bool:
        """Give back what no run has or waits for; return whether there was anything."""
        kept = [*self._spares, *self._free]
        for slot in kept:
            if slot not in self._waiting:
                self.drop(slot)
        return bool(kept)

    def expect(self, slot: Slot, taker: Taker) -> None:
        """Have ``taker`` told when the cell is there that is asked of ``slot``."""
        self._waiting[slot] = _Waiting(taker=taker)

    def _hand(self, slot: Slot, taker: Taker) -> None:
        self._takers[slot] = taker
        taker.adopt(slot)

    def release(self, slot: Slot) -> None:
        """Take back a slot whose cell is dead and closed. It can be used again when its nursery has reaped that."""
        self._takers.pop(slot, None)
        self._last_end = slot.used = time.monotonic()
        if slot.ask_renewal():
            self._renewing[slot] = slot.base, slot.groups, slot.bare
        else:
            base, groups, bare = slot.base, slot.groups, slot.bare
            self.drop(slot)
            self._prepare_next(base, groups, bare)

    # -- what nurseries say ------------------------------------------------------------------------------------------

    def take_slot(self) -> Slot:
        """Return a slot that is free, or a new one."""
        if self._free:
            return self._free.pop()
        uid, group = None, None
        try:
            uid, group = self._home.take_uid(), self._home.take_group()
            slot = Slot(warden=self._self, privileged=self._privileged, uid=uid, group=group)
        except OSError:
            self._home.give_back(uid, group)
            raise
        self._slots.add(slot)
        self._guarded(slot).watch(slot.control.fileno(), loop.READ, partial(self._on_nursery, slot))
        return slot

    def _guarded(self, slot: Slot) -> loop.Guarded:
        return loop.Guarded(self._loop, partial(self._lose, slot))

    def _on_nursery(self, slot: Slot, _events: int) -> None:
        """A nursery has made or reaped a cell, or failed to."""
        try:
            kind = slot.receive()
        except SlotLostError as error:
            self._lose(slot, str(error))
        except (SlotError, protocol.WireError) as error:
            waiting = self._waiting.pop(slot, None)
            self.drop(slot)
            if waiting is not None:
                self._turn_away(waiting, error)
        else:
            if kind == "reaped":
                self._on_reaped(slot)
            else:
                self._on_made(slot)

    def _on_made(self, slot: Slot) -> None:
        cell = slot.cell
        assert cell is not None
        waiting = self._waiting.pop(slot, None)
        if waiting is None:
            guarded = self._guarded(slot)
            guarded.watch(cell.control.fileno(), loop.READ, partial(self._on_spare, slot, cell))
            guarded.watch(cell.pidfd, loop.READ, partial(self._discard, slot))
        elif waiting.taker.gone:
            self.drop(slot)
        else:
            self._hand(slot, waiting.taker)

    def _on_reaped(self, slot: Slot) -> None:
        kind = self._renewing.pop(slot, None)
        if kind is None:
            return
        if slot.renew() and len(self._free) < _FREE:
            self._free.append(slot)
        else:
            self.drop(slot)
        self._prepare_next(*kind)

    def _lose(self, slot: Slot, message: str) -> None:
        """The nursery of ``slot`` is gone, or stands still."""
        taker = self._takers.get(slot)
        if taker is not None:  # its cell dies with the nursery; then the slot comes back, and cannot be renewed
            self._loop.forget(slot.control.fileno())
            taker.lost(f"the process that holds the sandbox's init (pid {slot.pid}) is lost: {message}")
            return
        waiting = self._waiting.get(slot)
        if waiting is None or waiting.launch is None or waiting.taker.gone:
            self._fail(slot, f"the process that makes the sandbox (pid {slot.pid}) is lost: {message}")
            return
        self.drop(slot)
        self.provide(waiting.taker, waiting.launch, again=True)  # type: ignore[arg-type]  # only runs have a launch

    def _fail(self, slot: Slot, message: str) -> None:
        waiting = self._waiting.pop(slot, None)
        self.drop(slot)
        if waiting is not None:
            waiting.taker.refuse(message)

    def drop(self, slot: Slot) -> None:
        """End a slot for good: its nursery, what it made, its groups and its lease."""
        self._waiting.pop(slot, None)
        self._takers.pop(slot, None)
        self._renewing.pop(slot, None)
        if slot not in self._slots:
            return
        self._slots.discard(slot)
        if slot in self._spares:
            self._spares.remove(slot)
        if slot in self._free:
            self._free.remove(slot)
        self._forget_cell(slot)
        self._loop.forget(slot.control.fileno())
        slot.end()
        self._disposal.add(slot.is_gone, partial(self._on_gone, slot))

    def _on_gone(self, slot: Slot, gone: bool) -> None:
        if gone:
            self._home.give_back(slot.uid, slot.group)
        else:
            slot.abandon()  # with its uid and its groups: something may still run there

    # -- the clock ---------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> float:
        """Give up nurseries that do not answer, and one free slot that nobody has needed for long. Return when to look
        again."""
        asked = [*self._waiting, *self._renewing, *(slot for slot in self._spares if slot.cell is None)]
        for slot in asked:
            self._look_after(slot, now)
        due = spare_until(self._free)
        if due <= now:
            self.drop(self._free[0])
        return min(due, now + LOOK_SECONDS if asked else float("inf"))

    def _look_after(self, slot: Slot, now: float) -> None:
        trouble = slot.helper.trouble(now)
        if trouble:
            self._lose(slot, trouble)
        elif now - slot.asked >= ANSWER_SECONDS:
            self._lose(slot, f"it has not answered for {ANSWER_SECONDS:.0f} s")

    # -- spares ------------------------------------------------------------------------------------------------------

    def _take_spare(self, base: bytes, *, bare: bool) -> Slot | None:
        for slot in self._spares:
            if (slot.base, slot.bare) == (base, bare):
                self._spares.remove(slot)
                self._forget_cell(slot)
                return slot
        return None

    def _prepare_next(self, base: bytes, groups: Groups, bare: bool) -> None:
        if base:
            self._prepare_spare(base, groups, bare=bare)

    def _prepare_spare(self, base: bytes, groups: Groups, *, bare: bool) -> None:
        """Have a cell ready for the next run of the same kind; the oldest makes room."""
        if any((slot.base, slot.bare) == (base, bare) for slot in self._spares) or not self._home.has_slack():
            return
        if len(self._spares) >= _SPARES:
            self.drop(self._spares[0])
        try:
            slot = self.take_slot()
            slot.request(base, groups, bare=bare, own_network=True)
            self._spares.append(slot)
        except (OSError, ValueError, SlotError):
            return  # no room for a spare; the run that needs a cell will say why

    def _on_spare(self, slot: Slot, cell: Cell, _events: int) -> None:
        """A spare says that it is ready; anything else makes it unusable."""
        try:
            messages = [kind for kind, _ in protocol.Decoder().feed(cell.receive(1 << 12))]
            if not messages or not all(map(cell.hear, messages)):
                self.drop(slot)
            elif cell.ready:
                slot.arm(slot.groups)
        except (OSError, protocol.WireError):
            self.drop(slot)

    def _discard(self, slot: Slot, _events: int) -> None:
        self.drop(slot)

    def _forget_cell(self, slot: Slot) -> None:
        if slot.cell is not None:
            self._loop.forget(slot.cell.control.fileno())
            self._loop.forget(slot.cell.pidfd)

    def kill_all(self) -> None:
        """Kill what is in every slot, all at once."""
        for slot in self._slots:
            if slot.cell is not None:
                try:
                    slot.cell.kill()
                except OSError:
                    pass  # it dies with its nursery

    def close(self) -> None:
        """End all slots."""
        for slot in list(self._slots):
            self.drop(slot)
