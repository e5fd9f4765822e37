"""The warden: takes runs from its caller, gives each a cell, and ends with the caller."""

from __future__ import annotations

import _socket as socket
import gc
import os
import time

from stockade._launch import Groups, Launch
from stockade.linux import cgroups, uids
from stockade.warden import loop, wire
from stockade.warden.admission import Admission
from stockade.warden.entrance import Entrance
from stockade.warden.freezers import Freezers
from stockade.warden.leases import Leases
from stockade.warden.run import Run
from stockade.warden.slot import Slot, SlotError, spare_until
from stockade.warden.warm.slot import WarmSlot
from stockade.warden.warm.stable import Stable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any, Protocol

    from stockade.warden.cell import Cell
else:
    from _functools import partial

    Protocol = object

_SPARES = 4  # at most, of different bases
_FREE = 16  # slots that wait for a run without a cell in them
_LOOP_SECONDS = 0.005
_COLLECT_EVERY = 512
_AGAIN_SECONDS = 0.05
_TIDY_SECONDS = 0.05


class Taker(Protocol):
    """Who waits for a cell."""

    @property
    def gone(self) -> bool:
        """Whether it waits no more."""

    def adopt(self, slot: Slot) -> None:
        """Take the slot, in which the cell is."""

    def refuse(self, message: str) -> None:
        """There is none."""


