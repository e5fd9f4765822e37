"""A zygote as the warden sees it: its start, its end, its workers, and the runs that wait for it."""

from __future__ import annotations

import os
import time

from stockade.core.launch import Groups, Warm
from stockade.linux import faults
from stockade.warden import loop, protocol
from stockade.warden.cold.cgroup_slot import CgroupSlot
from stockade.warden.cold.instance import send_with
from stockade.warden.helper_liveness import LOOK_SECONDS, Helper
from stockade.warden.warm.worker_pool import MOST, WorkerPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.core.launch import Launch
    from stockade.warden.cold.instance import Instance
    from stockade.warden.run.run import Run
    from stockade.warden.warm.interfaces import ZygoteOwner

START_SECONDS = 60.0
_MAX_STDERR_BYTES = 4096
_MOST_USES = 100_000
"""Runs after which a fresh zygote replaces this one, and with it whatever has piled up in it."""


class Zygote:
    """A warm interpreter in an instance of its own, and the pool of its workers."""

    gone = False

    def __init__(self, events: loop.Loop, owner: ZygoteOwner, warm: Warm, launch: Launch) -> None:
        """Start the zygote; ``ready`` says when it can be used. ``launch`` is a sample of the runs to expect."""
        self._loop = events
        self._owner = owner
        self._warm = warm
        self._begun = time.monotonic()
        self.ended = False
        self.reason = ""
        """The reason for its end; empty if it has not failed."""
        self.ready = False
        self._queue: list[tuple[Run, Launch]] = []
        self._sent = self._cut_off = False
        self._decoder = protocol.Decoder()
        self._slot = owner.take_slot()
        self._mapped: list[int] = []
        self._init: Helper | None = None
        try:
            if self._slot.uid is not None:
                self._lease_uids()
            owner.expect(self._slot, self)
            self._slot.request(warm.zygote, Groups(), own_network=True)
        except Exception:
            self._free_resources()
            raise
        self.workers = WorkerPool(
            events=events,
            owner=owner,
            fork=self._fork_worker,
            numbers=[*enumerate(self._mapped, 1)] or [(0, None)] * MOST,
            launch=launch,
            turn_away=self._turn_away,
            on_unfit=self._fail,
            on_empty=self._free_resources,
        )

    def _lease_uids(self) -> None:
        """Take a uid for each worker. The zygote's user namespace maps them from its start."""
        for _ in range(MOST):
            uid = self._owner.take_uid()
            assert uid is not None
            self._mapped.append(uid)

    # -- its own start ---------------------------------------------------------------------------------------------

    def adopt(self, slot: CgroupSlot) -> None:
        """Watch the instance, which is there now."""
        instance = slot.instance
        assert instance is not None
        guarded = loop.Guarded(self._loop, self._fail)
        guarded.watch(instance.control.fileno(), loop.READ, self._on_readable)
        guarded.watch(instance.pidfd, loop.READ, self._on_end)
        self._init = Helper(instance.init, "its init", time.monotonic(), generations=2)

    def lost(self, message: str) -> None:
        """Give up, because the instance is about to end."""
        self._retry_queue(message)
        self._fail(message)

    def refuse(self, message: str) -> None:
        """Give up, and refuse the runs that wait: the zygote cannot be used."""
        self.ended = True
        self.reason = self.reason or faults.shown(message)
        queue, self._queue = self._queue, []
        for run, _ in queue:
            run.refuse(f"the warm interpreter failed: {faults.shown(message)}")

    def _retry_queue(self, why: str) -> None:
        """Start the runs that wait in another zygote, each run once: this one was killed or stopped from outside."""
        self.ended, self.reason = True, self.reason or faults.shown(why)
        again = [(run, launch) for run, launch in self._queue if not (run.turned_away or run.gone)]
        self._queue = [each for each in self._queue if each not in again]
        for run, launch in again:
            run.turned_away = True
            self._owner.start(run, launch)

    def wait_for(self, run: Run, launch: Launch) -> None:
        """Start ``run`` when the zygote is ready, or refuse it."""
        self._queue.append((run, launch))
        self._owner.release_admission(run)

    def look(self, now: float) -> float:
        """Give up a zygote that takes too long to start, or is stopped while someone waits for it.

        Returns when to check again.
        """
        is_needed = not self.ready or self._cut_off or self.workers.awaits_zygote
        if self.ended or not is_needed:
            return float("inf")
        if not self.ready and now - self._begun >= START_SECONDS:
            self.close(f"it did not start within {START_SECONDS:.0f} s")
        elif self._cut_off:
            self._fail("its socket accepted only half of a message")
        elif self._init is not None:
            trouble = self._init.trouble(now, child="the warm interpreter")
            if trouble:
                self._retry_queue(trouble)
                self._fail(trouble)
        return now + LOOK_SECONDS

    def _on_readable(self, _events: int) -> None:
        instance = self._slot.instance
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
            if self._slot.instance is not None:
                stderr = self._slot.instance.stderr
                message += " " + os.read(stderr, _MAX_STDERR_BYTES).decode("utf-8", "replace").rstrip()
        except OSError:
            pass  # the zygote printed nothing
        self.close(message)

    def _turn_away(self, run: Run, launch: Launch, message: str) -> None:
        """Start a run cold that could not begin in a worker; if it must be warm, retry it once in another zygote."""
        again, run.turned_away = not run.turned_away, True
        if launch.eager and again and not run.gone:
            self._owner.begin(run, launch)
        elif launch.eager:
            run.refuse(f"the warm interpreter could make no worker: {faults.shown(message)}")
        elif not run.gone:
            run.cold = f"the warm interpreter could make no worker: {faults.shown(message)}"
            self._owner.begin(run, launch.adding(warm=b""))

    def _on_message(self, instance: Instance, kind: str, fields: dict[str, Any]) -> None:
        if kind == "warm":
            self.ready = True
            queue, self._queue = self._queue, []
            for run, launch in queue:
                if not run.gone:
                    self._owner.start(run, launch)  # in this zygote, or cold if all workers are taken
            if not self.workers:
                self.workers.add_idle()
        elif kind == "refused" or kind.endswith("_failed"):
            raise OSError(fields["message"])
        elif kind == "exit":
            raise OSError("it has ended: " if self.ready else "it ended while it started: ")
        elif instance.accept_message(kind) and instance.ready and not self._sent:
            self._sent = True
            order = protocol.encode(
                "launch",
                steps=[("own_users", [self._slot.uid, *self._mapped])] if self._mapped else [],
                argv=self._warm.argv,
                environment=self._warm.environment,
                channel=True,
                keeps_control=True,
                trace=0,
            )
            if instance.send(order):
                raise OSError("its socket accepted only half of its launch")

    def _on_end(self, _events: int) -> None:
        self._retry_queue("it was killed from outside")
        self.close()

    def _fork_worker(self, fds: list[int], uid: int) -> None:
        """Ask the zygote to fork a worker. ``fds`` are the worker's control socket and its control groups."""
        instance = self._slot.instance
        if instance is None:
            raise OSError("it has ended")
        steps = [self._warm.worker, self._warm.network, self._warm.mounts, self._warm.guest]
        message = protocol.encode("worker", uid=uid, steps=steps)
        if not send_with(instance.control, message, fds):  # never wait: that would delay every run
            self._cut_off = True
            raise OSError("its socket accepted only half of a message")

    # -- runs ------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a run is in one of its workers, or waits."""
        return self.workers.busy or bool(self._queue)

    @property
    def is_due_for_recycling(self) -> bool:
        """Whether a fresh zygote should replace this much-used one, and no run waits."""
        return self.workers.uses >= _MOST_USES and not self.workers.awaited

    def idle_since(self, now: float) -> float:
        """Return the number of seconds since the last use."""
        return 0.0 if self.busy else now - self.workers.used

    def take(self, run: Run, launch: Launch) -> bool:
        """Give ``run`` a worker, or one that is being made; return whether there is any."""
        return self.ready and not self.ended and self.workers.take(run, launch)

    def close(self, why: str = "it has ended") -> None:
        """End the zygote and its workers once their last run is over. Waiting runs are refused with ``why``."""
        self.refuse(why)
        slot, self.ready = self._slot, False
        if slot.instance is not None:
            self._loop.forget(slot.instance.control.fileno())
            self._loop.forget(slot.instance.pidfd)
        self.workers.close(why)

    def _free_resources(self) -> None:
        self._owner.drop(self._slot)
        for uid in self._mapped:
            self._owner.release_resources(uid, None)
        self._mapped = []
