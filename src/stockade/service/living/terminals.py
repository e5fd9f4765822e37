"""Terminals in living sandboxes: the worker's side.

A terminal belongs to the call that started it, and is hung up when the front cancels that call, or ends. Other calls
read from it, write to it and control it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from stockade.api.asynchronous.process import AsyncTerminal
from stockade.core.errors import JobError, SandboxClosed
from stockade.service.errors import Refused
from stockade.service.living.requests import Answer, Call, Control, TerminalRequest, compact
from stockade.service.living.sandbox import Kept

MOST_OF_KEY, MOST = 16, 128
_PIECE = 1 << 15
_RETRY_SECONDS = 5
_DONE, _EMPTY = Answer(status=200), Answer(status=204)
_BYTES = Answer(status=200, type="application/octet-stream")
Reply: TypeAlias = tuple[Answer, bytes]
Operation: TypeAlias = Callable[[Call, bytes], Awaitable[Reply]]
Work: TypeAlias = Callable[[Kept], Awaitable[bytes | None]]


class Terminals:
    """The terminals that are open. ``work_in`` does some work in the sandbox of a call."""

    def __init__(self, work_in: Callable[[Call, Work, Answer], Awaitable[Reply]]) -> None:
        self._in = work_in
        self._open: dict[str, tuple[Kept, asyncio.Future[AsyncTerminal]]] = {}
        """By the front's names. A future has its terminal as soon as the command has started."""
        self._closing: set[asyncio.Future[None]] = set()
        self.operations: dict[str, Operation] = {
            "terminal": self._terminal,
            "screen": self._screen,
            "keys": self._keys,
            "control": self._control,
        }

    async def _terminal(self, call: Call, body: bytes) -> Reply:
        request = TerminalRequest.model_validate_json(body)
        return await self._in(call, lambda kept: self._hold(kept, call.terminal, request), _EMPTY)

    async def _hold(self, kept: Kept, name: str, request: TerminalRequest) -> None:
        """Start a command at a terminal, and keep it until cancelled."""
        self._check_space(kept.key)
        if name in self._open:
            raise JobError(f"terminal = {name!r:.40}: this name is taken")
        opened: asyncio.Future[AsyncTerminal] = asyncio.get_running_loop().create_future()
        self._open[name] = kept, opened
        try:
            terminal = await kept.sandbox.terminal(
                request.argv, rows=request.rows, columns=request.columns, cwd=request.cwd, timeout=request.timeout,
                cpu_time=request.cpu_time,
            )  # fmt: skip
            try:
                opened.set_result(terminal)
                await asyncio.Event().wait()
            finally:
                await self._close(terminal)
        finally:
            del self._open[name]

    async def _close(self, terminal: AsyncTerminal) -> None:
        """Hang up. A second cancellation must not keep the command from being killed."""
        closing = asyncio.ensure_future(terminal.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        await asyncio.shield(closing)

    def _check_space(self, key: int) -> None:
        of_key = sum(kept.key == key for kept, _ in self._open.values())
        if of_key >= MOST_OF_KEY:
            message = f"{of_key} terminals of this key are open, which is the most; close one"
            raise Refused(429, "TooManyTerminals", message, retry=_RETRY_SECONDS)
        if len(self._open) >= MOST:
            message = f"{len(self._open)} terminals are open, which is the most"
            raise Refused(503, "TooManyTerminals", message, retry=_RETRY_SECONDS)

    async def _of(self, kept: Kept, name: str) -> AsyncTerminal:
        """Return a terminal of a sandbox, once its command has started."""
        of, opened = self._open.get(name, (None, None))
        if of is not kept or opened is None:
            raise SandboxClosed("the terminal has ended")
        return await asyncio.shield(opened)

    async def _screen(self, call: Call, _body: bytes) -> Reply:
        """Answer with output as soon as there is any; at its end, with the result."""

        async def read(kept: Kept) -> bytes:
            return await (await self._of(kept, call.terminal)).read(_PIECE)

        async def result(kept: Kept) -> bytes:
            found = await (await self._of(kept, call.terminal)).wait()
            return compact(found.to_dict() if call.shape == "full" else found.as_json())

        answer, content = await self._in(call, read, _BYTES)
        return (answer, content) if content else await self._in(call, result, _DONE)

    async def _keys(self, call: Call, body: bytes) -> Reply:
        async def write(kept: Kept) -> None:
            with suppress(BrokenPipeError):  # the command has ended, which the next read reports
                await (await self._of(kept, call.terminal)).write(body)

        return await self._in(call, write, _EMPTY)

    async def _control(self, call: Call, body: bytes) -> Reply:
        asked = Control.model_validate_json(body)

        async def control(kept: Kept) -> None:
            terminal = await self._of(kept, call.terminal)
            if asked.end == "hang_up":
                await terminal.close()
            elif asked.end == "kill":
                await terminal.kill()
            elif asked.signal is not None:
                terminal.send_signal(asked.signal)
            else:
                terminal.resize(asked.rows, asked.columns)

        return await self._in(call, control, _EMPTY)
