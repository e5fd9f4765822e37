"""Scheduler weights: a run that keeps the kernel busy weighs less.

Linux gives a group that sleeps and wakes very often (poll, epoll, futexes, signals, pipes) far more of a processor than
its share. Everything else on that processor then waits for up to seconds: other guests, the warden, and kernel threads
such as those of RCU, on which every removal of a namespace depends. Such a run spends most of its time in system calls.
A program that computes does not, and keeps its full weight.
"""

from __future__ import annotations

from stockade.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import partial

    from stockade.linux.cgroups import Group, Tree
    from stockade.warden.run.meter import Meter
    from stockade.warden.run.run import Run
else:
    from _functools import partial

_WINDOW = 0.25
"""CPU seconds over which the share of kernel time is measured."""
_KERNEL_PART = 0.25
"""The share of kernel time in a window from which on a run is a bad neighbour."""
STARTING_SECONDS = 2.0
"""While any run is younger than this, the tree of all groups keeps its full weight."""


class _Window(Record):
    """The counters at the begin of a window of CPU time."""

    cpu: float
    kernel: float


class Weights:
    """Sets the weights of one warden's groups."""

    def __init__(self) -> None:
        self.tree: Tree | None = None
        """The tree of all groups; ``None`` until the first group is made."""
        self._starting: set[Run] = set()
        self._windows: dict[Run, _Window] = {}
        self._light: set[Run] = set()

    def enter(self, run: Run) -> None:
        """Count ``run`` as starting."""
        self._starting.add(run)
        self._weigh_tree()

    def look(self, run: Run, meter: Meter, group: Group | None, now: float) -> None:
        """Set the weight of ``run`` by the use of its ``group``. ``meter`` must have been read just before."""
        if group is None or run in self._light:
            return
        if self._is_bad_neighbour(run, group, meter.cpu_seconds):
            self._light.add(run)
            _try(group.weight.lighten)
        elif run not in self._starting or now - meter.begin < STARTING_SECONDS:
            return
        self._starting.discard(run)
        self._weigh_tree()

    def leave(self, run: Run) -> None:
        """Remove ``run``, which is over."""
        self._starting.discard(run)
        self._light.discard(run)
        self._windows.pop(run, None)
        self._weigh_tree()

    def _is_bad_neighbour(self, run: Run, group: Group, cpu: float) -> bool:
        window = self._windows.get(run)
        if window is not None and cpu - window.cpu < _WINDOW:
            return False
        kernel = group.weight.kernel_seconds() or 0.0
        self._windows[run] = _Window(cpu=cpu, kernel=kernel)
        return window is not None and kernel - window.kernel >= _KERNEL_PART * (cpu - window.cpu)

    def _weigh_tree(self) -> None:
        if self.tree is not None:
            _try(partial(self.tree.weigh, light=bool(self._light) and not self._starting))


def _try(change: Callable[[], None]) -> None:
    """Change a weight, or leave it. A wrong weight only costs other runs time, so no run ends for it."""
    try:
        change()
    except OSError:
        pass
