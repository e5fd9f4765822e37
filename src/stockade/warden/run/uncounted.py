"""Memory of the kernel that a run holds and no control group counts: buffers of its sockets, and its locks on files."""

from __future__ import annotations

import time

from stockade.linux import descendants, locks, sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.launch import Watch


class UncountedMemory:
    """Reads both from the kernel's tables. ``head`` is the pid above all processes of the run."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.locks = 0
        """The locks of the run at the last look."""
        self._listed_at = 0.0  # the CPU time of the run when the list of locks was read
        self.cost = 0.0
        """The CPU seconds that the tables of sockets took at the last look."""

    @property
    def has_most_locks(self) -> bool:
        """Whether the run holds as many locks as any run may."""
        return self.locks >= locks.MOST

    def held(self, head: int, enough: int, *, all_kinds: bool, cpu: float | None = None) -> int:
        """Return the bytes of both. Of sockets, no more than ``enough`` are read.

        ``all_kinds`` means that no control group counts any socket. ``cpu`` is the CPU time of the run, if one counts
        it: a run gets no locks without it, so the list of locks is read again only after some.
        """
        if cpu is None or cpu - self._listed_at >= locks.CPU_SECONDS:
            self.locks, self._listed_at = locks.held(head), cpu or 0.0
        return self.locks * locks.EACH + self._of_sockets(head, enough, all_kinds=all_kinds)

    def _of_sockets(self, head: int, enough: int, *, all_kinds: bool) -> int:
        """Return the bytes in sockets of the guest's own network."""
        if not self._watch.own_network:
            return 0
        pid = head
        for _ in range(self._watch.engine_tasks):  # the last engine task is in the guest's network namespace
            pid = next(iter(descendants.children(pid)), 0)
        begin = time.thread_time()
        held = sockets.uncounted(pid, all_kinds=all_kinds, enough=enough) if pid else 0
        self.cost = time.thread_time() - begin
        return held
