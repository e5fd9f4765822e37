"""The warm interpreters of one warden: one for each kind of run, with copies that wait for the next ones."""

from __future__ import annotations

from stockade.core.launch import Warm
from stockade.warden import loop
from stockade.warden.cold.cgroup_slot import SlotError
from stockade.warden.warm.interpreter import Zygote
from stockade.warden.warm.worker_pool import IDLE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.launch import Launch
    from stockade.warden.run.run import Run
    from stockade.warden.warm.interpreter import ZygoteOwner

_KINDS = 4
"""Warm interpreters at most; the one that has not been used for the longest time makes room."""
_AFTER_RUNS = 2
"""A kind that was wanted so often is worth an interpreter that waits."""
_RUNS_AFTER_FAILURE = 1000
_REMEMBERED = 256


class ZygotePool:
    """Decides which run is started warm, and what is kept for the next."""

    def __init__(self, events: loop.Loop, owner: ZygoteOwner) -> None:
        self._loop = events
        self._owner = owner
        self._zygotes: dict[bytes, Zygote] = {}
        self._wanted: dict[bytes, int] = {}

    def take(self, run: Run, launch: Launch) -> bool:
        """Have ``run`` started from a warm interpreter, now or in a moment; return whether it will be."""
        key = launch.warm
        zygote = self._find(key)
        if zygote is None:
            self._wanted[key] = self._wanted.get(key, 0) + 1
            if launch.eager or (self._wanted[key] >= _AFTER_RUNS and self._owner.has_slack()):
                zygote = self._begin(key, launch)
        if zygote is not None and zygote.take(run, launch):
            return True
        if launch.eager and zygote is not None and not zygote.ready:
            zygote.wait_for(run, launch)
            return True
        return False

    def _find(self, key: bytes) -> Zygote | None:
        zygote = self._zygotes.get(key)
        if zygote is not None and (zygote.ended or zygote.is_due_for_recycling):
            self._retire(key)
            return None
        return zygote

    def _retire(self, key: bytes) -> None:
        """End one. What has been of use will be again; what never was is left alone for long."""
        zygote = self._zygotes.pop(key)
        zygote.close()
        if zygote.workers.proved:
            self._wanted.pop(key, None)

    def shed(self) -> bool:
        """Give back the copies that wait for a run, and interpreters that no run uses; return whether there was any."""
        kept = [zygote.workers.shed() for zygote in self._zygotes.values()]
        idle = [key for key, zygote in self._zygotes.items() if not zygote.busy and zygote.ready]
        for key in idle:
            self._retire(key)
        return any(kept) or bool(idle)

    def close(self) -> None:
        """End them all, and what runs in them."""
        for zygote in self._zygotes.values():
            zygote.close()
            zygote.workers.abandon()
        self._zygotes.clear()

    def tick(self, now: float) -> float:
        """Give back what has been idle for long; return when to look again."""
        due = float("inf")
        for key, zygote in list(self._zygotes.items()):
            due = min(due, zygote.look(now))
            if zygote.ended or zygote.idle_since(now) >= IDLE_SECONDS:
                self._retire(key)
        return min([due, *(zygote.workers.close_idle(now) for zygote in self._zygotes.values())])

    def _begin(self, key: bytes, launch: Launch) -> Zygote | None:
        if len(self._zygotes) >= _KINDS:
            oldest = min(self._zygotes, key=lambda each: self._zygotes[each].workers.used)
            if self._zygotes[oldest].busy:
                return None
            self._retire(oldest)
        if len(self._wanted) > _REMEMBERED:
            self._wanted.clear()
        self._wanted[key] = -_RUNS_AFTER_FAILURE  # should it fail, that many runs go by before another try
        try:
            zygote = self._zygotes[key] = Zygote(self._loop, self._owner, Warm.decode(key), launch)
        except (OSError, SlotError):
            return None  # no room for it; runs go on cold
        return zygote
