"""The state that parts of the server share: queue, keys, requests that wait for results, and the link to the worker."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Row

from stockade.service.database import FINISHED, Database
from stockade.service.keys import Key, Keys
from stockade.service.link import CANCEL, WAKE, Link
from stockade.service.metrics import Metrics
from stockade.service.queue import NewRun, Queue
from stockade.service.settings import Settings

_P = ParamSpec("_P")
_Value = TypeVar("_Value")
_THREADS = 4
_LOOK_SECONDS = 5.0
"""How often a waiting request looks into the database, in case the worker's word was lost."""


class State:
    """The server's view of the service. All methods belong to its event loop."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.keys, self.queue = Keys(database), Queue(database, settings)
        self.metrics = Metrics()
        self.link: Link | None = None
        """The link to the worker, while it takes runs."""
        self.stopping = False
        self._threads = ThreadPoolExecutor(_THREADS, "database")
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    async def call(self, function: Callable[_P, _Value], *values: _P.args, **options: _P.kwargs) -> _Value:
        """Call a function that uses the database, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*values, **options))

    async def submit(self, key: Key, new: NewRun) -> Row[Any]:
        """Accept a run, and let the worker look. Raises ``QueueFull``."""
        row = await self.call(self.queue.submit, key.id, new)
        self.metrics.accepted()
        if self.link is not None:
            self.link.send(WAKE)
        return row

    async def cancel(self, key: Key, run: str) -> Row[Any] | None:
        """Cancel a run. Return it, or ``None`` if this key has none of this id."""
        row = await self.call(self.queue.cancel, key.id, run)
        if row is None:
            return None
        if row.state == FINISHED:
            self.ended(run)
        elif self.link is not None:
            self.link.send(CANCEL, run)
        return row

    async def waited(self, key: Key, run: str, seconds: float) -> Row[Any] | None:
        """Return a run when it has a result, or as it is after ``seconds``; ``None`` if the key has no such run."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        until = loop.time() + seconds
        self._waiting[run].add(ended)  # before the look, so that no end between the two is missed
        try:
            while True:
                row = await self.call(self.queue.find, key.id, run)
                left = until - loop.time()
                if row is None or row.state == FINISHED or left <= 0 or self.stopping:
                    return row
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), min(left, _LOOK_SECONDS))
                ended.clear()
        finally:
            self._waiting[run].discard(ended)
            if not self._waiting[run]:
                del self._waiting[run]

    def ended(self, run: str, outcome: str = "") -> None:
        """Wake those who wait for this run, and count it under its outcome, if that is known."""
        if outcome:
            self.metrics.finished(outcome)
        for each in self._waiting.get(run, ()):
            each.set()

    def stop(self) -> None:
        """Let every waiting request answer now."""
        self.stopping = True
        for run in self._waiting:
            self.ended(run)
