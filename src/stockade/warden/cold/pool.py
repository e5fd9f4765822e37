"""The cgroup slots of one warden: idle ones, prewarmed ones with an instance, and those that a run waits for or has."""

from __future__ import annotations

import time

from stockade.core.launch import Groups, Launch
from stockade.core.record import Record
from stockade.linux import faults
from stockade.warden import loop, protocol
from stockade.warden.cold.cgroup_slot import CgroupSlot, SlotError, SlotLostError, idle_until
from stockade.warden.helper_liveness import LOOK_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import partial

    from stockade.warden.cold.disposal import Disposal
    from stockade.warden.cold.instance import Instance
    from stockade.warden.cold.interfaces import Resources, Waiter
    from stockade.warden.run.run import Run
else:
    from _functools import partial


_MAX_PREWARMED = 4  # of different bases
_MAX_IDLE = 16  # slots without an instance
_PREWARMED_SECONDS = 60.0  # how long the sandbox of an engine may wait for a run
_LOOP_SECONDS = 0.005
"""A caller is in a loop if its next run comes this soon after the last one."""
ANSWER_SECONDS = 10.0
"""Deadline for a helper process that is not stopped: a busy host may give it no processor for a while."""


class _Waiting(Record):
    waiter: Waiter
    launch: Launch | None = None
    """The launch to begin once more if the spawner is lost. The run has not begun, so a repeat is safe."""


