"""The zygotes of one warden: one for each kind of run. Each has workers that wait for the next runs."""

from __future__ import annotations

from stockade.core.launch import Warm
from stockade.linux import faults
from stockade.warden import loop
from stockade.warden.cold.cgroup_slot import SlotError
from stockade.warden.failures import Failures
from stockade.warden.warm.interpreter import Zygote
from stockade.warden.warm.worker_pool import IDLE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.launch import Launch
    from stockade.warden.run.run import Run
    from stockade.warden.warm.interfaces import ZygoteOwner
    from stockade.warden.warm.worker_handle import WorkerHandle

_KINDS = 4
"""The most zygotes. A new one replaces the one that was unused for the longest time."""
_AFTER_RUNS = 2
"""The run of a kind that starts a zygote: a kind that was wanted so often is worth an interpreter that waits."""
_RUNS_AFTER_FAILURE = 1000
_FIRST = "the first runs of a kind start a fresh interpreter; warm=True and preload wait for a warm one"
_STARTING = "the warm interpreter of this kind is still starting; warm=True waits for it"
_ALL_BUSY = "all workers of the warm interpreter are busy"
_NO_SPACE = "the host has too little memory or too few descriptors left for a warm interpreter"
_FAILED = "the last warm interpreter of this kind could not start"
_REMEMBERED = 256


class ZygotePool:
    """Decides which runs start warm, and which zygotes to keep."""

    def __init__(self, events: loop.Loop, owner: ZygoteOwner) -> None:
        self._loop = events
        self._owner = owner
        self._zygotes: dict[bytes, Zygote] = {}
        self._wanted: dict[bytes, int] = {}
        self._failures = Failures()

    def acquire(self, run: Run, launch: Launch) -> str:
        """Start ``run`` in a worker, now or as soon as there is one. Return why not, or an empty text.

        A run that insists on a warm interpreter is refused if its kind has failed several times in a row.
        """
        try:
            return self._take(run, launch)
        except Exception as error:  # any error here concerns this kind of run alone
            return self._fail(run, launch, faults.explain("start the run in a warm interpreter", error))

    def _fail(self, run: Run, launch: Launch, reason: str) -> str:
        """End the zygote after an error. Return why the run must start cold, or an empty text."""
        zygote, before = self._zygotes.get(launch.warm), run.turned_away
        if zygote is None:
            self._failures.note(launch.warm, reason)
        else:
            zygote.close(reason)
        if run.turned_away > before:
            return ""  # the run had a worker: ``close`` has started the run in another way
        return self._without_zygote(run, launch, reason)

    def _without_zygote(self, run: Run, launch: Launch, reason: str) -> str:
        if not launch.eager:
            return reason
        run.refuse(f"the warm interpreter failed: {reason}")
        return ""

    def _take(self, run: Run, launch: Launch) -> str:
        key = launch.warm
        zygote, why = self._find(key), ""
        if zygote is None:
            trouble = self._failures.refusal(key)
            if trouble:
                return self._without_zygote(run, launch, trouble)
            zygote, why = self._wanted_zygote(key, launch)
        if zygote is None or zygote.take(run, launch):
            return why
        if launch.eager and not zygote.ready:
            zygote.wait_for(run, launch)
            return ""
        return _ALL_BUSY if zygote.ready else _STARTING

    def _wanted_zygote(self, key: bytes, launch: Launch) -> tuple[Zygote | None, str]:
        """Start a zygote if the kind comes often enough; return it, or the reason against it."""
        self._wanted[key] = count = self._wanted.get(key, 0) + 1
        if not launch.eager and count < _AFTER_RUNS:
            return None, _FAILED if count < 0 else _FIRST
        zygote = self._begin(key, launch) if launch.eager or self._owner.has_slack() else None
        return zygote, "" if zygote is not None else _NO_SPACE

    def _find(self, key: bytes) -> Zygote | None:
        zygote = self._zygotes.get(key)
        if zygote is not None and (zygote.ended or zygote.is_due_for_recycling):
            self._retire(key)
            return None
        return zygote

    def _retire(self, key: bytes) -> None:
        """End a zygote. Its kind gets another one soon if any worker was ever ready, and much later if none was."""
        zygote = self._zygotes.pop(key)
        if zygote.workers.served:
            self._failures.clear(key)
        elif zygote.ended:
            self._failures.note(key, zygote.reason)
        zygote.close()
        if zygote.workers.proved:
            self._wanted.pop(key, None)

    def release(self, slot: WorkerHandle) -> None:
        """Take back a worker whose guest is dead."""
        slot.pool.release(slot)

    def shed(self) -> bool:
        """End idle workers, and zygotes that no run uses; return whether there was any."""
        kept = [zygote.workers.shed() for zygote in self._zygotes.values()]
        idle = [key for key, zygote in self._zygotes.items() if not zygote.busy and zygote.ready]
        for key in idle:
            self._retire(key)
        return any(kept) or bool(idle)

    def close(self) -> None:
        """End all zygotes, and the runs in them."""
        for zygote in self._zygotes.values():
            zygote.close()
            zygote.workers.abandon()
        self._zygotes.clear()

    def tick(self, now: float) -> float:
        """End zygotes and workers that were idle for long; return when to check again."""
        due = float("inf")
        for key, zygote in list(self._zygotes.items()):
            try:
                due = min(due, zygote.look(now), zygote.workers.close_idle(now))
            except Exception as error:  # any error here concerns this zygote alone
                zygote.close(faults.explain("watch the warm interpreter", error))
            replaced = self._zygotes.get(key) is not zygote  # by a run that it turned away
            if not replaced and (zygote.ended or zygote.idle_since(now) >= IDLE_SECONDS):
                self._retire(key)
        return due

    def _begin(self, key: bytes, launch: Launch) -> Zygote | None:
        if len(self._zygotes) >= _KINDS:
            oldest = min(self._zygotes, key=lambda each: self._zygotes[each].workers.used)
            if self._zygotes[oldest].busy:
                return None
            self._retire(oldest)
        if len(self._wanted) > _REMEMBERED:
            self._wanted.clear()
        self._wanted[key] = -_RUNS_AFTER_FAILURE  # if the zygote fails, so many runs of the kind stay cold
        try:
            zygote = self._zygotes[key] = Zygote(self._loop, self._owner, Warm.decode(key), launch)
        except (OSError, SlotError):
            return None  # the host has too little left; the runs stay cold
        return zygote