class Warden:
    """One caller's warden. Its only state is the runs and what is kept ready for the next."""

    def __init__(self, control: socket.socket, caller: int, facts: dict[str, Any]) -> None:
        """``caller`` is the caller's pidfd; ``facts`` is what the probe found."""
        self._loop = loop.Loop()
        self._self = os.pidfd_open(os.getpid())
        self._privileged = bool(facts["privileged"])
        self._leasing = facts["uid"] == 0
        self._hierarchies = [
            cgroups.Hierarchy(version=item[0], path=item[1], controllers=item[2]) for item in facts["hierarchies"]
        ]
        self._tree: cgroups.Tree | None = None
        self._leases: Leases | None = None
        self._freezers = Freezers()
        self._runs: set[Run] = set()
        self._slots: set[Slot] = set()
        self._free: list[Slot] = []
        self._spares: list[Slot] = []
        self._waiting: dict[Slot, Taker] = {}
        self._stable = Stable(self._loop, self)
        self._admission = Admission(self.begin)
        self._served = 0
        self._last_end = float("-inf")
        self._tidied = self._tidy_due = float("-inf")
        self._ending = False
        Entrance(self._loop, control, on_run=self._on_run, on_end=self._on_no_more)
        self._loop.watch(caller, loop.READ, self._on_caller_death)

    def stay(self) -> None:
        """Serve until the caller is gone; then kill and reap everything that was started for it."""
        try:
            while not self._ending:
                now = time.monotonic()
                due = min((_tick(run, now) for run in list(self._runs)), default=float("inf"))
                due = min(due, self._tidy(now))
                self._loop.turn(None if due == float("inf") else due - time.monotonic())
        finally:
            self._clean_up()

    def _tidy(self, now: float) -> float:
        """Give back what nobody has needed for long; return when to look again. There is a look after whatever happens,
        but not after each of many things."""
        if now - self._tidied < _TIDY_SECONDS:
            return min(self._tidy_due, self._tidied + _TIDY_SECONDS)
        self._tidied = now
        self._tidy_due = min(self._stable.tick(now), self._give_back(now))
        return self._tidy_due

    # -- what a run needs --------------------------------------------------------------------------------------

    def start(self, run: Run, launch: Launch) -> None:
        """Have ``run`` begin as soon as there is room for it."""
        self._admission.ask(run, launch)

    def begin(self, run: Run, launch: Launch) -> None:
        """Give ``run`` a cell, a spare one if it fits, and have the next one made meanwhile."""
        if self._ending:
            run.refuse("the warden ends")
            return
        if launch.warm and self._stable.take(run, launch):
            return
        common = launch.own_network and launch.host_uid is None
        try:
            spare = self._take_spare(launch.base, bare=launch.bare) if common else None
            if spare is not None and spare.cell is not None:
                run.adopt(spare)
            elif spare is not None:
                self._waiting[spare] = run  # it is being made
            else:
                slot = self.take_slot()
                self._waiting[slot] = run
                slot.request(
                    launch.base,
                    launch.groups,
                    bare=launch.bare,
                    own_network=launch.own_network,
                    uid=launch.host_uid,
                )
        except (OSError, ValueError, SlotError) as error:
            run.refuse(f"no cell could be made: {error}")
        # A caller in a loop has its next cell made beside this run; for others that would slow the run down.
        if common and time.monotonic() - self._last_end < _LOOP_SECONDS:
            self._prepare_spare(launch.base, launch.groups, bare=launch.bare)

    def begun(self, run: Run) -> None:
        """Take notice that ``run`` is no longer being set up."""
        self._admission.begun(run)

    def note(self, peak: int | None, *, starved: bool) -> None:
        """Take notice of a run's memory. Where one was killed for want of it outside, fewer run at a time from now on,
        and what waits for the next ones is given back."""
        self._admission.note(peak)
        if starved:
            self._admission.run_less()
            self._shed()

    def _shed(self) -> None:
        for slot in [*self._spares, *self._free]:
            self.drop(slot)
        self._stable.shed()

    def set_aside(self, run: Run) -> None:
        """Take notice that ``run`` waits for an interpreter, and will ask again."""
        self._admission.leave(run)

    def release(self, slot: Slot) -> None:
        """Take back a slot whose cell is dead."""
        if isinstance(slot, WarmSlot):
            self._freezers.give_back(slot)
            slot.home.release(slot)
            return
        self._last_end = slot.used = time.monotonic()
        base, groups, bare = slot.base, slot.groups, slot.bare
        self._freezers.give_back(slot)
        if slot.renew() and len(self._free) < _FREE:
            self._free.append(slot)
        else:
            self.drop(slot)
        if base:
            self._prepare_spare(base, groups, bare=bare)

    def serve(self, sock: socket.socket, decoder: wire.Decoder, before: Launch | None) -> None:
        """Wait for a run on ``sock``, of which ``decoder`` has read what it has; ``before`` was the launch before."""
        run = Run(self._loop, sock, decoder, before, self)
        self._runs.add(run)

    def freezer(self, slot: Slot) -> cgroups.Freezer | None:
        """Return the group in which the guest of ``slot`` can be frozen, if there is any."""
        return self._freezers.find(slot)

    def done(self, run: Run) -> None:
        """Forget ``run``."""
        self._runs.discard(run)
        self._admission.leave(run)
        self._served += 1
        if self._served % _COLLECT_EVERY == 0:
            gc.collect()

    # -- slots -------------------------------------------------------------------------------------------------

    def take_slot(self) -> Slot:
        """Return a slot that is free, or a new one."""
        if self._free:
            return self._free.pop()
        uid, group = None, None
        try:
            uid, group = self.take_uid(), self.take_group()
            slot = Slot(warden=self._self, privileged=self._privileged, uid=uid, group=group)
        except OSError:
            self.give_back(uid, group)
            raise
        self._slots.add(slot)
        self._loop.watch(slot.control.fileno(), loop.READ, partial(self._on_nursery, slot))
        return slot

    def _on_nursery(self, slot: Slot, _events: int) -> None:
        """A nursery has made a cell, or failed to."""
        waiting = self._waiting.pop(slot, None)
        try:
            cell = slot.receive()
        except (SlotError, wire.WireError) as error:
            run = next((run for run in self._runs if run.slot is slot and run.cell is not None), None)
            if run is not None:  # its cell dies with the nursery; then the slot comes back, and cannot be renewed
                self._loop.forget(slot.control.fileno())
                run.refuse(f"the process that holds the cell is gone: {error}")
                return
            self.drop(slot)
            if waiting is not None:
                waiting.refuse(f"no cell could be made: {error}")
            return
        if waiting is None:
            self._loop.watch(cell.control.fileno(), loop.READ, partial(self._on_spare, slot, cell))
            self._loop.watch(cell.pidfd, loop.READ, partial(self._discard, slot, cell))
        elif waiting.gone:
            self.drop(slot)
        else:
            waiting.adopt(slot)

    def expect(self, slot: Slot, taker: Taker) -> None:
        """Have ``taker`` told when the cell is there that is asked of ``slot``."""
        self._waiting[slot] = taker

    def drop(self, slot: Slot) -> None:
        """End a slot for good: its nursery, what it made, its groups and its lease."""
        self._waiting.pop(slot, None)
        if slot not in self._slots:
            return
        self._slots.discard(slot)
        if slot in self._spares:
            self._spares.remove(slot)
            self._forget_cell(slot)
        if slot in self._free:
            self._free.remove(slot)
        self._loop.forget(slot.control.fileno())
        slot.close()
        self._freezers.give_back(slot)
        self.give_back(slot.uid, slot.group)

    def _give_back(self, now: float) -> float:
        """End one free slot that nobody has needed for long, if there is any; return when to look again."""
        due = spare_until(self._free)
        if due <= now:
            self.drop(self._free[0])
        return due

    def take_uid(self) -> int | None:
        """Return a host uid that no other run has, where root starts them."""
        if not self._leasing:
            return None
        self._leases = self._leases or Leases(uids.configured())
        return self._leases.take()

    def take_group(self) -> cgroups.Group | None:
        """Return fresh control groups, where there can be any."""
        if not self._hierarchies:
            return None
        self._tree = self._tree or cgroups.Tree(self._hierarchies, os.urandom(8).hex())
        return self._tree.make()

    def give_back(self, uid: int | None, group: cgroups.Group | None) -> None:
        """Take back what nothing runs in or under any more."""
        if group is not None and self._tree is not None:
            self._tree.remove(group)
        if uid is not None and self._leases is not None:
            self._leases.give_back(uid)

    # -- spares ------------------------------------------------------------------------------------------------

    def _take_spare(self, base: bytes, *, bare: bool) -> Slot | None:
        for slot in self._spares:
            if (slot.base, slot.bare) == (base, bare):
                self._spares.remove(slot)
                self._forget_cell(slot)
                return slot
        return None

    def _prepare_spare(self, base: bytes, groups: Groups, *, bare: bool) -> None:
        """Have a cell ready for the next run of the same kind; the oldest makes room."""
        if any((slot.base, slot.bare) == (base, bare) for slot in self._spares):
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
            messages = [kind for kind, _ in wire.Decoder().feed(cell.receive(1 << 12))]
            if not messages or not all(map(cell.hear, messages)):
                self._discard(slot, cell, 0)
            elif cell.ready:
                slot.arm(slot.groups)
        except (OSError, wire.WireError):
            self._discard(slot, cell, 0)

    def _discard(self, slot: Slot, _cell: Cell, _events: int) -> None:
        self.drop(slot)

    def _forget_cell(self, slot: Slot) -> None:
        if slot.cell is not None:
            self._loop.forget(slot.cell.control.fileno())
            self._loop.forget(slot.cell.pidfd)

    # -- the caller --------------------------------------------------------------------------------------------

    def _on_run(self, sock: socket.socket) -> None:
        self.serve(sock, wire.Decoder(), None)

    def _on_no_more(self) -> None:
        self._ending = True

    def _on_caller_death(self, _events: int) -> None:
        self._ending = True

    def _clean_up(self) -> None:
        self._ending = True  # also where an error has brought us here: no run begins any more
        for slot in self._slots:
            if slot.cell is not None:
                slot.cell.kill()  # all at once; each is waited for below
        self._stable.close()
        for slot in list(self._slots):
            self.drop(slot)
        self._freezers.close()
        if self._tree is not None:
            self._tree.close()


def _tick(run: Run, now: float) -> float:
    """What cannot be read (no descriptor is left, say) ends this run; the others go on."""
    try:
        return run.tick(now)
    except OSError as error:
        try:
            run.refuse(f"the run could not be watched: {error}")
        except OSError:
            pass  # its cell is gone already
        return now + _AGAIN_SECONDS
