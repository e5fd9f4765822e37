"""The slots of one warm interpreter: copies of it that wait for the next runs, or have one."""

from __future__ import annotations

import os
import time

from stockade.core import trace
from stockade.warden import loop, protocol
from stockade.warden.cold.cgroup_slot import SlotError, idle_until
from stockade.warden.cold.pool import ANSWER_SECONDS
from stockade.warden.helper_liveness import LOOK_SECONDS
from stockade.warden.warm.worker_handle import WorkerHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from functools import partial
    from typing import Protocol

    from stockade.core.launch import Launch, TemplateFields
    from stockade.linux import cgroups
    from stockade.warden.run.run import Run
else:
    from _functools import partial

    Protocol = object

MOST = 16
"""Copies of one interpreter at most: a run more than that is started cold."""
IDLE_SECONDS = 60.0
_CPUS = len(os.sched_getaffinity(0))
_LOOP_SECONDS = 0.002
"""Who asks for the next run so soon after the last one is in a loop, and soon needs what is being made now."""


class PoolOwner(Protocol):
    """What slots need of the warden around them."""

    def take_group(self) -> cgroups.Group | None:
        """Return fresh control groups, if there are any."""

    def release_resources(self, uid: int | None, group: cgroups.Group | None) -> None:
        """Take them back."""

    def dispose(self, gone: Callable[[], bool], then: Callable[[bool], None]) -> None:
        """See ``Disposal.add``."""

    def has_slack(self) -> bool:
        """Return whether there is room for something that no run waits for."""


