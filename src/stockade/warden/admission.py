"""Which runs may begin: as many at a time as the host has room for. The others wait, each caller's in their order and
the callers in turn, so that who asks for a thousand does not keep others from their one."""

from __future__ import annotations

import os
import resource
import time

from stockade.linux import faults
from stockade.warden.capacity import MEMORY, capacities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.core.launch import Launch
    from stockade.warden.run.run import Run

MOST_WAITING = 10_000
_AT_ONCE = 8 * len(os.sched_getaffinity(0))
"""So many are set up at a time: more would share the processors until all of them took too long."""
_DESCRIPTORS, _OWN_DESCRIPTORS = 30, 64
"""What a run takes, with a place that is made for the next one; and what is left for all else."""
_WHILE_AT_WORK = 12  # descriptors that runs at work may still open
_MOST_TRIES = 3
_PLENTY = 1 << 16  # descriptors: enough for all that wait, and for what there can be memory for
_LOOK_SECONDS = 1.0
_FORGETS = 0.9
"""Part of what one run had that is expected of the next, if that had less."""
_TOGETHER_SECONDS = 0.2
_LESS_SECONDS, _UNBOUNDED = 10.0, 1 << 10
"""So long there are half as many at a time when the kernel has killed one for want of memory; then twice as many again,
and past the second figure as many as there is room for."""


class Admission:
    """Lets runs begin, or has them wait."""

    def __init__(self, begin: Callable[[Run, Launch], None], shed: Callable[[], bool] = lambda: False) -> None:
        """``shed`` gives back what is kept for later runs, and tells whether there was anything."""
        self._begin, self._shed = begin, shed
        self._active: set[Run] = set()
        self._starting: set[Run] = set()
        self._waiting: dict[int, list[tuple[Run, Launch]]] = {}  # by caller; whose turn it is comes first
        self._descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._kept = min(_OWN_DESCRIPTORS, self._descriptors // 4)
        self._capacity, self._short_of = 0, ""
        self._look_again = float("-inf")
        self._memory = MEMORY
        self._most, self._more_at = _UNBOUNDED, float("-inf")
        self._calling = self._full = False
        self._tries: dict[Run, int] = {}

    def ask(self, run: Run, launch: Launch) -> None:
        """Let ``run`` begin, now or when its turn comes; refuse it where too many wait already."""
        waiting = sum(map(len, self._waiting.values()))
        if not waiting and self._has_capacity():
            self._admit(run, launch)
            self._fill()  # it may have been put back
        elif waiting >= MOST_WAITING:
            run.refuse(
                f"{len(self._active)} runs are at work, for more the host is short of {self._short_of}, and {waiting} "
                f"wait already; ask for fewer at a time"
            )
        else:
            self._waiting.setdefault(launch.caller, []).append((run, launch))

    def begun(self, run: Run) -> None:
        """Take notice that ``run`` is no longer being set up: its program runs."""
        self._starting.discard(run)
        self._fill()

    def leave(self, run: Run) -> None:
        """Take notice that ``run`` is over, or waits for an interpreter: it takes nothing, and will ask again."""
        self._active.discard(run)
        self._starting.discard(run)
        self._tries.pop(run, None)
        self._full = False
        self._fill()

    def put_back(self, run: Run, launch: Launch, short_of: str) -> bool:
        """Have a run that could not begin wait until another ends, or until what is kept for later runs was given back;
        return whether it does. ``short_of`` is what there was too little of."""
        given = self._shed()
        tries = self._tries.get(run, 0)
        if len(self._active) <= 1 and (tries >= _MOST_TRIES or not (given or tries == 0)):
            return False
        self._tries[run] = tries + 1
        self._active.discard(run)
        self._starting.discard(run)
        self._full, self._short_of = True, short_of
        self._waiting = {launch.caller: [(run, launch), *self._waiting.pop(launch.caller, [])], **self._waiting}
        self._fill()
        return True

    def may_accept(self) -> bool:
        """Return whether there is a descriptor for one more run that waits; those at work need some meanwhile."""
        if self._descriptors >= _PLENTY or not (self._active or self._waiting):
            return True
        return _open_descriptors() + 1 + _WHILE_AT_WORK <= self._descriptors

    def has_slack(self) -> bool:
        """Return whether there is so much room that something can be kept for later runs."""
        if self._most < _UNBOUNDED or self._full:
            return False
        due = (len(self._starting) + 2) * _DESCRIPTORS
        return self._descriptors >= _PLENTY or _open_descriptors() + due <= self._descriptors - self._kept

    def note(self, peak: int | None) -> None:
        """Take notice of the most memory that a run had: the next ones most likely have as much."""
        self._memory = max(MEMORY, peak or 0, int(_FORGETS * self._memory))

    def run_less(self) -> None:
        """Have half as many at a time for a while: together they had more memory than there is for them."""
        now = time.monotonic()
        if now >= self._more_at - _LESS_SECONDS + _TOGETHER_SECONDS:  # of those that go together, the first one counts
            self._most = max(1, min(self._most, len(self._active)) // 2)
            self._more_at = now + _LESS_SECONDS

    def _is_bounded(self) -> bool:
        if self._most < _UNBOUNDED and time.monotonic() >= self._more_at:
            self._most *= 2
            self._more_at = time.monotonic() + _LESS_SECONDS
        return self._most < _UNBOUNDED and len(self._active) >= self._most

    def _fill(self) -> None:
        if self._calling:
            return  # whoever does sees that there is room again
        self._calling = True
        try:
            while self._waiting and self._has_capacity():
                waiting, launch = self._next()
                if not waiting.gone:
                    self._admit(waiting, launch)
        finally:
            self._calling = False

    def _admit(self, run: Run, launch: Launch) -> None:
        self._active.add(run)
        self._starting.add(run)
        try:
            self._begin(run, launch)
        except OSError as error:  # or it would end whichever run has made room
            if not (error.errno in faults.SHORTAGES and self.put_back(run, launch, os.strerror(error.errno or 0))):
                run.refuse(faults.explain("begin the run", error))

    def _next(self) -> tuple[Run, Launch]:
        caller = next(iter(self._waiting))
        queue = self._waiting.pop(caller)
        taken = queue.pop(0)
        if queue:
            self._waiting[caller] = queue  # behind the others
        return taken

    def _has_capacity(self) -> bool:
        """Return whether one more run may begin; one always may."""
        if not self._active:
            return True
        if self._full:
            return False
        if len(self._starting) >= _AT_ONCE:
            self._short_of = "processors"
            return False
        if self._descriptors < _PLENTY:
            due = (len(self._starting) + 1) * _DESCRIPTORS
            if _open_descriptors() + due > self._descriptors - self._kept:
                self._short_of = "descriptors (RLIMIT_NOFILE)"
                return False
        if self._is_bounded():
            self._short_of = "memory (the kernel has killed a run for want of it)"
            return False
        if time.monotonic() >= self._look_again:
            self._look_again = time.monotonic() + _LOOK_SECONDS
            more, self._short_of = min(capacities(self._memory), default=(MOST_WAITING, ""))
            self._capacity = len(self._active) + more
        return len(self._active) < self._capacity


def _open_descriptors() -> int:
    """Return how many there are: the folder's size, from Linux 6.2 on (proc(5))."""
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
