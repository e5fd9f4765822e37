"""The events of live runs: the worker's side.

The worker keeps the latest events of each run, and the front asks for them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from stockade.runs.events import Event, Finished
from stockade.service.events import TYPE, as_message
from stockade.service.living.requests import Answer, Call

_MOST_BYTES = 1 << 20
"""What is kept of a run. A reader that is slower misses events, and finds their place in ``at`` of the next output."""
_MOST_ENDED = 16
"""Runs whose events are kept after their end, for readers that are late."""
_PIECE = 1 << 16
_MOST_SECONDS = 60.0
_NOTHING = Answer(status=204)
_EVENTS = Answer(status=200, type=TYPE)


class Journal:
    """The latest events of one attempt at a run, in bounded memory."""

    def __init__(self, key: int) -> None:
        self.key = key
        self._name = secrets.token_hex(4)
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = self._last = 0
        self.ended = False
        self._news = asyncio.Event()

    def add(self, event: Event) -> None:
        """Keep an event, in the place of old ones if there are too many. The front reports the last event itself."""
        if isinstance(event, Finished):
            return
        self._last += 1
        text = as_message(event, f"{self._name}.{self._last}")
        self._events.append((self._last, text))
        self._bytes += len(text)
        while self._bytes > _MOST_BYTES:
            self._bytes -= len(self._events.popleft()[1])
        self._tell()

    def end(self) -> None:
        """Note that no more events come."""
        self.ended = True
        self._tell()

    async def after(self, last: str, seconds: float) -> tuple[str, bytes]:
        """Return some events after the one that has the id ``last``, and the id of the last of them.

        An id of another attempt is before all events. Waits up to ``seconds`` for an event, unless the run has ended.
        """
        name, _, number = last.partition(".")
        at = int(number) if name == self._name and number.isdecimal() and len(number) < 20 else 0
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._last <= at and not self.ended:
                    await self._news.wait()
        found, size = [], 0
        for each, text in self._events:
            if each > at and size < _PIECE:
                at, size = each, size + len(text)
                found.append(text)
        return f"{self._name}.{at}", b"".join(found)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Journals:
    """The journals of the runs of a worker, by their ids."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, Journal] = OrderedDict()
        self._begun = asyncio.Event()
        self.operations: dict[str, Callable[[Call, bytes], Awaitable[tuple[Answer, bytes]]]] = {"events": self._events}

    def begin(self, run: str, key: int) -> Journal:
        """Return a new journal for an attempt at a run."""
        ended = [each for each, journal in self._of.items() if journal.ended]
        for each in ended[: max(0, len(ended) - _MOST_ENDED + 1)]:
            del self._of[each]
        made = self._of[run] = Journal(key)
        self._of.move_to_end(run)
        self._begun.set()
        self._begun = asyncio.Event()
        return made

    async def _events(self, call: Call, _body: bytes) -> tuple[Answer, bytes]:
        """Answer with an id, and the events up to it; with nothing if none came within the seconds of the call."""
        loop = asyncio.get_running_loop()
        until = loop.time() + min(call.seconds, _MOST_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while call.run not in self._of:
                    await self._begun.wait()
        journal = self._of.get(call.run)
        if journal is None or journal.key != call.key:
            return _NOTHING, b""
        last, found = await journal.after(call.after, max(0.0, until - loop.time()))
        return (_EVENTS, last.encode() + b"\n" + found) if found else (_NOTHING, b"")
