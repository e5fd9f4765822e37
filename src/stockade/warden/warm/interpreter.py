"""One warm interpreter as the warden sees it: its start, its end, and who waits for it meanwhile."""

from __future__ import annotations

import os
import time

from stockade.core.launch import Groups, Warm
from stockade.linux import faults
from stockade.warden import loop, protocol
from stockade.warden.cold.cgroup_slot import CgroupSlot, SlotError
from stockade.warden.cold.instance import send_with
from stockade.warden.helper_liveness import LOOK_SECONDS, Helper
from stockade.warden.warm import worker_pool
from stockade.warden.warm.worker_pool import MOST, WorkerPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from stockade.core.launch import Launch
    from stockade.warden.cold.instance import Instance
    from stockade.warden.run.run import Run
else:
    Protocol = object

START_SECONDS = 60.0
_LAST_WORDS = 4096
_MOST_USES = 100_000
"""Runs after which an interpreter makes room for a fresh one: what little it may gather goes with it."""


class ZygoteOwner(worker_pool.PoolOwner, Protocol):
    """What a warm interpreter needs of the warden around it."""

    def start(self, run: Run, launch: Launch) -> None:
        """Have ``run`` begin as soon as there is room for it."""

    def begin(self, run: Run, launch: Launch) -> None:
        """Find a cell for ``run``, in another way if need be."""

    def release_admission(self, run: Run) -> None:
        """Take notice that ``run`` takes nothing from others until it is started."""

    def take_slot(self) -> CgroupSlot:
        """Return a slot for a cell."""

    def drop(self, slot: CgroupSlot) -> None:
        """Take it back."""

    def expect(self, slot: CgroupSlot, waiter: Any) -> None:
        """Have ``waiter`` told when the cell that was asked for is there."""

    def take_uid(self) -> int | None:
        """Return a host uid, where root starts the runs."""


