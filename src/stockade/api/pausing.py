"""The part of a living sandbox that pauses it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from stockade.api.execs import Execs

if TYPE_CHECKING:
    from stockade.client.send_queue import SendQueue
    from stockade.runs.events import UsageReport


class Clock:
    """A monotonic clock that stands still while its sandbox is paused, so that deadlines of callers do as well."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._lost = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        since = self._since
        return (time.monotonic() if since is None else since) - self._lost

    @property
    def stands_still(self) -> bool:
        """Whether the sandbox is paused."""
        return self._since is not None

    def stop(self) -> None:
        """Stand still."""
        self._since = time.monotonic()

    def go_on(self) -> None:
        """Continue where the clock stood still."""
        if self._since is not None:
            self._lost += time.monotonic() - self._since
            self._since = None


class Pausing(Execs):
    """The methods of ``Sandbox`` that pause and resume it."""

    _send_queue: SendQueue
    _lock: threading.RLock
    _clock: Clock

    usage: Callable[[], UsageReport]

    @property
    def paused(self) -> bool:
        """Whether the sandbox is paused."""
        return self._paused

    def pause(self) -> None:
        """Let every process of the sandbox stand still until ``resume``, and their clocks with them.

        The idle time, the lifetime, the limits of running commands and the timeouts of running cells stand still too.
        Memory and files stay. While the sandbox is paused, a new call raises ``JobError``. A paused sandbox can be
        closed. To pause a paused sandbox does nothing. Raises ``SandboxClosed``.
        """
        with self._lock:
            self._check_open()
            if not self._paused:
                self._paused = True
                self._clock.stop()
                self._request("pause")

    def resume(self) -> None:
        """Let a paused sandbox go on. To resume one that is not paused does nothing. Raises ``SandboxClosed``."""
        with self._lock:
            self._check_open()
            if self._paused:
                self._request("resume")
                self._paused = False
                self._clock.go_on()

    def _request(self, what: str) -> None:
        """Send a request, and wait until the warden has carried it out."""
        with self._send_queue.locked() as exchange:
            if exchange is not None:
                exchange.ask("pause" if what == "pause" else "resume")
        self.usage()  # requests are carried out in their order
