"""Keep a process of the service running: start it, listen to it, and start the next one when it ends."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import DBAPIError

from stockade.core import log
from stockade.core.errors import BackendUnavailable, SetupError, StockadeError
from stockade.service.link import READY, REFUSED, Link
from stockade.service.settings import Settings

_START_SECONDS = 60.0
_STOP_SECONDS = 15.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_LIVED_SECONDS = 10.0
"""A process that lived this long ended for a reason of its own, so the next one starts at once."""


@dataclass(frozen=True)
class Order:
    """The arguments of a process of the service. It inherits the descriptors."""

    settings: Settings
    parent: int
    """The pid of the process that started it, and with which it dies."""
    holder: str
    """The name of this process, in leases."""
    link: int
    others: tuple[int, ...]
    uid: int | None = None
    """Who to become; ``None`` stays."""

    def dump(self) -> str:
        """Return the order as one argument."""
        fields = (self.settings.dump(), self.parent, self.holder, self.link, self.others, self.uid)
        return json.dumps(fields)

    @classmethod
    def load(cls, text: str) -> Order:
        """Return the order of which ``dump`` made ``text``."""
        settings, parent, holder, link, others, uid = json.loads(text)
        return cls(Settings.load(settings), parent, holder, link, tuple(others), uid)


def at_sigterm(stop: Callable[[], None]) -> None:
    """Call ``stop`` at the first SIGTERM. Later ones are ignored: an event loop that closes would report a failure."""

    def once() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stop()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, once)


class Supervisor:
    """A process of the service, and its successors. ``on_line`` gets its lines; ``on_end`` its name once it is gone."""

    def __init__(
        self,
        module: str,
        settings: Settings,
        inherited: Sequence[int],
        *,
        on_line: Callable[[str, str], None],
        on_end: Callable[[str], Awaitable[None]],
        uid: int | None = None,
    ) -> None:
        self._module, self._settings, self._inherited, self._uid = module, settings, tuple(inherited), uid
        self._on_line, self._on_end = on_line, on_end
        self.process: asyncio.subprocess.Process | None = None
        self.link: Link | None = None
        """The link to the process, while it works."""
        self._refusal: StockadeError = SetupError(f"{module} ended, or took too long, before it was ready")
        self._started = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the first process. Raises ``BackendUnavailable`` or ``SetupError`` if it cannot do its work here."""
        self._task = asyncio.create_task(self._supervise())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._started.wait(), _START_SECONDS)
        if self.link is None and not self._stopping:
            await self.stop()
            raise self._refusal

    async def stop(self) -> None:
        """End the process."""
        self._stopping = True
        self._started.set()
        if self.process is not None:
            await _end(self.process)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def send(self, word: str, *values: str) -> None:
        """Send a line to the process, if it works."""
        if self.link is not None:
            self.link.send(word, *values)

    async def _supervise(self) -> None:
        pause, loop = _FIRST_PAUSE, asyncio.get_running_loop()
        while not self._stopping:
            begun, holder = loop.time(), secrets.token_hex(8)
            try:
                await self._one(holder)
                if self._stopping or not self._started.is_set():
                    return
                status = self.process and self.process.returncode
                log.error("%s ended (%s); another one starts", self._module, status)
                await self._on_end(holder)
            except (OSError, DBAPIError, ValueError) as error:  # what a worker held is released when its leases end
                log.error("%s cannot be started, or followed: %s; it is tried again", self._module, error)
            finally:
                self._started.set()
            pause = _FIRST_PAUSE if loop.time() - begun > _LIVED_SECONDS else min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _one(self, holder: str) -> None:
        """Start a process, and listen to it until it ends."""
        ours, theirs = socket.socketpair()
        link = await Link.over(ours)
        try:
            order = Order(self._settings, os.getpid(), holder, theirs.fileno(), self._inherited, self._uid)
            # A session of its own: Ctrl-C at the terminal concerns the parent, which then ends the process.
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", self._module, order.dump(), stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(order.link, *order.others), start_new_session=True,
            )  # fmt: skip
            theirs.close()
            await self._listen(link)
        finally:
            self.link = None
            theirs.close()
            link.close()
            if self.process is not None:
                await _end(self.process)

    async def _listen(self, link: Link) -> None:
        lines, patience = link.lines(), _START_SECONDS
        while True:
            try:
                word, rest = await asyncio.wait_for(anext(lines), patience)
            except StopAsyncIteration:
                return
            except TimeoutError:
                log.error("%s has not said for %g seconds that it is alive, and is ended", self._module, patience)
                if self.process is not None:
                    self.process.kill()
                return
            patience = self._settings.lease
            if word == READY:
                self.link = link
                self._started.set()
            elif word == REFUSED:
                self._refusal = _refusal(rest)
            self._on_line(word, rest)


def _refusal(text: str) -> StockadeError:
    """Return the error for which a process refused to start. Raises ``ValueError`` for other text."""
    found: Any = json.loads(text)
    match found:
        case {"message": str(message), "accept": dict(accept)}:
            return BackendUnavailable(message, accept)
        case {"message": str(message)}:
            return SetupError(message)
    raise ValueError("a refusal without a message")


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