class Zygote:
    """One warm interpreter, in a cell of its own, and its slots."""

    gone = False

    def __init__(self, events: loop.Loop, owner: ZygoteOwner, warm: Warm, launch: Launch) -> None:
        """Have it started; it can be used when it says so. ``launch`` is what runs in it are most likely like."""
        self._loop = events
        self._owner = owner
        self._warm = warm
        self._begun = time.monotonic()
        self.ended = False
        self.ready = False
        self._queue: list[tuple[Run, Launch]] = []
        self._sent = self._cut_off = False
        self._decoder = protocol.Decoder()
        self._instance_slot = owner.take_slot()
        self._mapped: list[int] = []
        self._init: Helper | None = None
        try:
            if self._instance_slot.uid is not None:
                self._lease()
            owner.expect(self._instance_slot, self)
            self._instance_slot.request(warm.zygote, Groups(), own_network=True)
        except (OSError, SlotError):
            self._leave()
            raise
        self.workers = WorkerPool(
            events=events,
            owner=owner,
            copy=self._copy,
            numbers=self._numbers(),
            launch=launch,
            turn_away=self._turn_away,
            on_unfit=self._fail,
            on_empty=self._leave,
        )

    def _lease(self) -> None:
        """Take a uid for each copy, which the interpreter's user namespace has from its start."""
        for _ in range(MOST):
            uid = self._owner.take_uid()
            assert uid is not None
            self._mapped.append(uid)

    def _numbers(self) -> list[tuple[int, int | None]]:
        return [*enumerate(self._mapped, 1)] or [(0, None)] * MOST

    # -- its own start ---------------------------------------------------------------------------------------------

    def adopt(self, slot: CgroupSlot) -> None:
        """Its cell is there."""
        instance = slot.instance
        assert instance is not None
        guarded = loop.Guarded(self._loop, self._fail)
        guarded.watch(instance.control.fileno(), loop.READ, self._on_word)
        guarded.watch(instance.pidfd, loop.READ, self._on_end)
        self._init = Helper(instance.init, "its init", time.monotonic(), generations=2)

    def lost(self, message: str) -> None:
        """Its cell is about to end."""
        self._fail(message)

    def refuse(self, message: str) -> None:
        """There will be none."""
        self.ended = True
        queue, self._queue = self._queue, []
        for run, _ in queue:
            run.refuse(f"no interpreter could be kept warm: {faults.shown(message)}")

    def wait_for(self, run: Run, launch: Launch) -> None:
        """Start ``run`` when the interpreter is there, or refuse it."""
        self._queue.append((run, launch))
        self._owner.release_admission(run)

    def look(self, now: float) -> float:
        """Give it up if it should have said long ago that it is there, or stands still while somebody waits for it.
        Return when to look again."""
        waited_for = not self.ready or self._cut_off or self.workers.awaits_interpreter
        if self.ended or not waited_for:
            return float("inf")
        if not self.ready and now - self._begun >= START_SECONDS:
            self.close(f"it was not there after {START_SECONDS:.0f} s")
        elif self._cut_off:
            self._fail("it took half a message")
        elif self._init is not None:
            trouble = self._init.trouble(now, child="the warm interpreter")
            if trouble:
                self._fail(trouble)
        return now + LOOK_SECONDS

    def _on_word(self, _events: int) -> None:
        instance = self._instance_slot.instance
        assert instance is not None
        try:
            data = instance.receive(1 << 12)
            if not data:
                raise OSError("it has ended")
            for kind, fields in self._decoder.feed(data):
                self._on_message(instance, kind, fields)
        except BlockingIOError:
            return
        except (OSError, protocol.WireError) as error:
            self._fail(str(error))

    def _fail(self, message: str) -> None:
        try:
            if self._instance_slot.instance is not None:
                message += os.read(self._instance_slot.instance.stderr, _LAST_WORDS).decode("utf-8", "replace").rstrip()
        except OSError:
            pass  # it said nothing
        self.close(message)

    def _turn_away(self, run: Run, launch: Launch, message: str) -> None:
        """Start a run cold, of which nothing has begun, or in another interpreter if it insists, once."""
        if launch.eager and not run.turned_away and not run.gone:
            run.turned_away = True
            self._owner.begin(run, launch)
        elif launch.eager:
            run.refuse(f"no copy of a warm interpreter could be made: {faults.shown(message)}")
        elif not run.gone:
            self._owner.begin(run, launch.adding(warm=b""))

    def _on_message(self, instance: Instance, kind: str, fields: dict[str, Any]) -> None:
        if kind == "warm":
            self.ready = True
            queue, self._queue = self._queue, []
            for run, launch in queue:
                if not run.gone:
                    self._owner.start(run, launch)  # by us, or cold where all copies are taken
            if not self.workers:
                self.workers.add_idle()
        elif kind == "refused" or kind.endswith("_failed"):
            raise OSError(fields["message"])
        elif kind == "exit":
            raise OSError("it has ended: " if self.ready else "it ended while it was started: ")
        elif instance.accept_message(kind) and instance.ready and not self._sent:
            self._sent = True
            order = protocol.encode(
                "launch",
                steps=[("own_users", [self._instance_slot.uid, *self._mapped])] if self._mapped else [],
                argv=self._warm.argv,
                environment=self._warm.environment,
                channel=True,
                keeps_control=True,
                trace=0,
            )
            if instance.send(order):
                raise OSError("it takes no more of its launch")

    def _on_end(self, _events: int) -> None:
        self.close()

    def _copy(self, fds: list[int], uid: int) -> None:
        """Have it make a copy of itself for a slot."""
        instance = self._instance_slot.instance
        if instance is None:
            raise OSError("it has ended")
        steps = [self._warm.slot, self._warm.network, self._warm.mounts, self._warm.guest]
        words = protocol.encode("worker", uid=uid, steps=steps)
        if not send_with(instance.control, words, fds):  # it must not hold up every run
            self._cut_off = True
            raise OSError("it takes no more messages")

    # -- runs ------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether any run is in it, or waits for it."""
        return self.workers.busy or bool(self._queue)

    @property
    def is_due_for_recycling(self) -> bool:
        """Whether it has been used so often that a fresh one is due, and no run waits for it."""
        return self.workers.uses >= _MOST_USES and not self.workers.awaited

    def idle_since(self, now: float) -> float:
        """Return for how many seconds nobody has wanted it."""
        return 0.0 if self.busy else now - self.workers.used

    def take(self, run: Run, launch: Launch) -> bool:
        """Give ``run`` a copy, or one that is being made; return whether there is any."""
        return self.ready and not self.ended and self.workers.take(run, launch)

    def close(self, why: str = "it has ended") -> None:
        """End it, with its copies, when the last run in one of them is over. Who waits for it is told ``why``."""
        self.refuse(why)
        slot, self.ready = self._instance_slot, False
        if slot.instance is not None:
            self._loop.forget(slot.instance.control.fileno())
            self._loop.forget(slot.instance.pidfd)
        self.workers.close(why)

    def _leave(self) -> None:
        self._owner.drop(self._instance_slot)
        for uid in self._mapped:
            self._owner.release_resources(uid, None)
        self._mapped = []
