"""Interpreters, shells and files of a living sandbox, for asyncio. Each call runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from stockade.api.asynchronous.process import AsyncProcess
from stockade.api.asynchronous.threads import forwarded, in_thread, like
from stockade.api.sessions.files import Files
from stockade.api.sessions.handle import SessionHandle
from stockade.api.sessions.interpreter import Interpreter
from stockade.api.sessions.shell import Shell
from stockade.api.sessions.watch import PIECE, FileChange, Watch

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

    @like(Interpreter.fork)
    async def fork(self) -> AsyncInterpreter:
        """See ``Interpreter.fork``."""
        return AsyncInterpreter(await in_thread(self._inner.fork, undo=Interpreter.close))


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
    write_many = forwarded(Files.write_many)
    list = forwarded(Files.list)
    stat = forwarded(Files.stat)
    exists = forwarded(Files.exists)
    make_dir = forwarded(Files.make_dir)
    rename = forwarded(Files.rename)
    remove = forwarded(Files.remove)

    @like(Files.watch)
    async def watch(self, *args: Any, **options: Any) -> AsyncWatch:
        """See ``Files.watch``."""
        return AsyncWatch(await in_thread(partial(self._inner.watch, *args, **options), undo=Watch.close))

    close = forwarded(Files.close)


class AsyncWatch:
    """``Watch`` for asyncio: changes in a folder of a sandbox, in their order. ``AsyncFiles.watch`` makes it.

    Iterate over it with ``async for``, or await ``read``. Cancelling loses no change.
    """

    def __init__(self, inner: Watch) -> None:
        self._inner = inner
        self._process = AsyncProcess(inner._process)

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the watch."""
        await self.close()

    async def __aiter__(self) -> AsyncIterator[FileChange]:
        """Yield changes. Raises ``SessionEnded`` if the watch ends by itself."""
        while not self._inner.closed:
            yield await self.read()

    @like(Watch.read)
    async def read(self, timeout: float | None = None) -> FileChange:
        """See ``Watch.read``."""
        try:
            async with asyncio.timeout(timeout):
                while (change := self._inner._next()) is None:
                    self._inner._take(await self._process.stdout.read(PIECE))
        except TimeoutError:
            raise self._inner._late(timeout) from None
        return change

    @property
    def closed(self) -> bool:
        """Whether the caller has closed the watch."""
        return self._inner.closed

    async def close(self) -> None:
        """End the watch."""
        self._inner._end()
        await self._process.kill()
