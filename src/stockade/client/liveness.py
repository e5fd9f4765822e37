"""How long a caller waits for its warden: as long as that lives and does its work, which is looked at from outside
while nothing comes."""

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
"""A warden that a stop signal holds at two looks so far apart is ended."""
_QUIET_SECONDS = 5.0
"""Where nothing has come for so long the warden is asked for an answer;"""
_ANSWER_SECONDS = 30.0
"""one that gives none in this time is ended. A host with much to do may keep it from its processor for seconds."""


class Liveness:
    """One caller's, with one run. The warden is ended where it is lost: then all who wait for it hear so."""

    def __init__(self, warden: WardenProcess, send_queue: SendQueue | None = None) -> None:
        """``send_queue`` is where an answer can be asked for."""
        self._warden = warden
        self._send_queue = send_queue
        self._kinds_seen = time.monotonic()
        self._stopped = False
        self._asked: float | None = None

    @property
    def seconds(self) -> float:
        """How long to wait for something to come before ``look`` is called."""
        return _AGAIN_SECONDS if self._stopped else LOOK_SECONDS

    def note_message(self) -> None:
        """Take notice that something has come."""
        self._kinds_seen, self._asked, self._stopped = time.monotonic(), None, False

    def wait(self, sock: socket.socket, events: int = select.POLLIN) -> bool:
        """Wait until ``sock`` is ready for ``events``; return ``False`` after a look at the warden instead."""
        poll = select.poll()
        poll.register(sock, events)
        if poll.poll(self.seconds * 1000):
            return True
        self.look()
        return False

    def look(self) -> None:
        """Look at the warden, of which nothing has come for ``seconds``, and end it if it is lost."""
        now = time.monotonic()
        if self._warden.is_stopped:
            if self._stopped:
                self._warden.end_now("a signal from outside had stopped it, and it did not go on")
            self._stopped = True
            return
        self._stopped = False
        if self._asked is not None and now - self._asked >= _ANSWER_SECONDS:
            self._warden.end_now(f"it had not answered for {_ANSWER_SECONDS:.0f} s")
        elif self._asked is None and now - self._kinds_seen >= _QUIET_SECONDS and self._send_queue is not None:
            self._asked = now
            self._send_queue.ping()
