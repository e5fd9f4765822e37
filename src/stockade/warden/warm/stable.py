"""The warm interpreters of one warden: one for each kind of run, with copies that wait for the next ones."""

from __future__ import annotations

from stockade._launch import Groups, Warm
from stockade.warden import loop
from stockade.warden.slot import SlotError
from stockade.warden.warm.interpreter import START_SECONDS, Zygote
from stockade.warden.warm.slots import IDLE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade._launch import Launch
    from stockade.warden.run import Run
    from stockade.warden.warm.interpreter import House

_KINDS = 4
"""Warm interpreters at most; the one that has not been used for the longest time makes room."""
_AFTER_RUNS = 2
"""A kind that was wanted so often is worth an interpreter that waits."""
_MOST_USES = 100_000
"""Runs after which an interpreter makes room for a fresh one: what little it may gather goes with it."""
_RUNS_AFTER_FAILURE = 1000
_REMEMBERED = 256


class Stable:
    """Decides which run is started warm, and what is kept for the next."""

    def __init__(self, events: loop.Loop, house: House) -> None:
        self._loop = events
        self._house = house
        self._zygotes: dict[bytes, Zygote] = {}
        self._wanted: dict[bytes, int] = {}

    def take(self, run: Run, launch: Launch) -> bool:
        """Have ``run`` started from a warm interpreter, now or in a moment; return whether it will be."""
        key = launch.warm
        zygote = self._find(key)
        if zygote is None:
            self._wanted[key] = self._wanted.get(key, 0) + 1
            if launch.eager or self._wanted[key] >= _AFTER_RUNS:
                zygote = self._begin(key, launch.groups)
        if zygote is not None and zygote.take(run, launch.groups):
            return True
        if launch.eager and zygote is not None and not zygote.ready:
            zygote.wait_for(run, launch)
            return True
        return False

    def _find(self, key: bytes) -> Zygote | None:
        zygote = self._zygotes.get(key)
        if zygote is not None and zygote.slots.uses >= _MOST_USES and not zygote.slots.awaited:
            zygote.close()
            self._wanted[key] = _AFTER_RUNS
        if zygote is not None and zygote.ended:
            self._zygotes.pop(key).close()
            return None
        return zygote

    def close(self) -> None:
        """End them all, and what runs in them."""
        for zygote in self._zygotes.values():
            zygote.close()
            zygote.slots.abandon()
        self._zygotes.clear()

    def tick(self, now: float) -> float:
        """Give back what has been idle for long; return when to look again."""
        for key, zygote in list(self._zygotes.items()):
            if not zygote.ended and zygote.idle_since(now) >= IDLE_SECONDS:
                self._wanted.pop(key, None)  # it was worth it, and will be again
                zygote.close()
            elif zygote.is_late(now):
                zygote.refuse(f"it was not there after {START_SECONDS:.0f} s")
            if zygote.ended:
                self._zygotes.pop(key).close()
        return min((zygote.slots.give_back(now) for zygote in self._zygotes.values()), default=float("inf"))

    def _begin(self, key: bytes, groups: Groups) -> Zygote | None:
        if len(self._zygotes) >= _KINDS:
            oldest = min(self._zygotes, key=lambda each: self._zygotes[each].slots.used)
            if self._zygotes[oldest].busy:
                return None
            self._zygotes.pop(oldest).close()
            self._wanted.pop(oldest, None)
        if len(self._wanted) > _REMEMBERED:
            self._wanted.clear()
        self._wanted[key] = -_RUNS_AFTER_FAILURE  # should it fail, that many runs go by before another try
        try:
            zygote = self._zygotes[key] = Zygote(self._loop, self._house, Warm.decode(key), groups)
        except (OSError, SlotError):
            return None  # no room for it; runs go on cold
        return zygote
