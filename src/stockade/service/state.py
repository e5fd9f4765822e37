"""The state that parts of the front share: queue, keys, requests that wait for results, and the link to the parent."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import ParamSpec, TypeVar

from stockade.service import kill, link
from stockade.service.database import FINISHED, Database, Row
from stockade.service.errors import Refused
from stockade.service.keys import Key, Keys
from stockade.service.link import ALERTED, ANSWER, ASK, CANCEL, DOWN, REACHED, READY, RESTARTED, WAKE, Link
from stockade.service.living.calls import Calls
from stockade.service.living.register import Register
from stockade.service.metrics import Metrics
from stockade.service.queue import NewRun, Queue
from stockade.service.requests import Policies
from stockade.service.settings import Settings

_P = ParamSpec("_P")
_Value = TypeVar("_Value")
_ASK_SECONDS = 10.0
_LOOK_SECONDS = 5.0
"""How often a waiting request looks into the database, in case the worker's word was lost."""


class State:
    """The server's view of the service. All methods belong to its event loop."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings, self.policies = settings, Policies(settings)
        self.keys, self.queue = Keys(database), Queue(database, settings)
        self.sandboxes, self.calls = Register(database), Calls()
        self.metrics = Metrics()
        self.link: Link | None = None
        """The link to the parent."""
        self.ready = False
        """Whether a worker takes runs."""
        self.stopping = False
        self.at_stop: list[Callable[[], None]] = []
        """What else to do when the front begins to end."""
        self._asked: dict[str, asyncio.Future[str]] = {}
        self._numbers = count()
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    async def call(self, function: Callable[_P, _Value], *values: _P.args, **options: _P.kwargs) -> _Value:
        """Call a function that uses the database.

        Its statements take less time than the way to a thread and back. With a database on another machine they would
        not, and a thread would belong here.
        """
        return function(*values, **options)

    async def submit(self, key: Key, *news: NewRun) -> list[Row]:
        """Accept runs, all or none, and let the worker look. Raises ``QueueFull``."""
        rows = await self.call(self.queue.submit, key.id, *news)
        for _ in rows:
            self.metrics.accepted()
        self._send(WAKE)
        return rows

    async def cancel(self, key: Key, *, run: str | None = None, batch: str | None = None) -> Sequence[Row]:
        """Cancel a run, or those of a batch. Return them: none, if this key has none of this id."""
        rows = await self.call(self.queue.cancel, key.id, run=run, batch=batch)
        for row in rows:
            if row.state == FINISHED:
                self.ended(row.id)
            else:
                self._send(CANCEL, row.id)
        return rows

    async def kill(self, order: kill.Order) -> kill.Switch:
        """Have the parent use the kill switch, and return the switch as it is then. Raises ``Refused``."""
        number = str(next(self._numbers))
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self._send(ASK, number, order.model_dump_json())
        try:
            found = json.loads(await asyncio.wait_for(answer, _ASK_SECONDS))
        except TimeoutError:
            raise Refused(
                503, "NoAnswer", "the kill switch could not be reached; use 'stockade kill'", retry=1
            ) from None
        finally:
            del self._asked[number]
        if "status" in found:
            raise Refused(found["status"], found["error"], found["message"])
        return kill.Switch(**found)

    async def listen(self) -> None:
        """Take the lines of the parent, until it is gone."""
        assert self.link is not None
        async for word, rest in self.link.lines():
            first, _, more = rest.partition(" ")
            if word == link.FINISHED:
                self.ended(first, more)
            elif word in (READY, DOWN):
                self.ready = word == READY
                self.calls.follow(first)
            elif word == RESTARTED:
                self.metrics.restarted()
            elif word == REACHED:
                self.metrics.reached(first, more)
            elif word == ALERTED:
                self.metrics.alerted(first)
            elif word == ANSWER and first in self._asked and not self._asked[first].done():
                self._asked[first].set_result(more)

    def _send(self, word: str, *values: str) -> None:
        if self.link is not None:
            self.link.send(word, *values)

    async def waited(self, key: Key, run: str, seconds: float, seen: Row | None = None) -> Row | None:
        """Return a run when it has a result, or as it is after ``seconds``; ``None`` if the key has no such run.

        ``seen`` is the run as the caller has just seen it, with no wait since.
        """
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        until = loop.time() + seconds
        self._waiting[run].add(ended)  # before the look, so that no end between the two is missed
        try:
            while True:
                row, seen = seen or await self.call(self.queue.find, key.id, run), None
                left = until - loop.time()
                if row is None or row.state == FINISHED or left <= 0 or self.stopping:
                    return row
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _LOOK_SECONDS)):
                        await ended.wait()
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
        self.calls.follow("")
        for run in self._waiting:
            self.ended(run)
        for each in self.at_stop:
            each()
