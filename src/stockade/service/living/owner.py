"""The part of the service worker that answers the calls of the front: those about living sandboxes, and others.

A call may name any key: the front checks whose sandbox it is, and this checks it again. Whatever a call holds, the
operator's policy and the ceilings apply here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from types import MappingProxyType

from stockade.core import log
from stockade.core.errors import JobError, SandboxClosed, StockadeError
from stockade.service.errors import Refused
from stockade.service.living import refusals
from stockade.service.living.channel import ANSWER, CALL, CANCEL, Channel, TooLongError
from stockade.service.living.register import Register, shown
from stockade.service.living.requests import (
    Answer,
    Call,
    CellRequest,
    CommandRequest,
    SandboxRequest,
    compact,
    packed,
    unpacked,
)
from stockade.service.living.sandbox import Kept
from stockade.service.living.sandboxes import LivingSandboxes
from stockade.service.living.terminals import Operation, Reply, Terminals, Work
from stockade.service.requests import Policies
from stockade.service.settings import Settings

_MOST_CALLS = 1024
_BYTES = "application/octet-stream"
_DONE, _MADE, _EMPTY = Answer(status=200), Answer(status=201), Answer(status=204)


class Owner:
    """Answers calls, each in a task of its own."""

    def __init__(
        self,
        settings: Settings,
        policies: Policies,
        register: Register,
        channel: Channel,
        holder: str,
        *,
        others: Mapping[str, Operation] = MappingProxyType({}),
    ) -> None:
        """``others`` are operations that concern no sandbox."""
        self._channel, self._holder, self._most_bytes = channel, holder, settings.body_bytes
        self._sandboxes = LivingSandboxes(settings, policies, register, holder)
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._operations: dict[str, Operation] = {
            "create": self._create,
            "fork": self._fork,
            "close": self._close,
            "hold": self._hold,
            "plan": self._plan,
            "command": self._command,
            "read": self._read,
            "write": self._write,
            "list": self._list,
            "remove": self._remove,
            "cell": self._cell,
            "restart": self._restart,
            **Terminals(self._in).operations,
            **others,
        }

    def begin(self) -> None:
        """Note that sandboxes of an earlier worker are lost."""
        self._sandboxes.begin()

    async def serve(self) -> None:
        """Answer calls, until cancelled."""
        watch = asyncio.create_task(self._sandboxes.watch())
        try:
            async for kind, name, message in self._channel.messages():
                if kind == CALL and name not in self._calls and len(self._calls) < _MOST_CALLS:
                    self._calls[name] = asyncio.create_task(self._answer(name, message))
                elif kind == CANCEL and name in self._calls:
                    self._calls[name].cancel()
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    def leave(self) -> None:
        """End every call: the front that made them has ended."""
        self._channel.forget()
        for task in self._calls.values():
            task.cancel()

    async def close(self) -> None:
        """End every call and every sandbox."""
        self.leave()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)
        await self._sandboxes.end_all("the service was stopped; create another one")

    async def _answer(self, name: str, message: bytes) -> None:
        try:
            reply = await self._reply(*unpacked(message))
            with suppress(OSError):
                try:
                    await self._channel.send(ANSWER, name, packed(*reply))
                except TooLongError as error:
                    await self._channel.send(ANSWER, name, packed(*refusals.answered(error)))
        finally:
            self._calls.pop(name, None)

    async def _reply(self, head: bytes, body: bytes) -> Reply:
        try:
            call = Call.model_validate_json(head)
            if call.holder != self._holder:
                raise SandboxClosed("the call is for an earlier worker, whose sandboxes are gone")
            return await self._operations[call.do](call, body)
        except refusals.EXPECTED as error:
            return refusals.answered(error)
        except Exception as error:
            log.error("a call in a sandbox failed: %s: %s", type(error).__name__, error)
            return refusals.answered(Refused(500, "InternalError", "the service failed; its log has the reason"))

    # -- operations ------------------------------------------------------------------------------------------------

    async def _create(self, call: Call, body: bytes) -> Reply:
        row = await self._sandboxes.start(call, SandboxRequest.model_validate_json(body))
        return _MADE, compact(shown(row))

    async def _fork(self, call: Call, _body: bytes) -> Reply:
        async def fork(_kept: Kept) -> bytes:
            return compact(shown(await self._sandboxes.fork(call)))

        return await self._in(call, fork, _MADE)

    async def _close(self, call: Call, _body: bytes) -> Reply:
        kept = self._sandboxes.of(call)
        row = await self._sandboxes.end(kept.sandbox.id, "its owner closed it")
        if row is None:
            raise SandboxClosed("the sandbox has ended; its key was removed, or the database cannot be written now")
        return _DONE, compact(shown(row))

    async def _hold(self, call: Call, _body: bytes) -> Reply:
        """Answer at the end of a sandbox. If the front cancels this call, or ends, the sandbox ends too."""
        kept = self._sandboxes.of(call)
        try:
            await kept.ended.wait()
        finally:
            await self._sandboxes.end(kept.sandbox.id, "the connection that it belonged to has ended")
        return _EMPTY, b""

    async def _plan(self, call: Call, _body: bytes) -> Reply:
        async def plan(kept: Kept) -> bytes:
            return compact(kept.plan())

        return await self._in(call, plan)

    async def _list(self, call: Call, _body: bytes) -> Reply:
        async def entries(kept: Kept) -> bytes:
            return compact(await kept.list(call.path))

        return await self._in(call, entries)

    async def _command(self, call: Call, body: bytes) -> Reply:
        request = CommandRequest.model_validate_json(body)
        return await self._in(call, lambda kept: kept.command(request, call.shape))

    async def _cell(self, call: Call, body: bytes) -> Reply:
        request = CellRequest.model_validate_json(body)
        return await self._in(call, lambda kept: kept.cell(call.language, request))

    async def _restart(self, call: Call, _body: bytes) -> Reply:
        return await self._in(call, lambda kept: kept.restart(call.language), _EMPTY)

    async def _read(self, call: Call, _body: bytes) -> Reply:
        return await self._in(
            call, lambda kept: kept.read(call.path, self._most_bytes), Answer(status=200, type=_BYTES)
        )

    async def _write(self, call: Call, body: bytes) -> Reply:
        return await self._in(call, lambda kept: kept.write(call.path, body), _EMPTY)

    async def _remove(self, call: Call, _body: bytes) -> Reply:
        def remove(kept: Kept) -> Awaitable[None]:
            return kept.remove(call.path, recursive=call.recursive)

        return await self._in(call, remove, _EMPTY)

    async def _in(self, call: Call, work: Work, answer: Answer = _DONE) -> Reply:
        """Do some work in the sandbox of a call. Raises ``SandboxClosed`` if it has ended, whatever the work raises."""
        kept = self._sandboxes.of(call)
        try:
            return answer, await work(kept) or b""
        except JobError:
            raise
        except (StockadeError, OSError) as error:
            try:
                await kept.check()
            except SandboxClosed as closed:
                await self._sandboxes.end(kept.sandbox.id, str(closed))
                raise closed from error
            raise
