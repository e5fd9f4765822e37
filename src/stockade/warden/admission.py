"""Admission: decides which runs may begin, by what the host has left.

The other runs wait. Callers take turns, so that one that asks for a thousand runs does not delay another that asks for
one. The runs of one caller begin in their order.
"""

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
"""Runs that are set up at the same time. With more, all would share the processors, and all would take too long."""
_DESCRIPTORS, _OWN_DESCRIPTORS = 30, 64
"""Descriptors of one run, with the instance prewarmed for the next; and descriptors kept for everything else."""
_WHILE_AT_WORK = 12  # descriptors that active runs may still open
_MOST_TRIES = 3
_PLENTY = 1 << 16  # descriptors: enough for every waiting run, and for more active runs than memory allows
_LOOK_SECONDS = 1.0
_FORGETS = 0.9
"""The factor by which the expected memory of a run falls after each run that needs less."""
_TOGETHER_SECONDS = 0.2
_LESS_SECONDS, _UNBOUNDED = 10.0, 1 << 10
"""Seconds, and runs. If the kernel kills a run because the host lacks memory, half as many runs may be active. That
bound doubles whenever the first figure has passed, and ends when it reaches the second figure."""


class Admission:
    """Admits runs, or queues them."""

    def __init__(self, begin: Callable[[Run, Launch], None], shed: Callable[[], bool] = lambda: False) -> None:
        """``begin`` starts an admitted run. ``shed`` drops what is prewarmed, and returns whether anything was."""
        self._begin, self._shed = begin, shed
        self._active: set[Run] = set()
        self._starting: set[Run] = set()
        self._waiting: dict[int, list[tuple[Run, Launch]]] = {}  # by caller, the next one first
        self._descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._kept = min(_OWN_DESCRIPTORS, self._descriptors // 4)
        self._capacity, self._short_of = 0, ""
        self._look_again = float("-inf")
        self._memory = MEMORY
        self._most, self._more_at = _UNBOUNDED, float("-inf")
        self._calling = self._full = False
        self._tries: dict[Run, int] = {}

    def ask(self, run: Run, launch: Launch) -> str:
        """Admit ``run`` now or when its turn comes. Refuse it if too many runs wait already.

        Return what the host is short of if the run waits, or an empty text.
        """
        waiting = sum(map(len, self._waiting.values()))
        if not waiting and self._has_capacity():
            self._admit(run, launch)
            self._fill()  # the run may have been put back
        elif waiting >= MOST_WAITING:
            run.refuse(
                f"{len(self._active)} runs are active, the host is short of {self._short_of} for more, and {waiting} "
                f"wait already; ask for fewer at a time"
            )
        else:
            run.expect_instance(float("inf"))  # as in ``put_back``
            self._waiting.setdefault(launch.caller, []).append((run, launch))
            return self._short_of or "turns"
        return ""

    def begun(self, run: Run) -> None:
        """Record that the set-up of ``run`` is over: its program runs."""
        self._starting.discard(run)
        self._fill()

    def leave(self, run: Run) -> None:
        """Release the admission of ``run``: it is over, or waits for a warm interpreter and will ask again."""
        self._active.discard(run)
        self._starting.discard(run)
        self._tries.pop(run, None)
        self._full = False
        self._fill()

    def put_back(self, run: Run, launch: Launch, short_of: str) -> bool:
        """Queue a run that could not begin until another one ends, or until everything prewarmed is dropped.

        ``short_of`` names what the host lacks. Return whether the run waits.
        """
        given = self._shed()
        tries = self._tries.get(run, 0)
        if len(self._active) <= 1 and (tries >= _MOST_TRIES or not (given or tries == 0)):
            return False
        self._tries[run] = tries + 1
        self._active.discard(run)
        self._starting.discard(run)
        run.expect_instance(float("inf"))  # the run waits as long as the runs before it
        self._full, self._short_of = True, short_of
        self._waiting = {launch.caller: [(run, launch), *self._waiting.pop(launch.caller, [])], **self._waiting}
        self._fill()
        return True

    @property
    def busy(self) -> bool:
        """Whether a run is active or waits."""
        return bool(self._active or self._waiting)

    def may_accept(self) -> bool:
        """Return whether a descriptor is left for one more waiting run, beside the later needs of active runs."""
        if self._descriptors >= _PLENTY or not (self._active or self._waiting):
            return True
        return _open_descriptors() + 1 + _WHILE_AT_WORK <= self._descriptors

    def has_slack(self) -> bool:
        """Return whether the host has enough left to prewarm something."""
        if self._most < _UNBOUNDED or self._full:
            return False
        due = (len(self._starting) + 2) * _DESCRIPTORS
        return self._descriptors >= _PLENTY or _open_descriptors() + due <= self._descriptors - self._kept

    def note(self, peak: int | None) -> None:
        """Record the peak memory of a run: the next runs most likely need as much."""
        self._memory = max(MEMORY, peak or 0, int(_FORGETS * self._memory))

    def run_less(self) -> None:
        """Admit half as many runs for a while: the active ones needed more memory than the host has."""
        now = time.monotonic()
        if now >= self._more_at - _LESS_SECONDS + _TOGETHER_SECONDS:  # of several kills at once, the first one counts
            self._most = max(1, min(self._most, len(self._active)) // 2)
            self._more_at = now + _LESS_SECONDS

    def _is_bounded(self) -> bool:
        if self._most < _UNBOUNDED and time.monotonic() >= self._more_at:
            self._most *= 2
            self._more_at = time.monotonic() + _LESS_SECONDS
        return self._most < _UNBOUNDED and len(self._active) >= self._most

    def _fill(self) -> None:
        if self._calling:
            return  # the outer call notices the free capacity
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
        except OSError as error:  # otherwise the error would end the run whose end admitted this one
            if not (error.errno in faults.SHORTAGES and self.put_back(run, launch, os.strerror(error.errno or 0))):
                run.refuse(faults.explain("begin the run", error))
        except Exception as error:  # the same: any error here concerns this run alone
            run.refuse(faults.explain("begin the run", error))

    def _next(self) -> tuple[Run, Launch]:
        caller = next(iter(self._waiting))
        queue = self._waiting.pop(caller)
        taken = queue.pop(0)
        if queue:
            self._waiting[caller] = queue  # behind the other callers
        return taken

    def _has_capacity(self) -> bool:
        """Return whether one more run may begin. Without an active run, one always may."""
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
            self._short_of = "memory (the kernel has killed a run because memory was short)"
            return False
        if time.monotonic() >= self._look_again:
            self._look_again = time.monotonic() + _LOOK_SECONDS
            more, self._short_of = min(capacities(self._memory), default=(MOST_WAITING, ""))
            self._capacity = len(self._active) + more
        return len(self._active) < self._capacity


def _open_descriptors() -> int:
    """Return the number of open descriptors: the size of the folder from Linux 6.2 on (proc(5))."""
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
