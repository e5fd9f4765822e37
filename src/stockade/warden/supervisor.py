"""The warden: accepts runs from its caller, gives each an instance, and ends with the caller."""

from __future__ import annotations

import _socket as socket
import gc
import os
import time

from stockade.core.launch import Launch
from stockade.linux import cgroups, faults, uids
from stockade.linux.kill_switch import MACHINE, KillSwitch, own_path
from stockade.warden import loop, protocol
from stockade.warden.accept import AcceptLoop
from stockade.warden.activity import Activity
from stockade.warden.admission import Admission
from stockade.warden.cold.disposal import Disposal
from stockade.warden.cold.pool import Pool
from stockade.warden.containers.containers import Containers
from stockade.warden.freezers import Freezers
from stockade.warden.run.run import Run
from stockade.warden.run.sandboxes import Sandboxes
from stockade.warden.uid_pool import UidPool
from stockade.warden.warm.interpreter import START_SECONDS
from stockade.warden.warm.pool import ZygotePool
from stockade.warden.warm.worker_handle import WorkerHandle
from stockade.warden.weights import Weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.cold.interfaces import SlotPool, Waiter

_COLLECT_EVERY = 512
_AGAIN_SECONDS = 0.05
_TIDY_SECONDS = 0.05
_SWITCH_SECONDS = 0.5
"""How often to look at the kill switch while anything runs."""
_TRIES = 3
"""A run without an instance is refused after so many times its set-up time. Its pool tries twice at most."""


