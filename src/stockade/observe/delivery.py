"""Hand things to functions that may be slow, in a thread of its own, so that nobody waits for them."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from stockade.core import log

_T = TypeVar("_T")
MOST_WAITING = 1000
_EXIT_SECONDS = 5.0


class Delivery(Generic[_T]):
    """A bounded queue before ``deliver``. Its thread starts with the first thing, and again in a fork."""

    def __init__(self, deliver: Callable[[_T], None]) -> None:
        self._deliver = deliver
        self._thread: threading.Thread | None = None
        self._begin()
        atexit.register(self.drain)

    def put(self, thing: _T) -> None:
        """Queue a thing, or drop it if too many wait. Never waits for a delivery."""
        if self._owner != os.getpid():  # the thread of a parent does not exist in its fork
            self._begin()
        with self._changed:
            if len(self._queue) >= MOST_WAITING:
                self._dropped += 1
                return
            self._queue.append(thing)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="stockade-alerts", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drain(self, seconds: float = _EXIT_SECONDS) -> bool:
        """Wait until everything is delivered, but at most ``seconds``. Return whether it is."""
        if self._owner != os.getpid():
            return True
        until = time.monotonic() + seconds
        with self._changed:
            while self._queue or self._busy:
                if not self._changed.wait(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                    return False
        return True

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._queue: deque[_T] = deque()
        self._changed = threading.Condition()
        self._thread = None
        self._busy = False
        self._dropped = 0

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._queue:
                    self._changed.wait()
                thing, dropped = self._queue.popleft(), self._dropped
                self._busy, self._dropped = True, 0
            if dropped:
                log.error("%d alerts were dropped, because %d waited for their delivery", dropped, MOST_WAITING)
            try:
                self._deliver(thing)
            except Exception as error:
                log.error("an alert was not delivered: %s: %s", type(error).__name__, error)
