"""The warden's side of a collector: forks it, forwards its records at the caller's pace, and reports how it ended."""

from __future__ import annotations

import os
import time

from stockade.core.launch import Collect
from stockade.warden import loop
from stockade.warden.helper_liveness import LOOK_SECONDS, Helper
from stockade.warden.run.collector import become_collector

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal

_CHUNK = 1 << 16
_GRACE_SECONDS = 1.0
"""Time beyond the limit, so that the collector's own timer ends it first."""


class Collection:
    """The warden's handle of one running collector."""

    def __init__(
        self,
        events: loop.Guarded,
        order: Collect,
        collect_fds: list[int],
        uid: int | None,
        *,
        on_data: Callable[[bytes], None],
        on_end: Callable[[str], None],
        dispose: Callable[[Callable[[], bool], Callable[[bool], None]], None],
    ) -> None:
        """Fork the collector.

        ``collect_fds`` are descriptors of the folder and, if files were copied into it, of the list of these.
        ``on_end`` is called once, from the loop, with the reason of a failure, or with an empty text.
        ``dispose`` reaps the collector, and gives up one that does not die: see ``Disposal.add``.
        """
        self._loop = events
        self._on_data, self._on_end, self._dispose = on_data, on_end, dispose
        self._status: int | None = None
        self._seconds = order.seconds
        self._due = time.monotonic() + order.seconds + _GRACE_SECONDS
        self._paused = False
        itself = os.pidfd_open(os.getpid())
        self._pipe, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            self._pid = os.fork()
            if self._pid == 0:
                become_collector(order, collect_fds, out=theirs, warden=itself, uid=uid)
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)
            os.close(itself)
        self._helper = Helper(self._pid, "the process that brings files out", time.monotonic())
        os.set_blocking(self._pipe, False)
        self._loop.watch(self._pipe, loop.READ, self._on_pipe)

    def pause(self, pause: bool) -> None:
        """Stop reading the collector's records, or read them again. The pipe holds the collector back meanwhile."""
        if self._pipe < 0 or pause == self._paused:
            return
        self._paused = pause
        if pause:
            self._loop.forget(self._pipe)
        else:
            self._loop.watch(self._pipe, loop.READ, self._on_pipe)

    def stop(self, reason: str) -> None:
        """Kill the collector and pass ``reason`` to ``on_end``, unless the collector has ended already."""
        if self._pipe >= 0:
            os.kill(self._pid, signal.SIGKILL)  # our child, and not reaped yet
            self._close(reason)

    def tick(self, now: float) -> float:
        """Kill a collector that a stop signal holds, or that is past its time. Return when to check again."""
        if self._pipe < 0:
            return float("inf")
        trouble = self._helper.trouble(now)
        if trouble:
            self.stop(trouble)
        elif now >= self._due:
            self.stop(f"the search for what the run has left took more than {self._seconds:g} s")
        return now + LOOK_SECONDS

    def _on_pipe(self, _events: int) -> None:
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._on_data(data)
        else:
            self._close("")

    def _close(self, reason: str) -> None:
        self._loop.forget(self._pipe)
        os.close(self._pipe)
        self._pipe = -1
        if reason:
            self._dispose(self._is_reaped, _ignore)
            self._on_end(reason)
        else:
            self._dispose(self._is_reaped, self._on_reaped)

    def _is_reaped(self) -> bool:
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == self._pid:
            self._status = status
        return pid == self._pid

    def _on_reaped(self, reaped: bool) -> None:
        self._on_end(self._ended(self._status) if reaped else "the process that brings files out did not end")

    def _ended(self, status: int | None) -> str:
        if status is None:
            return "the exit status of the process that brings files out is unknown"
        if status == 0:
            return ""
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGXCPU):
            return f"the search for what the run has left took more than {self._seconds:g} s"
        return f"the process that brings files out has failed (status {status})"


def uid_for(uid: int | None) -> int | None:
    """Return the uid of the collector: the guest's where root starts runs, since a guest may point root to any file."""
    return uid if os.geteuid() == 0 else None


def _ignore(_reaped: bool) -> None:
    pass
