"""The cold slots of one warden: free ones, spare ones with a cell in them, and those that a run waits for or has."""

from __future__ import annotations

import time

from stockade.core.launch import Groups, Launch
from stockade.core.record import Record
from stockade.linux import cgroups, faults
from stockade.warden import loop, protocol
from stockade.warden.cold.cgroup_slot import CgroupSlot, SlotError, SlotLostError, idle_until
from stockade.warden.helper_liveness import LOOK_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial
    from typing import Any, Protocol

    from stockade.warden.cold.disposal import Disposal
    from stockade.warden.cold.instance import Instance
    from stockade.warden.run.run import Run
else:
    from _functools import partial

    Protocol = object

_MAX_PREWARMED = 4  # at most, of different bases
_FREE = 16  # slots that wait for a run without a cell in them
_LOOP_SECONDS = 0.005
ANSWER_SECONDS = 10.0
"""A helper process that runs is given so long for its answer: a host with much to do may keep it from its processor."""


class Waiter(Protocol):
    """Waits for a cell, or has one."""

    @property
    def gone(self) -> bool:
        """Whether it waits no more."""

    def adopt(self, slot: CgroupSlot) -> None:
        """Take the slot, in which the cell is."""

    def refuse(self, message: str) -> None:
        """There is none."""

    def lost(self, message: str) -> None:
        """The cell that was taken will end: the process that made it is gone."""


class Resources(Protocol):
    """Uids and groups, which warm slots take as well, and room."""

    def has_slack(self) -> bool:
        """Return whether there is room for something that no run waits for."""

    def put_back(self, waiter: Any, launch: Launch, message: str) -> bool:
        """Have a run that could not begin wait for its turn again; return whether it does."""

    def take_uid(self) -> int | None:
        """Return a host uid that no other run has, where root starts them."""

    def take_group(self) -> cgroups.Group | None:
        """Return fresh control groups, where there can be any."""

    def release_resources(self, uid: int | None, group: cgroups.Group | None) -> None:
        """Take back what nothing runs in or under any more."""


class _Waiting(Record):
    waiter: Waiter
    launch: Launch | None = None
    """What to begin anew, once, if the process that makes the cell is lost: nothing of the run has begun."""


