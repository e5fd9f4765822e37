"""The warden: takes runs from its caller, gives each a cell, and ends with the caller."""

from __future__ import annotations

import _socket as socket
import gc
import os
import time

from stockade.core.launch import Launch
from stockade.linux import cgroups, faults, uids
from stockade.warden import loop, protocol
from stockade.warden.accept import AcceptLoop
from stockade.warden.admission import Admission
from stockade.warden.cold.disposal import Disposal
from stockade.warden.cold.pool import Pool
from stockade.warden.freezers import Freezers
from stockade.warden.run.run import Run
from stockade.warden.uid_pool import UidPool
from stockade.warden.warm.pool import ZygotePool
from stockade.warden.warm.worker_handle import WorkerHandle
from stockade.warden.weights import Weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.cold.interfaces import Waiter

_COLLECT_EVERY = 512
_AGAIN_SECONDS = 0.05
_TIDY_SECONDS = 0.05


class Warden:
    """One caller's warden. Its only state is the runs and what is kept ready for the next."""

    def __init__(self, control: socket.socket, caller: int, facts: dict[str, Any]) -> None:
        """``caller`` is the caller's pidfd; ``facts`` is what the probe found."""
        self._loop = loop.Loop()
        self._leasing = facts["uid"] == 0
        self._hierarchies = [
            cgroups.Hierarchy(version=item[0], path=item[1], controllers=item[2]) for item in facts["hierarchies"]
        ]
        self._tree: cgroups.Tree | None = None
        self._uids: UidPool | None = None
        self._freezers = Freezers()
        self.weights = Weights()
        self._runs: set[Run] = set()
        self._disposal = Disposal()
        warden = os.pidfd_open(os.getpid())
        self._pool = Pool(self._loop, self, self._disposal, warden=warden, privileged=bool(facts["privileged"]))
        self._zygotes = ZygotePool(self._loop, self)
        self._admission = Admission(self.begin, self._shed)
        self._served = 0
        self._tidied = self._tidy_due = float("-inf")
        self._ending = False
        self._accept_loop = AcceptLoop(
            self._loop, control, may_accept=self._admission.may_accept, on_run=self._on_run, on_end=self._on_no_more
        )
        self._loop.watch(caller, loop.READ, self._on_caller_death)

    def stay(self) -> None:
        """Serve until the caller is gone; then kill and reap everything that was started for it."""
        try:
            while not self._ending:
                now = time.monotonic()
                due = min((_tick(run, now) for run in list(self._runs)), default=float("inf"))
                due = min(due, self._tidy(now))
                self._accept_loop.listen()
                self._loop.turn(None if due == float("inf") else due - time.monotonic())
        finally:
            self._clean_up()

    def _tidy(self, now: float) -> float:
        """Give back what nobody has needed for long; return when to look again. There is a look after whatever happens,
        but not after each of many things."""
        if now - self._tidied < _TIDY_SECONDS:
            return min(self._tidy_due, self._tidied + _TIDY_SECONDS)
        self._tidied = now
        try:
            self._tidy_due = min(self._zygotes.tick(now), self._pool.tick(now), self._disposal.tick(now))
        except OSError:  # no descriptor is free, say
            self._tidy_due = now + _AGAIN_SECONDS
        return self._tidy_due

    # -- what a run needs --------------------------------------------------------------------------------------

    def start(self, run: Run, launch: Launch) -> None:
        """Have ``run`` begin as soon as there is room for it."""
        self.weights.enter(run)
        self._admission.ask(run, launch)

    def begin(self, run: Run, launch: Launch) -> None:
        """Give ``run`` a cell, a spare one if it fits, and have the next one made meanwhile."""
        if self._ending:
            run.refuse("the warden ends")
            return
        if launch.warm and self._zygotes.take(run, launch):
            return
        self._pool.provide(run, launch)

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

    def _shed(self) -> bool:
        """Give back what is kept for later runs; return whether there was anything."""
        return any([self._pool.shed(), self._zygotes.shed()])

    def has_slack(self) -> bool:
        """Return whether there is room for something that no run waits for."""
        return self._admission.has_slack()

    def put_back(self, waiter: Any, launch: Launch, message: str) -> bool:
        """Have a run that could not begin wait for its turn again; return whether it does."""
        return not self._ending and self._admission.put_back(waiter, launch, message)

    def release_admission(self, run: Run) -> None:
        """Take notice that ``run`` waits for an interpreter, and will ask again."""
        self._admission.leave(run)

    def release(self, slot: CgroupSlot) -> None:
        """Take back a slot whose cell is dead."""
        self._freezers.release(slot)
        if isinstance(slot, WorkerHandle):
            slot.pool.release(slot)
        else:
            self._pool.release(slot)

    def serve(self, sock: socket.socket, decoder: protocol.Decoder, before: Launch | None) -> None:
        """Wait for a run on ``sock``, of which ``decoder`` has read what it has; ``before`` was the launch before."""
        run = Run(self._loop, sock, decoder, before, self)
        self._runs.add(run)

    def freezer(self, slot: CgroupSlot) -> cgroups.Freezer | None:
        """Return the group in which the guest of ``slot`` can be frozen, if there is any."""
        return self._freezers.find(slot)

    def done(self, run: Run) -> None:
        """Forget ``run``."""
        self._runs.discard(run)
        self.weights.leave(run)
        self._admission.leave(run)
        self._served += 1
        if self._served % _COLLECT_EVERY == 0:
            gc.collect()

    # -- slots -------------------------------------------------------------------------------------------------

    def take_slot(self) -> CgroupSlot:
        """Return a slot for a cell."""
        return self._pool.take_slot()

    def expect(self, slot: CgroupSlot, waiter: Waiter) -> None:
        """Have ``waiter`` told when the cell is there that is asked of ``slot``."""
        self._pool.expect(slot, waiter)

    def drop(self, slot: CgroupSlot) -> None:
        """End a slot for good."""
        self._freezers.release(slot)
        self._pool.drop(slot)

    def dispose(self, gone: Callable[[], bool], then: Callable[[bool], None]) -> None:
        """See ``Disposal.add``."""
        self._disposal.add(gone, then)

    def take_uid(self) -> int | None:
        """Return a host uid that no other run has, where root starts them."""
        if not self._leasing:
            return None
        self._uids = self._uids or UidPool(uids.configured())
        return self._uids.take()

    def take_group(self) -> cgroups.Group | None:
        """Return fresh control groups, where there can be any."""
        if not self._hierarchies:
            return None
        if self._tree is None:
            self._tree = self.weights.tree = cgroups.Tree(self._hierarchies, os.urandom(8).hex())
        return self._tree.make()

    def release_resources(self, uid: int | None, group: cgroups.Group | None) -> None:
        """Take back what nothing runs in or under any more."""
        if group is not None and self._tree is not None:
            self._tree.remove(group)
        if uid is not None and self._uids is not None:
            self._uids.release(uid)

    # -- the caller --------------------------------------------------------------------------------------------

    def _on_run(self, sock: socket.socket) -> None:
        self.serve(sock, protocol.Decoder(), None)

    def _on_no_more(self) -> None:
        self._ending = True

    def _on_caller_death(self, _events: int) -> None:
        self._ending = True

    def _clean_up(self) -> None:
        self._ending = True  # also where an error has brought us here: no run begins any more
        self._pool.kill_all()  # at once; each is waited for below
        self._zygotes.close()
        self._pool.close()
        self._disposal.close()
        self._freezers.close()
        if self._tree is not None:
            self._tree.close()


def _tick(run: Run, now: float) -> float:
    """What cannot be read (no descriptor is left, say) ends this run; the others go on."""
    try:
        return run.tick(now)
    except Exception as error:  # whatever it is, it is this run's fault and no other's
        run.refuse(faults.explain("watch the run", error))
        return now + _AGAIN_SECONDS
