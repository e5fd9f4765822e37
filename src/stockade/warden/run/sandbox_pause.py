"""Pause and resume of a living instance: all of its execs stand still, and so do their clocks."""

from __future__ import annotations

import time

from stockade.linux import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stockade.warden.run.exec_execution import ExecExecution
    from stockade.warden.run.guest_processes import GuestProcesses


class SandboxPause:
    """Freezes the execs of one instance. Its init goes on, so that an exec that serves the caller can start.

    Where an exec has a control group of version 2, that group is frozen: to move its processes would lose
    them. Elsewhere all processes below the init are moved into a freezer, or stopped by signals if the host has none.
    """

    def __init__(self, processes: GuestProcesses, execs: Callable[[], Iterable[ExecExecution]]) -> None:
        """``execs`` returns all execs that may have a live process."""
        self._processes, self._execs = processes, execs
        self._begin: float | None = None
        self._frozen: list[str] = []

    @property
    def active(self) -> bool:
        """Whether the instance is paused."""
        return self._begin is not None

    def begin(self) -> None:
        """Stop all clocks, and then all processes."""
        self._begin = time.monotonic()
        execs = [each for each in self._execs() if not each.serves]
        for each in execs:
            each.meter.pause(self._begin)
        self._frozen = [each.group.unified for each in execs if each.group is not None and each.group.unified]
        if self._frozen:
            self._write("1")
        else:
            self._processes.pause()
        for each in execs:  # look now, and not when they go on: a look can take longer than a call (``linux.locks``)
            each.meter.next_look = self._begin
            each.watcher.mark_due()
            each.watcher.tick(self._begin, active=False)

    def end(self) -> float:
        """Let all processes go on, and then their clocks. Return the seconds of the pause."""
        if self._begin is None:
            return 0.0
        self._write("0")
        self._processes.resume()
        now = time.monotonic()
        for each in self._execs():
            each.meter.resume(now)
            each.watcher.mark_due()
        seconds, self._begin, self._frozen = now - self._begin, None, []
        return seconds

    def _write(self, value: str) -> None:
        for folder in self._frozen:
            try:
                files.write(f"{folder}/cgroup.freeze", value)
            except OSError:
                pass  # the exec has ended, and its group with it
