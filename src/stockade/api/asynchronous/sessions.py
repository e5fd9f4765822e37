"""Interpreters, shells and files of a living sandbox, for asyncio. Each call runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from stockade.api.asynchronous.threads import forwarded, in_thread
from stockade.api.sessions.files import Files
from stockade.api.sessions.handle import SessionHandle
from stockade.api.sessions.interpreter import Interpreter
from stockade.api.sessions.shell import Shell

T = TypeVar("T")
_INTERRUPT_SECONDS = 5.0
"""A cell whose task is cancelled has this long to end before its session is closed."""


class _AsyncHandle:
    """A session in the hands of a task. Calls take turns, and leaving the context closes the session."""

    def __init__(self, inner: SessionHandle) -> None:
        self._inner = inner
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        await self.close()

    async def _call(self, call: Callable[[], T]) -> T:
        async with self._turn:
            return await in_thread(call, stop=self._stop)

    def _stop(self, ended: threading.Event) -> None:
        """Interrupt the cell whose task is cancelled. If it resists, close its session."""
        self._inner.interrupt()
        if not ended.wait(_INTERRUPT_SECONDS):
            self._inner.close()

    @property
    def alive(self) -> bool:
        """Whether another cell or command can run."""
        return self._inner.alive

    async def interrupt(self) -> bool:
        """Interrupt the cell or command that runs now, and return whether one runs. Call it in any task.

        A cell gets ``KeyboardInterrupt`` or its language's equivalent, and a command SIGINT.
        """
        return await in_thread(self._inner.interrupt)

    async def restart(self) -> None:
        """Start afresh, without the state of earlier calls. Every process that they left is killed."""
        await in_thread(self._inner.restart)

    async def close(self) -> None:
        """End the session and every process of it."""
        await in_thread(self._inner.close)


class AsyncInterpreter(_AsyncHandle):
    """``Interpreter`` for asyncio: runs cells one after another in one namespace. Made by ``AsyncSandbox.interpreter``.

    Cancelling the task that runs a cell interrupts the cell, and keeps what earlier cells made. If the cell resists for
    five seconds, the interpreter ends. ``on_event`` is called in another thread.
    """

    _inner: Interpreter

    @property
    def version(self) -> str:
        """The interpreter's version, as it says itself."""
        return self._inner.version

    run = forwarded(Interpreter.run)


class AsyncShell(_AsyncHandle):
    """``Shell`` for asyncio: runs commands one after another in one bash. Made by ``AsyncSandbox.shell``.

    Cancelling the task that runs a command interrupts the command. If it resists for five seconds, the shell ends.
    """

    _inner: Shell

    run = forwarded(Shell.run)


class AsyncFiles:
    """``Files`` for asyncio: reads and writes files in a living sandbox. ``AsyncSandbox.files`` has it.

    Cancelling a task ends its operation: a file is then written whole or not at all.
    """

    def __init__(self, inner: Files) -> None:
        self._inner = inner
        self._turn = asyncio.Lock()

    async def _call(self, call: Callable[[], T]) -> T:
        async with self._turn:
            return await in_thread(call, stop=lambda _ended: self._inner.close())

    read_bytes = forwarded(Files.read_bytes)
    read_text = forwarded(Files.read_text)
    write = forwarded(Files.write)
    list = forwarded(Files.list)
    stat = forwarded(Files.stat)
    exists = forwarded(Files.exists)
    make_dir = forwarded(Files.make_dir)
    rename = forwarded(Files.rename)
    remove = forwarded(Files.remove)
    close = forwarded(Files.close)
