"""Checks of the warden while a caller waits for it: the caller waits only as long as the warden lives and works."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    from stockade.client.send_queue import SendQueue
    from stockade.client.warden_process import WardenProcess

LOOK_SECONDS = 0.5
_AGAIN_SECONDS = 0.5
"""A warden that stands still at two checks with this pause between them is killed."""
_QUIET_SECONDS = 5.0
"""After so long without a message, the caller asks the warden for a sign of life."""
_ANSWER_SECONDS = 30.0
"""A warden that gives none in this time is killed. A busy host may keep it from running for seconds."""


class Liveness:
    """Checks that a caller's warden lives during a run. A lost warden is killed, so that every waiter sees its end."""

    def __init__(self, warden: WardenProcess, send_queue: SendQueue | None = None) -> None:
        """``send_queue`` sends the request for a sign of life."""
        self._warden = warden
        self._send_queue = send_queue
        self._last_message = time.monotonic()
        self._stopped = False
        self._asked: float | None = None

    @property
    def seconds(self) -> float:
        """How long to wait for a message before a call of ``look``."""
        return _AGAIN_SECONDS if self._stopped else LOOK_SECONDS

    def note_message(self) -> None:
        """Note that a message arrived."""
        self._last_message, self._asked, self._stopped = time.monotonic(), None, False

    def wait(self, sock: socket.socket, events: int = select.POLLIN) -> bool:
        """Wait until ``sock`` is ready for ``events``. If time runs out, check the warden and return ``False``."""
        poll = select.poll()
        poll.register(sock, events)
        if poll.poll(self.seconds * 1000):
            return True
        self.look()
        return False

    def look(self) -> None:
        """Check the warden after ``seconds`` without a message, and kill it if it is lost."""
        now = time.monotonic()
        why = self._warden.standstill
        if why and self._stopped:
            self._warden.end_now(f"it {why}, and did not go on")
        if self._warden.was_ended:
            if self._send_queue is not None:
                self._send_queue.stop_receiving()
        elif why:
            self._stopped = True
        else:
            self._look_closer(now)

    def _look_closer(self, now: float) -> None:
        """Ask a warden that runs for a sign of life, and kill it if it gives none."""
        self._stopped = False
        if self._asked is not None and now - self._asked >= _ANSWER_SECONDS:
            self._warden.end_now(f"it had not answered for {_ANSWER_SECONDS:.0f} s")
        elif self._asked is None and now - self._last_message >= _QUIET_SECONDS and self._send_queue is not None:
            self._asked = now
            self._send_queue.ping()
