"""Keep a worker process running: start it, listen to it, put its runs back when it ends, and start the next one."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy.exc import DBAPIError

from stockade.core import log
from stockade.core.errors import BackendUnavailable, SetupError, StockadeError
from stockade.service.link import FINISHED, READY, REFUSED, Link
from stockade.service.state import State

_START_SECONDS = 60.0
_STOP_SECONDS = 15.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_LIVED_SECONDS = 10.0
"""A worker that lived this long ended for a reason of its own, so the next one starts at once."""


class Supervisor:
    """The worker process of a server, and its successors."""

    def __init__(self, state: State, lock: int) -> None:
        self._state, self._lock = state, lock
        self._process: asyncio.subprocess.Process | None = None
        self._refusal: StockadeError = SetupError("the worker ended, or took too long, before it was ready")
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the first worker. Raises ``BackendUnavailable`` or ``SetupError`` if it cannot run anything here."""
        await self._state.call(self._state.queue.release)  # the folder's lock shows that no earlier worker lives
        self._task = asyncio.create_task(self._supervise())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ready.wait(), _START_SECONDS)
        if self._state.link is None:
            await self.stop()
            raise self._refusal

    async def stop(self) -> None:
        """End the worker. What it ran goes back into the queue."""
        self._state.stopping = True
        if self._process is not None:
            await _end(self._process)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _supervise(self) -> None:
        pause, loop = _FIRST_PAUSE, asyncio.get_running_loop()
        while not self._state.stopping:
            begun, holder = loop.time(), secrets.token_hex(8)
            try:
                await self._one(holder)
                if self._state.stopping or not self._ready.is_set():
                    return
                self._state.metrics.restarted()
                log.error("the worker ended (%s); another one starts", self._process and self._process.returncode)
                for run in await self._state.call(self._state.queue.release, holder):
                    self._state.ended(run)
            except (OSError, DBAPIError) as error:  # what it held is released when its leases end
                log.error("no worker can be started, or its runs cannot be released: %s; it is tried again", error)
            finally:
                self._ready.set()
            pause = _FIRST_PAUSE if loop.time() - begun > _LIVED_SECONDS else min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _one(self, holder: str) -> None:
        """Start a worker, and listen to it until it ends."""
        ours, theirs = socket.socketpair()
        link = await Link.over(ours)
        try:
            inherited = (theirs.fileno(), self._lock)
            argument = json.dumps([self._state.settings.dump(), os.getpid(), holder, *inherited])
            # A session of its own: Ctrl-C at the terminal concerns the server, which then ends the worker.
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "stockade.service.worker", argument,
                stdin=asyncio.subprocess.DEVNULL, pass_fds=inherited, start_new_session=True,
            )  # fmt: skip
            theirs.close()
            await self._listen(link)
        finally:
            self._state.link = None
            theirs.close()
            link.close()
            if self._process is not None:
                await _end(self._process)

    async def _listen(self, link: Link) -> None:
        lines, patience = link.lines(), _START_SECONDS
        while True:
            try:
                word, rest = await asyncio.wait_for(anext(lines), patience)
            except StopAsyncIteration:
                return
            except TimeoutError:
                log.error("the worker has not said for %g seconds that it is alive, and is ended", patience)
                if self._process is not None:
                    self._process.kill()
                return
            patience = self._state.settings.lease
            if word == READY:
                self._state.link = link
                self._ready.set()
            elif word == REFUSED:
                self._refusal = _refusal(json.loads(rest))
            elif word == FINISHED:
                run, _, outcome = rest.partition(" ")
                self._state.ended(run, outcome)


def _refusal(found: Mapping[str, Any]) -> StockadeError:
    """Return the error that a worker met when it made its first plan."""
    message = str(found["message"])
    return BackendUnavailable(message, found["accept"]) if "accept" in found else SetupError(message)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
