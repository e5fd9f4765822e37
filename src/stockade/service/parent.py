"""The parent of a service: it starts the front and the worker, carries lines between them, and uses the kill switch.

It reads nothing from the network, and believes no line of the front more than a client with an operator's key.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time

from pydantic import ValidationError

from stockade.core import log
from stockade.core.errors import StockadeError
from stockade.core.strict_json import dumps
from stockade.linux import uids
from stockade.service import kill
from stockade.service.database import Database
from stockade.service.link import ALERTED, ANSWER, ASK, CANCEL, DOWN, FINISHED, LEFT, REACHED, READY, RESTARTED, WAKE
from stockade.service.processes import Supervisor
from stockade.service.queue import Queue
from stockade.service.settings import Settings
from stockade.warden.uid_pool import UidPool

_EXPIRE_SECONDS, _FORGET_SECONDS = 5.0, 60.0


class Parent:
    """The processes of a service."""

    def __init__(self, settings: Settings, database: Database, lock: int, listener: socket.socket) -> None:
        self._queue = Queue(database, settings)
        self._pool = UidPool(uids.configured()) if os.geteuid() == 0 else None  # it holds the claim on the uid
        uid = None if self._pool is None else self._pool.take()
        # Both ends of the socket for calls stay open here, so that it outlives the processes.
        self._calls = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        of_front, of_worker = (end.fileno() for end in self._calls)
        self._holder = ""
        self.worker = Supervisor(
            "stockade.service.worker", settings, (lock, of_worker), on_line=self._of_worker, on_end=self._release
        )
        self.front = Supervisor(
            "stockade.service.front", settings, (lock, of_front, listener.fileno()),
            on_line=self._of_front, on_end=self._front_ended, uid=uid,
        )  # fmt: skip
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the worker and the front. Raises ``BackendUnavailable`` or ``SetupError`` if one cannot work here."""
        await asyncio.to_thread(self._queue.release)  # the folder's lock shows that no earlier worker lives
        self._keep(self._tidy())
        await asyncio.gather(self.worker.start(), self.front.start())

    async def stop(self) -> None:
        """End both: the front first, so that requests that wait get an answer. What ran goes back into the queue."""
        await self.front.stop()
        await self.worker.stop()
        for task in self._tasks:
            task.cancel()
        for end in self._calls:
            end.close()

    def _of_worker(self, word: str, rest: str) -> None:
        if word == READY:
            self._holder = rest
        if word in (READY, FINISHED, REACHED, ALERTED):
            self.front.send(word, *([rest] if rest else ()))

    async def _release(self, holder: str) -> None:
        """Put the runs of a worker that ended back into the queue."""
        self.front.send(RESTARTED)
        self.front.send(DOWN)
        for run in await asyncio.to_thread(self._queue.release, holder):
            self.front.send(FINISHED, run)

    def _of_front(self, word: str, rest: str) -> None:
        if word == READY and self.worker.link is not None:
            self.front.send(READY, self._holder)
        elif word in (WAKE, CANCEL):
            self.worker.send(word, *([rest] if rest else ()))
        elif word == ASK:
            self._keep(self._answer(rest))

    async def _front_ended(self, _holder: str) -> None:
        """End calls in sandboxes, which nobody waits for. Clients repeat other requests that had no answer."""
        self.worker.send(LEFT)

    async def _answer(self, asked: str) -> None:
        """Use the kill switch for the front, which cannot reach its file."""
        number, _, text = asked.partition(" ")
        try:
            found = await asyncio.to_thread(kill.used, text)
        except (StockadeError, OSError, ValidationError) as error:
            status = 503 if isinstance(error, OSError) else 422
            found = {"status": status, "error": type(error).__name__, "message": str(error)}
        self.front.send(ANSWER, f"{int(number)}" if number.isdecimal() else "0", dumps(found, compact=True))

    def _keep(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tidy(self) -> None:
        forgotten = 0.0
        while True:
            try:
                for run in await asyncio.to_thread(self._queue.expire):
                    self.front.send(FINISHED, run)
                if time.monotonic() - forgotten > _FORGET_SECONDS:
                    await asyncio.to_thread(self._queue.forget)
                    forgotten = time.monotonic()
            except Exception as error:
                log.error("old runs could not be put away: %s; it is tried again", error)
            await asyncio.sleep(_EXPIRE_SECONDS)