class Pool:
    """Makes slots, has instances made in them, hands them out and takes them back."""

    def __init__(
        self, events: loop.Loop, resources: Resources, disposal: Disposal, *, warden: int, privileged: bool
    ) -> None:
        """``warden`` is the warden's own pidfd."""
        self._loop = events
        self._resources = resources
        self._disposal = disposal
        self._self = warden
        self._privileged = privileged
        self._slots: set[CgroupSlot] = set()
        self._idle: list[CgroupSlot] = []
        self._prewarmed: list[CgroupSlot] = []
        self._waiting: dict[CgroupSlot, _Waiting] = {}
        self._adopted_by: dict[CgroupSlot, Waiter] = {}
        self._renewing: dict[CgroupSlot, tuple[bytes, Groups, bool]] = {}
        self._last_end = float("-inf")

    # -- runs ------------------------------------------------------------------------------------------------------

    def acquire(self, run: Run, launch: Launch) -> str:
        """Give ``run`` an instance, a prewarmed one if its base fits, and prewarm the next one for a caller in a loop.

        This pool serves every run: it returns an empty text.
        """
        self._provide(run, launch)
        return ""

    def _provide(self, run: Run, launch: Launch, *, again: bool = False) -> None:
        """Give ``run`` an instance. ``again`` means that the first instance for this run was lost."""
        common = launch.own_network and launch.host_uid is None and not launch.lives
        waiting = _Waiting(waiter=run, launch=None if again else launch)
        try:
            prewarmed = (
                self._take_prewarmed(launch.base, without_namespaces=launch.without_namespaces)
                if common and not again
                else None
            )
            run.prewarmed = prewarmed is not None and prewarmed.instance is not None
            if prewarmed is not None and prewarmed.instance is not None:
                self._hand_over(prewarmed, run)
            elif prewarmed is not None:
                self._waiting[prewarmed] = waiting  # the spawner is still making the instance
            else:
                slot = self.take_slot()
                self._waiting[slot] = waiting
                slot.request(
                    launch.base,
                    launch.groups,
                    without_namespaces=launch.without_namespaces,
                    own_network=launch.own_network,
                    uid=launch.host_uid,
                    lives=launch.lives,
                )
        except (OSError, ValueError, SlotError) as error:
            for made in [slot for slot, each in self._waiting.items() if each is waiting]:
                self.drop(made)
            if isinstance(error, SlotLostError) and not again:
                self._provide(run, launch, again=True)
            else:
                self._turn_away(waiting, error)
            return
        # Prewarm beside the run only for a caller in a loop; for other callers that would slow the run down.
        if common and time.monotonic() - self._last_end < _LOOP_SECONDS:
            self._prewarm(launch.base, launch.groups, without_namespaces=launch.without_namespaces)

    def _turn_away(self, waiting: _Waiting, error: Exception) -> None:
        """Refuse a run that gets no instance, or queue it again if the host was short of something."""
        message = (
            faults.explain("make the sandbox", error) if isinstance(error, OSError) else f"make the sandbox: {error}"
        )
        short = getattr(error, "errno", None) in faults.SHORTAGES
        if not (short and waiting.launch and self._resources.put_back(waiting.waiter, waiting.launch, message)):
            waiting.waiter.refuse(message)

    def shed(self) -> bool:
        """End all slots that no run has or waits for; return whether there was any."""
        kept = [*self._prewarmed, *self._idle]
        for slot in kept:
            if slot not in self._waiting:
                self.drop(slot)
        return bool(kept)

    def expect(self, slot: CgroupSlot, waiter: Waiter) -> None:
        """Tell ``waiter`` when the instance that was requested of ``slot`` is there."""
        self._waiting[slot] = _Waiting(waiter=waiter)

    def _hand_over(self, slot: CgroupSlot, waiter: Waiter) -> None:
        self._adopted_by[slot] = waiter
        self._waiting.pop(slot, None)  # not earlier: an error until here must find the waiter
        waiter.adopt(slot)

    def release(self, slot: CgroupSlot) -> None:
        """Take back a slot whose instance is dead and closed. It is idle again once its spawner has reaped the init."""
        self._adopted_by.pop(slot, None)
        self._last_end = slot.used = time.monotonic()
        if slot.ask_renewal():
            self._renewing[slot] = slot.base, slot.groups, slot.without_namespaces
        else:
            base, groups, without_namespaces = slot.base, slot.groups, slot.without_namespaces
            self.drop(slot)
            self._prepare_next(base, groups, without_namespaces)

    # -- messages of spawners ----------------------------------------------------------------------------------------

    def take_slot(self) -> CgroupSlot:
        """Return an idle slot, or a new one."""
        if self._idle:
            return self._idle.pop()
        uid, group = None, None
        try:
            uid, group = self._resources.take_uid(), self._resources.take_group()
            slot = CgroupSlot(warden=self._self, privileged=self._privileged, uid=uid, group=group)
        except OSError:
            self._resources.release_resources(uid, group)
            raise
        self._slots.add(slot)
        self._guarded(slot).watch(slot.control.fileno(), loop.READ, partial(self._on_spawner, slot))
        return slot

    def _guarded(self, slot: CgroupSlot) -> loop.Guarded:
        return loop.Guarded(self._loop, partial(self._lose, slot))

    def _on_spawner(self, slot: CgroupSlot, _events: int) -> None:
        """Handle an answer of a spawner: an instance made, an instance reaped, or a failure."""
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
        waiting = self._waiting.get(slot)
        if waiting is None:
            guarded = self._guarded(slot)
            guarded.watch(instance.control.fileno(), loop.READ, partial(self._on_prewarmed, slot, instance))
            guarded.watch(instance.pidfd, loop.READ, partial(self._discard, slot))
        elif waiting.waiter.gone:
            self.drop(slot)
        else:
            self._hand_over(slot, waiting.waiter)

    def _on_reaped(self, slot: CgroupSlot) -> None:
        kind = self._renewing.pop(slot, None)
        if kind is None:
            return
        if slot.renew() and len(self._idle) < _MAX_IDLE:
            self._idle.append(slot)
        else:
            self.drop(slot)
        self._prepare_next(*kind)

    def _lose(self, slot: CgroupSlot, message: str) -> None:
        """Handle a spawner that is gone or stopped."""
        waiter = self._adopted_by.get(slot)
        if waiter is not None:  # the instance dies with its spawner; then the slot comes back and is dropped
            self._loop.forget(slot.control.fileno())
            waiter.lost(f"the process that holds the sandbox's init (pid {slot.pid}) is lost: {message}")
            return
        waiting = self._waiting.get(slot)
        if waiting is None or waiting.launch is None or waiting.waiter.gone:
            self._fail(slot, f"the process that makes the sandbox (pid {slot.pid}) is lost: {message}")
            return
        self.drop(slot)
        self._provide(waiting.waiter, waiting.launch, again=True)  # type: ignore[arg-type]  # only runs have a launch

    def _fail(self, slot: CgroupSlot, message: str) -> None:
        waiting = self._waiting.pop(slot, None)
        self.drop(slot)
        if waiting is not None:
            waiting.waiter.refuse(message)

    def drop(self, slot: CgroupSlot) -> None:
        """End a slot for good: its spawner and instance, then its control groups and its uid."""
        self._waiting.pop(slot, None)
        self._adopted_by.pop(slot, None)
        self._renewing.pop(slot, None)
        if slot not in self._slots:
            return
        self._slots.discard(slot)
        if slot in self._prewarmed:
            self._prewarmed.remove(slot)
        if slot in self._idle:
            self._idle.remove(slot)
        self._unwatch_instance(slot)
        self._loop.forget(slot.control.fileno())
        slot.end()
        self._disposal.add(slot.is_gone, partial(self._on_gone, slot))

    def _on_gone(self, slot: CgroupSlot, gone: bool) -> None:
        if gone:
            self._resources.release_resources(slot.uid, slot.group)
        else:
            slot.abandon()  # keep its uid and groups from others, because something may still run there

    # -- the clock ---------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> float:
        """Drop slots whose spawner does not answer, and one slot that was idle for long. Return when to check again."""
        asked = [*self._waiting, *self._renewing, *(slot for slot in self._prewarmed if slot.instance is None)]
        for slot in asked:
            self._check_answer(slot, now)
        due = idle_until(self._idle)
        if due <= now:
            self.drop(self._idle[0])
        waiting = {slot: slot.asked + _PREWARMED_SECONDS for slot in self._prewarmed if slot.without_namespaces}
        for slot in [slot for slot, until in waiting.items() if until <= now]:
            self.drop(slot)
        return min(due, *waiting.values(), now + LOOK_SECONDS if asked else float("inf"))

    def _check_answer(self, slot: CgroupSlot, now: float) -> None:
        trouble = slot.helper.trouble(now)
        if trouble:
            self._lose(slot, trouble)
        elif now - slot.asked >= ANSWER_SECONDS:
            self._lose(slot, f"it has not answered for {ANSWER_SECONDS:.0f} s")

    # -- prewarmed instances -----------------------------------------------------------------------------------------

    def _take_prewarmed(self, base: bytes, *, without_namespaces: bool) -> CgroupSlot | None:
        for slot in list(self._prewarmed):
            if (slot.base, slot.without_namespaces) != (base, without_namespaces):
                continue
            if slot.instance is not None:
                self._look_for_end(slot, slot.instance)
            if slot in self._prewarmed:
                self._prewarmed.remove(slot)
                self._unwatch_instance(slot)
                return slot
        return None

    def _look_for_end(self, slot: CgroupSlot, instance: Instance) -> None:
        """Drop a prewarmed slot whose instance has ended: its event may wait behind the launch in this turn."""
        self._on_prewarmed(slot, instance, 0)
        if slot in self._prewarmed and instance.gone():
            self.drop(slot)

    def _prepare_next(self, base: bytes, groups: Groups, without_namespaces: bool) -> None:
        if base:
            self._prewarm(base, groups, without_namespaces=without_namespaces)

    def _prewarm(self, base: bytes, groups: Groups, *, without_namespaces: bool) -> None:
        """Have an instance ready for the next run with this base; the oldest prewarmed one ends if there are many."""
        if (
            any((slot.base, slot.without_namespaces) == (base, without_namespaces) for slot in self._prewarmed)
            or not self._resources.has_slack()
        ):
            return
        if len(self._prewarmed) >= _MAX_PREWARMED:
            self.drop(self._prewarmed[0])
        try:
            slot = self.take_slot()
            slot.request(base, groups, without_namespaces=without_namespaces, own_network=True)
            self._prewarmed.append(slot)
        except (OSError, ValueError, SlotError):
            return  # a run that needs an instance will report the reason

    def _on_prewarmed(self, slot: CgroupSlot, instance: Instance, _events: int) -> None:
        """Handle messages of a prewarmed instance: anything unexpected makes it unusable."""
        try:
            messages = [kind for kind, _ in protocol.Decoder().feed(instance.receive(1 << 12))]
            if not messages or not all(map(instance.accept_message, messages)):
                self.drop(slot)
            elif instance.ready:
                slot.arm(slot.groups)
        except BlockingIOError:
            return
        except (OSError, protocol.WireError):
            self.drop(slot)

    def _discard(self, slot: CgroupSlot, _events: int) -> None:
        self.drop(slot)

    def _unwatch_instance(self, slot: CgroupSlot) -> None:
        if slot.instance is not None:
            self._loop.forget(slot.instance.control.fileno())
            self._loop.forget(slot.instance.pidfd)

    def kill_all(self) -> None:
        """Kill the processes of every slot without waiting for any."""
        for slot in self._slots:
            if slot.instance is not None:
                try:
                    slot.instance.kill()
                except OSError:
                    pass  # the instance dies with its spawner

    def close(self) -> None:
        """End all slots."""
        for slot in list(self._slots):
            self.drop(slot)