class Warden:
    """The warden of one caller. Its state is the runs, and the instances and workers prewarmed for the next ones."""

    def __init__(self, control: socket.socket, caller: int, facts: dict[str, Any]) -> None:
        """``caller`` is the caller's pidfd; ``facts`` are the results of the probe."""
        self._loop = loop.Loop()
        self._assigns_uids = facts["uid"] == 0
        self._hierarchies = [
            cgroups.Hierarchy(version=item[0], path=item[1], controllers=item[2]) for item in facts["hierarchies"]
        ]
        self._tree: cgroups.Tree | None = None
        self._uids: UidPool | None = None
        self._freezers = Freezers()
        self.weights = Weights()
        self._activity = Activity()
        self.sandboxes = Sandboxes()
        self._runs: set[Run] = set()
        self._disposal = Disposal()
        warden = os.pidfd_open(os.getpid())
        self._pool = Pool(self._loop, self, self._disposal, warden=warden, privileged=bool(facts["privileged"]))
        self._zygotes = ZygotePool(self._loop, self)
        self._admission = Admission(self.begin, self._shed)
        self._containers = Containers(self._loop, self.dispose, self._admission.has_slack)
        self._kill_switch = KillSwitch(tuple({MACHINE: None, own_path(os.geteuid()): None}))
        self._switch_due = float("-inf")
        self._served = 0
        self._tidied = self._tidy_due = float("-inf")
        self._ending = False
        self._accept_loop = AcceptLoop(
            self._loop, control, may_accept=self._admission.may_accept, on_run=self._on_run, on_end=self._on_no_more
        )
        self._loop.watch(caller, loop.READ, self._on_caller_death)

    def stay(self) -> None:
        """Serve until the caller is gone. Then kill and reap every process that was started for it."""
        try:
            while not self._ending:
                now = time.monotonic()
                active = self._activity.look(now)
                due = min((_tick(run, now, active=active) for run in list(self._runs)), default=float("inf"))
                due = min(due, self._tidy(now), self._look_at_switch(now))
                if self._admission.busy:
                    due = min(due, self._activity.next_look)
                self._accept_loop.listen()
                self._loop.turn(None if due == float("inf") else due - time.monotonic())
        finally:
            self._clean_up()

    def _tidy(self, now: float) -> float:
        """Drop what no run has needed for long. Return when to call again.

        Every turn of the loop calls this, but it works at most once in ``_TIDY_SECONDS``.
        """
        if now - self._tidied < _TIDY_SECONDS:
            return min(self._tidy_due, self._tidied + _TIDY_SECONDS)
        self._tidied = now
        try:
            kept = (self._zygotes, self._pool, self._containers.prewarmed, self._disposal)
            self._tidy_due = min(each.tick(now) for each in kept)
        except Exception:  # for example, no descriptor is free; runs that wait have deadlines of their own
            self._tidy_due = now + _AGAIN_SECONDS
        return self._tidy_due

    def _look_at_switch(self, now: float) -> float:
        """End the runs that the kill switch names. Return when to look again."""
        if not self._admission.busy:
            return float("inf")
        if now >= self._switch_due:
            self._switch_due = now + _SWITCH_SECONDS
            if self._kill_switch.look():
                for run in list(self._runs):
                    run.stop_if_named(self._kill_switch)
        return self._switch_due

    # -- the interface for runs and pools ----------------------------------------------------------------------

    def start(self, run: Run, launch: Launch) -> str:
        """Start ``run`` as soon as it is admitted. Return what the host is short of if it waits for that."""
        if launch.sandbox and not launch.lives:  # it ends with its sandbox, if the kill switch names that
            self.weights.enter(run)
            self.sandboxes.begin(run, launch)
            return ""
        if self._kill_switch.look() and run.stop_if_named(self._kill_switch):
            return ""
        self.weights.enter(run)
        return self._admission.ask(run, launch)

    def begin(self, run: Run, launch: Launch) -> None:
        """Give an admitted ``run`` a warm worker, a prewarmed instance or a new one."""
        if self._ending:
            run.refuse("the warden ends")
            return
        run.expect_instance(time.monotonic() + _TRIES * launch.watch.setup_seconds)
        if launch.container is not None:
            self._containers.begin(run, launch)
            return
        if launch.warm:
            run.cold = self._zygotes.acquire(run, launch)
            if not run.cold:
                return
        self._pool.acquire(run, launch)

    def begun(self, run: Run) -> None:
        """Record that the program of ``run`` has begun, so its set-up is over."""
        self._admission.begun(run)

    def note(self, peak: int | None, *, starved: bool) -> None:
        """Record the peak memory of a run.

        If the kernel killed it because memory was short outside of its own limit (``starved``), admit fewer runs for a
        while, and drop everything prewarmed.
        """
        self._admission.note(peak)
        if starved:
            self._admission.run_less()
            self._shed()

    def _shed(self) -> bool:
        """Drop everything prewarmed. Return whether anything was."""
        return any([self._pool.shed(), self._zygotes.shed(), self._containers.prewarmed.shed()])

    def has_slack(self) -> bool:
        """Return whether the host has enough left to prewarm something."""
        return self._admission.has_slack()

    def put_back(self, waiter: Any, launch: Launch, message: str) -> bool:
        """Queue a run that could not begin. Return whether it waits."""
        return not self._ending and self._admission.put_back(waiter, launch, message)

    def release_admission(self, run: Run) -> None:
        """Release the admission of ``run``, which waits for a warm interpreter and will ask again."""
        run.expect_instance(time.monotonic() + START_SECONDS + _TIDY_SECONDS)
        self._admission.leave(run)

    def release(self, slot: CgroupSlot) -> None:
        """Take back a slot whose instance is dead."""
        self._freezers.release(slot)
        pool: SlotPool = self._zygotes if isinstance(slot, WorkerHandle) else self._pool
        pool.release(slot)

    def serve(self, sock: socket.socket, decoder: protocol.Decoder, before: Launch | None, broker: int = -1) -> None:
        """Wait for a launch on ``sock``. ``decoder`` may hold bytes of it; ``before`` is the launch before, if any.

        ``broker`` is the descriptor that the run's proxy gets, or -1.
        """
        run = Run(self._loop, sock, decoder, before, self, broker=broker)
        self._runs.add(run)

    def freezer(self, slot: CgroupSlot) -> cgroups.Freezer | None:
        """Return the freezer for the guest of ``slot``, or ``None``."""
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
        """Return a free cgroup slot."""
        return self._pool.take_slot()

    def expect(self, slot: CgroupSlot, waiter: Waiter) -> None:
        """Hand the instance that ``slot`` is making to ``waiter`` when it is made."""
        self._pool.expect(slot, waiter)

    def drop(self, slot: CgroupSlot) -> None:
        """End a slot; it is not used again."""
        self._freezers.release(slot)
        self._pool.drop(slot)

    def dispose(self, gone: Callable[[], bool], then: Callable[[bool], None]) -> None:
        """Call ``then`` when ``gone`` returns true, or too late: see ``Disposal.add``."""
        self._disposal.add(gone, then)

    def take_uid(self) -> int | None:
        """Return a host uid that no other run has, or ``None`` if an ordinary user starts the runs."""
        if not self._assigns_uids:
            return None
        self._uids = self._uids or UidPool(uids.configured())
        return self._uids.take()

    def take_group(self) -> cgroups.Group | None:
        """Return fresh control groups, or ``None`` where the host allows none."""
        if not self._hierarchies:
            return None
        if self._tree is None:
            self._tree = self.weights.tree = self._activity.tree = cgroups.Tree(self._hierarchies, os.urandom(8).hex())
        return self._tree.make()

    def release_resources(self, uid: int | None, group: cgroups.Group | None) -> None:
        """Take back a uid and groups that no process uses any more."""
        if group is not None and self._tree is not None:
            self._tree.remove(group)
        if uid is not None and self._uids is not None:
            self._uids.release(uid)

    # -- the caller --------------------------------------------------------------------------------------------

    def _on_run(self, sock: socket.socket, broker: int) -> None:
        self.serve(sock, protocol.Decoder(), None, broker)

    def _on_no_more(self) -> None:
        self._ending = True

    def _on_caller_death(self, _events: int) -> None:
        self._ending = True

    def _clean_up(self) -> None:
        self._ending = True  # after an error, too: no run begins any more
        self._containers.close()
        self._pool.kill_all()  # all at once; the lines below wait for each
        self._zygotes.close()
        self._pool.close()
        self._disposal.close()
        self._freezers.close()
        if self._tree is not None:
            self._tree.close()


def _tick(run: Run, now: float, *, active: bool) -> float:
    """Call ``run.tick``. An error there (for example, no free descriptor) ends this run, and no other."""
    try:
        return run.tick(now, active=active)
    except Exception as error:  # any error here concerns this run alone
        run.refuse(faults.explain("watch the run", error))
        return now + _AGAIN_SECONDS
