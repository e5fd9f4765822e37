"""The front's side of calls in sandboxes: send one to the service worker, and wait for its answer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from fastapi import Request
from pydantic import ValidationError

from stockade.service.errors import Refused
from stockade.service.living.channel import ANSWER, CALL, CANCEL, NAME_BYTES, Channel
from stockade.service.living.requests import Answer, Call, packed, unpacked

if TYPE_CHECKING:
    from starlette.types import Receive

_CANCEL_SECONDS = 5.0


class OwnerGone(Exception):
    """The worker ended before it answered."""


class Calls:
    """The calls that wait for an answer."""

    def __init__(self) -> None:
        self.channel: Channel | None = None
        self.holder = ""
        """The worker that takes calls now; empty without one."""
        self._waiting: dict[str, asyncio.Future[bytes]] = {}

    async def listen(self) -> None:
        """Take the answers of the worker."""
        assert self.channel is not None
        async for kind, name, message in self.channel.messages():
            waiting = self._waiting.get(name)
            if kind == ANSWER and waiting is not None and not waiting.done():
                waiting.set_result(message)

    def follow(self, holder: str) -> None:
        """Send calls to this worker from now on, or to none. Those that wait for another one fail."""
        if holder == self.holder:
            return
        self.holder = holder
        if self.channel is not None:
            self.channel.forget()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(OwnerGone())

    async def ask(
        self, call: Call, body: bytes, seconds: float, request: Request | None = None
    ) -> tuple[Answer, bytes]:
        """Return the worker's answer and its body. If the client of ``request`` goes away, the call is cancelled.

        Raises ``OwnerGone``, and ``Refused`` without a worker, or without an answer after ``seconds``.
        """
        left = None if request is None else asyncio.ensure_future(gone(request.receive))
        try:
            async with asyncio.timeout(seconds), self.begun(call, body) as waiting:
                await asyncio.wait((waiting,) if left is None else (waiting, left), return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    return answer_in(waiting.result())
            raise Refused(400, "RequestError", "the client closed the connection")
        except TimeoutError:
            raise Refused(504, "NoAnswer", f"there was no answer for {seconds:.0f} seconds") from None
        finally:
            if left is not None:
                left.cancel()

    @asynccontextmanager
    async def begun(self, call: Call, body: bytes) -> AsyncIterator[asyncio.Future[bytes]]:
        """Send a call, and yield the future of its answer. A call without an answer at the end is cancelled.

        Raises ``Refused`` without a worker. The future raises ``OwnerGone``.
        """
        if self.channel is None or not self.holder:
            raise Refused(503, "NotReady", "no worker keeps sandboxes now", retry=1)
        name = secrets.token_hex(NAME_BYTES // 2)
        waiting = self._waiting[name] = asyncio.get_running_loop().create_future()
        try:
            await self.channel.send(CALL, name, packed(call, body))
            yield waiting
        finally:
            del self._waiting[name]
            if not waiting.done():
                waiting.cancel()
                await self._cancel(name)
            elif not waiting.cancelled():
                waiting.exception()  # it is retrieved, so asyncio does not log it

    async def _cancel(self, name: str) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                assert self.channel is not None
                await self.channel.send(CANCEL, name)


def answer_in(message: bytes) -> tuple[Answer, bytes]:
    """Return the answer in a message of the worker, and its body."""
    head, body = unpacked(message)
    try:
        return Answer.model_validate_json(head), body
    except ValidationError:
        raise Refused(500, "InternalError", "the worker's answer makes no sense") from None


async def until_one_ends(*each: Coroutine[Any, Any, None]) -> None:
    """Run these side by side until the first ends, then cancel the others. Raises what the first raises."""
    tasks = [asyncio.ensure_future(one) for one in each]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def gone(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
