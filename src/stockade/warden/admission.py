"""Which runs may begin: as many at a time as the host has room for. The others wait, each caller's in their order and
the callers in turn, so that who asks for a thousand does not keep others from their one."""

from __future__ import annotations

import os
import resource
import time

from stockade.linux import cgroups, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stockade._launch import Launch
    from stockade.warden.run import Run

MOST_WAITING = 10_000
_ALWAYS = 16
"""So many begin without a look at what else the host holds."""
_AT_ONCE = 8 * len(os.sched_getaffinity(0))
"""So many are set up at a time: more would share the processors until all of them took too long."""
_DESCRIPTORS, _OWN_DESCRIPTORS = 30, 64
"""What a run takes, with a place that is made for the next one; and what is left for all else."""
_PLENTY = 1 << 16  # descriptors: enough for all that wait, and for what there can be memory for
_MEMORY, _TASKS = 8 << 20, 8
"""What a small run takes, its sandbox included: bytes; processes and threads."""
_LOOK_SECONDS = 1.0
_COUNTERS = (  # in the caller's own groups and those above them: limit, use, and what a run takes
    ("pids.max", "pids.current", _TASKS),
    ("memory.max", "memory.current", _MEMORY),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", _MEMORY),
)


class Admission:
    """Lets runs begin, or has them wait."""

    def __init__(self, begin: Callable[[Run, Launch], None]) -> None:
        self._begin = begin
        self._active: set[Run] = set()
        self._starting: set[Run] = set()
        self._waiting: dict[int, list[tuple[Run, Launch]]] = {}  # by caller; whose turn it is comes first
        self._descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._room, self._short_of = 0, ""
        self._look_again = float("-inf")
        self._calling = False

    def ask(self, run: Run, launch: Launch) -> None:
        """Let ``run`` begin, now or when its turn comes; refuse it where too many wait already."""
        waiting = sum(map(len, self._waiting.values()))
        if not waiting and self._has_room():
            self._admit(run, launch)
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
        self._fill()

    def _fill(self) -> None:
        if self._calling:
            return  # whoever does sees that there is room again
        self._calling = True
        try:
            while self._waiting and self._has_room():
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
            run.refuse(f"the run could not begin: {error}")

    def _next(self) -> tuple[Run, Launch]:
        caller = next(iter(self._waiting))
        queue = self._waiting.pop(caller)
        taken = queue.pop(0)
        if queue:
            self._waiting[caller] = queue  # behind the others
        return taken

    def _has_room(self) -> bool:
        """Return whether one more run may begin; one always may."""
        if not self._active:
            return True
        if len(self._starting) >= _AT_ONCE:
            self._short_of = "processors"
            return False
        if self._descriptors < _PLENTY:
            due = (len(self._starting) + 1) * _DESCRIPTORS
            if _open_descriptors() + due > self._descriptors - _OWN_DESCRIPTORS:
                self._short_of = "descriptors (RLIMIT_NOFILE)"
                return False
        if len(self._active) < _ALWAYS:
            return True
        if time.monotonic() >= self._look_again:
            self._look_again = time.monotonic() + _LOOK_SECONDS
            more, self._short_of = min(_rooms(), default=(MOST_WAITING, ""))
            self._room = len(self._active) + more
        return len(self._active) < self._room


def _open_descriptors() -> int:
    """Return how many there are: the folder's size, from Linux 6.2 on (proc(5))."""
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))


def _rooms() -> Iterable[tuple[int, str]]:
    """Yield for how many more runs there is room by each thing that a host may be short of, and its name."""
    for line in files.read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024 // _MEMORY, "memory (MemAvailable)"
    tasks = files.read("/proc/loadavg").split()  # "runnable/all" is the fourth (proc(5))
    for name in ("pid_max", "threads-max"):
        most = files.read(f"/proc/sys/kernel/{name}")
        if most and len(tasks) > 3:
            yield (int(most) - int(tasks[3].partition("/")[2])) // _TASKS, f"processes (kernel.{name})"
    for hierarchy in cgroups.find():
        folder = hierarchy.path
        while folder != "/":
            for limit, use, each in _COUNTERS:
                most, now = files.read(f"{folder}/{limit}").strip(), files.read(f"{folder}/{use}").strip()
                if most.isdigit() and now.isdigit():
                    yield max(0, int(most) - int(now)) // each, f"what {folder}/{limit} allows"
            folder = os.path.dirname(folder)