class WorkerPool:
    """Makes them, hands them to runs, and takes them back."""

    def __init__(
        self,
        *,
        events: loop.Loop,
        owner: PoolOwner,
        copy: Callable[[list[int], int], None],
        numbers: Sequence[tuple[int, int | None]],
        launch: Launch,
        turn_away: Callable[[Run, Launch, str], None],
        on_unfit: Callable[[str], None],
        on_empty: Callable[[], None],
    ) -> None:
        """``copy`` has the interpreter make a copy of itself, with these descriptors, for the guests of a uid.
        ``numbers`` are what its user namespace calls the host uids that it was given, and those. ``launch`` is
        what runs are most likely like. ``turn_away`` gets a run that had to wait for nothing, with the reason;
        ``on_unfit`` is called when no copy could be furnished, and none has been before; ``on_empty`` when the last of
        them has ended after ``close``."""
        self._turn_away, self._on_unfit = turn_away, on_unfit
        self._on_empty = on_empty
        self._loop = events
        self._owner = owner
        self._copy = copy
        self._numbers = list(numbers)
        self._groups = launch.groups
        self._last_template = self._template = _template_of(launch)
        self._all: set[WorkerHandle] = set()
        self._idle: list[WorkerHandle] = []
        self._waiting: dict[WorkerHandle, tuple[Run, Launch]] = {}
        self._again: set[Run] = set()
        """Runs that wait for a second one, since the first was lost."""
        self._closed = False
        self._dying = 0
        self.proved = False
        """Whether any copy could be furnished."""
        self.uses = 0
        self.used = time.monotonic()
        self._in_a_loop = False

    @property
    def busy(self) -> bool:
        """Whether any run is in one, or waits for one."""
        return self._taken > 0 or bool(self._waiting)

    @property
    def _taken(self) -> int:
        return len(self._all) - len(self._idle)

    def take(self, run: Run, launch: Launch) -> bool:
        """Give ``run`` a copy, or one that is being made; return whether there is any."""
        if self._closed:
            return False
        self._note_use(launch)
        slot = self._best()
        if slot is None:
            slot = self._grow()
            if slot is None:
                return False
        elif slot in self._idle:
            self._idle.remove(slot)
        if slot.instance is None:
            self._waiting[slot] = run, launch
        else:
            self._hand(slot, run)
        self._keep_ready()
        return True

    def _note_use(self, launch: Launch) -> None:
        now = time.monotonic()
        self._in_a_loop = now - self.used < _LOOP_SECONDS
        self.used = now
        self.uses += 1
        self._groups = launch.groups
        template, before = _template_of(launch), self._last_template
        if template == before:  # or two kinds that take turns would have their keepers told something new each time
            self._template = template
        self._last_template = template

    def _keep_ready(self) -> None:
        if not any(each.instance is not None for each in self._idle) and len(self._idle) < _CPUS:
            self.add_idle()

    def _hand(self, slot: WorkerHandle, run: Run) -> None:
        self._again.discard(run)
        slot.run = run
        slot.traced = run.traced
        run.adopt(slot)

    def _best(self) -> WorkerHandle | None:
        """Return the one that was used last: of those that are too many it then shows that nobody needs them."""
        ready = (slot for slot in reversed(self._idle) if slot.instance is not None)
        return next(ready, self._idle[0] if self._idle else None)

    def close_idle(self, now: float) -> float:
        """Let go of one spare that nobody has needed for long, if there is any; return when to look again."""
        due = idle_until(self._idle)
        if due <= now:
            self._lose(self._idle[0])
        return min(due, now + IDLE_SECONDS, self._look_after(now))

    def _look_after(self, now: float) -> float:
        """Give up keepers that have not made the guest that they were asked for; return when to look again."""
        asked = [slot for slot in self._all if slot.instance is None]
        for slot in asked:
            trouble = slot.helper.trouble(now) if slot.pid > 0 else ""
            if trouble:
                self._on_trouble(slot, trouble)
            elif now - slot.asked >= ANSWER_SECONDS:
                self._on_trouble(slot, f"it (pid {slot.pid}) has not answered for {ANSWER_SECONDS:.0f} s")
        return now + LOOK_SECONDS if asked else float("inf")

    def shed(self) -> bool:
        """End those that wait for a run; return whether there was any."""
        idle = list(self._idle)
        for slot in idle:
            self._lose(slot)
        return bool(idle)

    def add_idle(self) -> None:
        """Have one more made for the next run, if there is room for it."""
        slot = self._grow() if self._owner.has_slack() else None
        if slot is not None:
            self._idle.append(slot)

    def _grow(self) -> WorkerHandle | None:
        if not self._numbers:
            return None
        group = None
        number, uid = self._numbers.pop()
        try:
            group = self._owner.take_group()
            slot = WorkerHandle(self._copy, self, number=number, uid=uid, group=group)
        except (OSError, SlotError):
            self._numbers.append((number, uid))
            self._owner.release_resources(None, group)
            return None
        self._all.add(slot)
        slot.used = time.monotonic()
        guarded = loop.Guarded(self._loop, partial(self._on_trouble, slot))
        guarded.watch(slot.control.fileno(), loop.READ, partial(self._on_slot, slot))
        try:
            slot.ask(protocol.FORK_WARMED_UP, self._template)
        except SlotError:  # it has ended, which is told of in a moment
            self._lose(slot)
            return None
        return slot

    def _on_slot(self, slot: WorkerHandle, _events: int) -> None:
        """Hear what keeper and guest-to-be have to say."""
        try:
            for kind, fields in slot.read_messages():
                if kind == "set_up":
                    self._on_guest_ready(slot)
                elif kind == "exit" and slot.run is not None:
                    slot.run.on_end(fields)
                elif kind != "exit":
                    raise SlotError(fields["message"])
                elif slot.instance is not None:
                    raise SlotError("it has ended before its time")
                else:  # it was answered before
                    trace.note(slot.traced, trace.REAPED, fields["at"])
                    trace.note(slot.traced, trace.EMPTY)
        except (SlotError, protocol.WireError, OSError) as error:
            self._on_trouble(slot, str(error))

    def _on_guest_ready(self, slot: WorkerHandle) -> None:
        tasks = slot.tasks()  # where nothing counts them, the keeper's word that it had no child left stands alone
        if tasks is not None and tasks > 1:
            raise SlotError("its groups are not empty")
        self.proved = True
        guarded = loop.Guarded(self._loop, partial(self._on_trouble, slot))
        guarded.watch(slot.pidfd, loop.READ, partial(self._on_death, slot))
        if slot.has_residual_memory:
            self._replace(slot)
            return
        slot.arm(self._groups)
        trace.note(slot.traced, trace.SET_UP)
        waiting = self._waiting.pop(slot, None)
        if waiting is None:
            return
        if waiting[0].gone:
            self._idle.append(slot)
        else:
            self._hand(slot, waiting[0])

    def _replace(self, slot: WorkerHandle) -> None:
        """Have another made in place of one that nothing is wrong with but what its groups are still charged with."""
        waiting = self._waiting.pop(slot, None)
        self._lose(slot)
        if waiting is None:
            if not self._closed:
                self._keep_ready()
        elif waiting[0].gone or not self.take(*waiting):
            self._turn_away(*waiting, "its groups are still charged with what another run has left")

    def _on_trouble(self, slot: WorkerHandle, message: str) -> None:
        waiting = self._waiting.pop(slot, None)
        if waiting is None and slot.run is not None:
            self._loop.forget(slot.control.fileno())  # its run hears of the keeper's death, and gives the slot back
            slot.run.lost(f"the copy of a warm interpreter (pid {slot.pid}) that keeps the run is lost: {message}")
            slot.kill()
            return
        self._lose(slot)
        if waiting is not None and not self._take_another(*waiting):
            self._turn_away(*waiting, message)
        if not self.proved:
            self._on_unfit(message)

    def _take_another(self, run: Run, launch: Launch) -> bool:
        """Give ``run``, of which nothing has begun, another one, once; return whether there is any."""
        if run in self._again or run.gone or not self.proved:
            self._again.discard(run)
            return False
        self._again.add(run)
        return self.take(run, launch)

    def _on_death(self, slot: WorkerHandle, _events: int) -> None:
        """The keeper is dead, and with it, by the kernel's word, all that was in its PID namespace."""
        self._loop.forget(slot.pidfd)
        if slot.run is not None:
            slot.run.on_death()
        else:
            self._on_trouble(slot, "it has ended")

    def release(self, slot: WorkerHandle) -> None:
        """Take back a slot whose guest is gone, or killed and alone."""
        self.used = slot.used = time.monotonic()
        slot.run = slot.instance = None  # the run has closed it
        try:
            if self._closed or slot.dead:
                raise SlotError("it has ended")
            hurry = self._in_a_loop or self._taken > _CPUS
            slot.reuse(protocol.FORK_AT_ONCE if hurry else protocol.FORK_WARMED_UP, self._template)
        except SlotError:
            self._lose(slot)
            if not (self._closed or self._idle):
                self.add_idle()
            return
        self._idle.append(slot)

    def _lose(self, slot: WorkerHandle) -> None:
        """End a slot for good."""
        if slot not in self._all:
            return
        self._all.discard(slot)
        if slot in self._idle:
            self._idle.remove(slot)
        self._loop.forget(slot.control.fileno())
        if slot.pidfd >= 0:
            self._loop.forget(slot.pidfd)
        if slot.instance is not None:
            self._loop.forget(slot.instance.control.fileno())
        slot.end()
        self._dying += 1
        self._owner.dispose(slot.is_gone, partial(self._on_gone, slot))

    def _on_gone(self, slot: WorkerHandle, gone: bool) -> None:
        self._dying -= 1
        if gone:
            self._owner.release_resources(None, slot.group)
            self._numbers.append((slot.number, slot.uid))
        else:
            slot.abandon()  # with its uid and its groups: something may still run there
        if self._closed and not self:
            self._on_empty()

    @property
    def awaits_interpreter(self) -> bool:
        """Whether a copy was asked for of which nothing is known yet."""
        return any(slot.pid < 0 for slot in self._all)

    @property
    def awaited(self) -> bool:
        """Whether a run waits for one that is being made."""
        return bool(self._waiting)

    def close(self, why: str) -> None:
        """Make no more, and end those that have no run. A run that waits for one is turned away, and told ``why``."""
        if self._closed:
            return
        self._closed = True
        if not self:
            self._on_empty()
        for slot in list(self._all):
            waiting = self._waiting.pop(slot, None)
            if waiting is not None:
                self._turn_away(*waiting, why)
            if slot in self._idle or waiting is not None:
                self._lose(slot)

    def abandon(self) -> None:
        """End those that have one as well: nobody will, or wants to hear of them."""
        for slot in list(self._all):
            self._lose(slot)

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._all) or self._dying > 0


def _template_of(launch: Launch) -> TemplateFields | None:
    """Return the form of what may come again."""
    return launch.template if launch.repeats else None
