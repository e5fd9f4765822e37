"""The front's side of calls in sandboxes: send one to the service worker, and wait for its answer."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

from fastapi import Request
from pydantic import ValidationError

from stockade.service.errors import Refused
from stockade.service.living.channel import ANSWER, CALL, CANCEL, NAME_BYTES, Channel
from stockade.service.living.requests import Answer, Call, packed, unpacked

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

    async def ask(self, call: Call, body: bytes, seconds: float, request: Request) -> tuple[Answer, bytes]:
        """Return the worker's answer and its body. If the client goes away, the call is cancelled.

        Raises ``OwnerGone``, and ``Refused`` without a worker, or without an answer after ``seconds``.
        """
        if self.channel is None or not self.holder:
            raise Refused(503, "NotReady", "no worker keeps sandboxes now", retry=1)
        name = secrets.token_hex(NAME_BYTES // 2)
        waiting = self._waiting[name] = asyncio.get_running_loop().create_future()
        gone = asyncio.ensure_future(_gone(request))
        try:
            async with asyncio.timeout(seconds):
                await self.channel.send(CALL, name, packed(call, body))
                await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                head, answer = unpacked(waiting.result())
                return Answer.model_validate_json(head), answer
            raise Refused(400, "RequestError", "the client closed the connection")
        except TimeoutError:
            raise Refused(504, "NoAnswer", f"there was no answer for {seconds:.0f} seconds") from None
        except ValidationError:
            raise Refused(500, "InternalError", "the worker's answer makes no sense") from None
        finally:
            gone.cancel()
            if not self._waiting.pop(name).done():
                waiting.cancel()
                await self._cancel(name)

    async def _cancel(self, name: str) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                assert self.channel is not None
                await self.channel.send(CANCEL, name)


async def _gone(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