class Pool:
    """Makes slots, has cells made in them, hands them out and takes them back."""

    def __init__(
        self, events: loop.Loop, home: Resources, disposal: Disposal, *, warden: int, privileged: bool
    ) -> None:
        """``warden`` is the warden's own pidfd."""
        self._loop = events
        self._instance_slot = home
        self._disposal = disposal
        self._self = warden
        self._privileged = privileged
        self._slots: set[CgroupSlot] = set()
        self._free: list[CgroupSlot] = []
        self._prewarmed: list[CgroupSlot] = []
        self._waiting: dict[CgroupSlot, _Waiting] = {}
        self._takers: dict[CgroupSlot, Waiter] = {}
        self._renewing: dict[CgroupSlot, tuple[bytes, Groups, bool]] = {}
        self._last_end = float("-inf")

    # -- runs ------------------------------------------------------------------------------------------------------

    def provide(self, run: Run, launch: Launch, *, again: bool = False) -> None:
        """Give ``run`` a cell, a spare one if it fits, and have the next one made meanwhile. ``again`` says that the
        run was given one before, and that one was lost."""
        common = launch.own_network and launch.host_uid is None
        waiting = _Waiting(waiter=run, launch=None if again else launch)
        try:
            prewarmed = (
                self._take_prewarmed(launch.base, without_namespaces=launch.without_namespaces)
                if common and not again
                else None
            )
            if prewarmed is not None and prewarmed.instance is not None:
                self._hand(prewarmed, run)
            elif prewarmed is not None:
                self._waiting[prewarmed] = waiting  # it is being made
            else:
                slot = self.take_slot()
                self._waiting[slot] = waiting
                slot.request(
                    launch.base,
                    launch.groups,
                    without_namespaces=launch.without_namespaces,
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
            self._prewarm(launch.base, launch.groups, without_namespaces=launch.without_namespaces)

    def _turn_away(self, waiting: _Waiting, error: Exception) -> None:
        """Refuse a run that gets no sandbox, or put it back where the host was short of something."""
        message = (
            faults.explain("make the sandbox", error) if isinstance(error, OSError) else f"make the sandbox: {error}"
        )
        short = getattr(error, "errno", None) in faults.SHORTAGES
        if not (short and waiting.launch and self._instance_slot.put_back(waiting.waiter, waiting.launch, message)):
            waiting.waiter.refuse(message)

    def shed(self) -> bool:
        """Give back what no run has or waits for; return whether there was anything."""
        kept = [*self._prewarmed, *self._free]
        for slot in kept:
            if slot not in self._waiting:
                self.drop(slot)
        return bool(kept)

    def expect(self, slot: CgroupSlot, waiter: Waiter) -> None:
        """Have ``waiter`` told when the cell is there that is asked of ``slot``."""
        self._waiting[slot] = _Waiting(waiter=waiter)

    def _hand(self, slot: CgroupSlot, waiter: Waiter) -> None:
        self._takers[slot] = waiter
        waiter.adopt(slot)

    def release(self, slot: CgroupSlot) -> None:
        """Take back a slot whose cell is dead and closed. It can be used again when its nursery has reaped that."""
        self._takers.pop(slot, None)
        self._last_end = slot.used = time.monotonic()
        if slot.ask_renewal():
            self._renewing[slot] = slot.base, slot.groups, slot.without_namespaces
        else:
            base, groups, without_namespaces = slot.base, slot.groups, slot.without_namespaces
            self.drop(slot)
            self._prepare_next(base, groups, without_namespaces)

    # -- what nurseries say ------------------------------------------------------------------------------------------

    def take_slot(self) -> CgroupSlot:
        """Return a slot that is free, or a new one."""
        if self._free:
            return self._free.pop()
        uid, group = None, None
        try:
            uid, group = self._instance_slot.take_uid(), self._instance_slot.take_group()
            slot = CgroupSlot(warden=self._self, privileged=self._privileged, uid=uid, group=group)
        except OSError:
            self._instance_slot.release_resources(uid, group)
            raise
        self._slots.add(slot)
        self._guarded(slot).watch(slot.control.fileno(), loop.READ, partial(self._on_spawner, slot))
        return slot

    def _guarded(self, slot: CgroupSlot) -> loop.Guarded:
        return loop.Guarded(self._loop, partial(self._lose, slot))

    def _on_spawner(self, slot: CgroupSlot, _events: int) -> None:
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

    def _on_made(self, slot: CgroupSlot) -> None:
        instance = slot.instance
        assert instance is not None
        waiting = self._waiting.pop(slot, None)
        if waiting is None:
            guarded = self._guarded(slot)
            guarded.watch(instance.control.fileno(), loop.READ, partial(self._on_prewarmed, slot, instance))
            guarded.watch(instance.pidfd, loop.READ, partial(self._discard, slot))
        elif waiting.waiter.gone:
            self.drop(slot)
        else:
            self._hand(slot, waiting.waiter)

    def _on_reaped(self, slot: CgroupSlot) -> None:
        kind = self._renewing.pop(slot, None)
        if kind is None:
            return
        if slot.renew() and len(self._free) < _FREE:
            self._free.append(slot)
        else:
            self.drop(slot)
        self._prepare_next(*kind)

    def _lose(self, slot: CgroupSlot, message: str) -> None:
        """The nursery of ``slot`` is gone, or stands still."""
        waiter = self._takers.get(slot)
        if waiter is not None:  # its cell dies with the nursery; then the slot comes back, and cannot be renewed
            self._loop.forget(slot.control.fileno())
            waiter.lost(f"the process that holds the sandbox's init (pid {slot.pid}) is lost: {message}")
            return
        waiting = self._waiting.get(slot)
        if waiting is None or waiting.launch is None or waiting.waiter.gone:
            self._fail(slot, f"the process that makes the sandbox (pid {slot.pid}) is lost: {message}")
            return
        self.drop(slot)
        self.provide(waiting.waiter, waiting.launch, again=True)  # type: ignore[arg-type]  # only runs have a launch

    def _fail(self, slot: CgroupSlot, message: str) -> None:
        waiting = self._waiting.pop(slot, None)
        self.drop(slot)
        if waiting is not None:
            waiting.waiter.refuse(message)

    def drop(self, slot: CgroupSlot) -> None:
        """End a slot for good: its nursery, what it made, its groups and its lease."""
        self._waiting.pop(slot, None)
        self._takers.pop(slot, None)
        self._renewing.pop(slot, None)
        if slot not in self._slots:
            return
        self._slots.discard(slot)
        if slot in self._prewarmed:
            self._prewarmed.remove(slot)
        if slot in self._free:
            self._free.remove(slot)
        self._unwatch_instance(slot)
        self._loop.forget(slot.control.fileno())
        slot.end()
        self._disposal.add(slot.is_gone, partial(self._on_gone, slot))

    def _on_gone(self, slot: CgroupSlot, gone: bool) -> None:
        if gone:
            self._instance_slot.release_resources(slot.uid, slot.group)
        else:
            slot.abandon()  # with its uid and its groups: something may still run there

    # -- the clock ---------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> float:
        """Give up nurseries that do not answer, and one free slot that nobody has needed for long. Return when to look
        again."""
        asked = [*self._waiting, *self._renewing, *(slot for slot in self._prewarmed if slot.instance is None)]
        for slot in asked:
            self._look_after(slot, now)
        due = idle_until(self._free)
        if due <= now:
            self.drop(self._free[0])
        return min(due, now + LOOK_SECONDS if asked else float("inf"))

    def _look_after(self, slot: CgroupSlot, now: float) -> None:
        trouble = slot.helper.trouble(now)
        if trouble:
            self._lose(slot, trouble)
        elif now - slot.asked >= ANSWER_SECONDS:
            self._lose(slot, f"it has not answered for {ANSWER_SECONDS:.0f} s")

    # -- spares ------------------------------------------------------------------------------------------------------

    def _take_prewarmed(self, base: bytes, *, without_namespaces: bool) -> CgroupSlot | None:
        for slot in self._prewarmed:
            if (slot.base, slot.without_namespaces) == (base, without_namespaces):
                self._prewarmed.remove(slot)
                self._unwatch_instance(slot)
                return slot
        return None

    def _prepare_next(self, base: bytes, groups: Groups, without_namespaces: bool) -> None:
        if base:
            self._prewarm(base, groups, without_namespaces=without_namespaces)

    def _prewarm(self, base: bytes, groups: Groups, *, without_namespaces: bool) -> None:
        """Have a cell ready for the next run of the same kind; the oldest makes room."""
        if (
            any((slot.base, slot.without_namespaces) == (base, without_namespaces) for slot in self._prewarmed)
            or not self._instance_slot.has_slack()
        ):
            return
        if len(self._prewarmed) >= _MAX_PREWARMED:
            self.drop(self._prewarmed[0])
        try:
            slot = self.take_slot()
            slot.request(base, groups, without_namespaces=without_namespaces, own_network=True)
            self._prewarmed.append(slot)
        except (OSError, ValueError, SlotError):
            return  # no room for a spare; the run that needs a cell will say why

    def _on_prewarmed(self, slot: CgroupSlot, instance: Instance, _events: int) -> None:
        """A spare says that it is ready; anything else makes it unusable."""
        try:
            messages = [kind for kind, _ in protocol.Decoder().feed(instance.receive(1 << 12))]
            if not messages or not all(map(instance.accept_message, messages)):
                self.drop(slot)
            elif instance.ready:
                slot.arm(slot.groups)
        except (OSError, protocol.WireError):
            self.drop(slot)

    def _discard(self, slot: CgroupSlot, _events: int) -> None:
        self.drop(slot)

    def _unwatch_instance(self, slot: CgroupSlot) -> None:
        if slot.instance is not None:
            self._loop.forget(slot.instance.control.fileno())
            self._loop.forget(slot.instance.pidfd)

    def kill_all(self) -> None:
        """Kill what is in every slot, all at once."""
        for slot in self._slots:
            if slot.instance is not None:
                try:
                    slot.instance.kill()
                except OSError:
                    pass  # it dies with its nursery

    def close(self) -> None:
        """End all slots."""
        for slot in list(self._slots):
            self.drop(slot)
