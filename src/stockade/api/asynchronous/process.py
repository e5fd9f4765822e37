"""``AsyncProcess`` and ``AsyncTerminal``: commands of a living sandbox, followed by an event loop without a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from stockade.api.asynchronous.threads import like
from stockade.api.process import WINDOW, Process, ProcessInput, ProcessOutput, pieces
from stockade.api.terminal import GRACE_SECONDS, Terminal

if TYPE_CHECKING:
    from stockade.runs.result import Result

P = TypeVar("P", bound=Process)


class Pump:
    """Receives for one process whenever its socket is readable. The window of each stream bounds what it takes."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._error: Exception | None = None
        self._writes = self._over = False
        self._socket = process._connection.sock.dup()  # its number stays ours when the connection serves another run
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._socket, self._turn)
        self._look()
        process._send_queue.wake = self._wake
        process._stack.callback(self._on_end)
        if process.returncode is not None:
            self._stop()
        else:
            self._turn()

    async def until(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until ``is_done`` returns true or the process has ended; return what it returns."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not (is_done() or self._process._result is not None):
                    if self._error is not None:
                        raise self._error
                    await self._news.wait()
        return is_done()

    def _turn(self) -> None:
        process = self._process
        try:
            process._wait_for(lambda: False, 0.0)
            self._send_rest()
        except Exception as error:
            self._error = error
            self._stop()
        self._news.set()
        self._news = asyncio.Event()

    def _send_rest(self) -> None:
        """Have the loop call when the socket takes more, if something is left to send."""
        writes = bool(self._process._send_queue.exchange.outgoing) and not self._over
        if writes and not self._writes:
            self._loop.add_writer(self._socket, self._turn)
        elif self._writes and not writes:
            self._loop.remove_writer(self._socket)
        self._writes = writes

    def _look(self) -> None:
        """Check from time to time that the warden lives."""
        if self._timer is not None:
            self._process._liveness.look()
        self._timer = self._loop.call_later(self._process._liveness.seconds, self._look)

    def _wake(self) -> None:
        self._process._wakeup.ring()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._turn_if_open)

    def _turn_if_open(self) -> None:
        if not self._over:
            self._turn()

    def _on_end(self) -> None:
        """Take notice, in any thread, that the process has ended."""
        try:
            self._loop.call_soon_threadsafe(self._stop)
        except RuntimeError:  # the loop is closed, so nothing watches the socket
            self._socket.close()

    def _stop(self) -> None:
        if self._over:
            return
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._news.set()


class AsyncProcess(Generic[P]):
    """``Process`` for asyncio: a running command of a sandbox. ``AsyncSandbox.start_command`` makes it.

    Leaving the context ends the process with everything that it started. Cancelling a task that waits for the process
    leaves the process running.
    """

    def __init__(self, inner: P) -> None:
        self._inner = inner
        self._pump = Pump(inner)
        self.argv = inner.argv
        self.stdin = AsyncProcessInput(inner.stdin, self._pump)
        self.stdout = AsyncProcessOutput(inner.stdout, self._pump)
        self.stderr = AsyncProcessOutput(inner.stderr, self._pump)

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process if it has not ended."""
        await self.kill()

    @property
    def pid(self) -> int:
        """The number of the first process, as the sandbox sees it; 0 if it could not start."""
        return self._inner.pid

    @property
    def returncode(self) -> int | None:
        """The exit status; minus a signal's number if a signal ended it, and ``None`` if no end is known yet."""
        return self._inner.returncode

    def poll(self) -> int | None:
        """Look whether the process has ended, and return ``returncode``."""
        return self._inner.poll()

    @like(Process.wait)
    async def wait(self, timeout: float | None = None) -> Result:
        """See ``Process.wait``."""
        if not await self._pump.until(lambda: self._inner._result is not None, timeout):
            raise TimeoutError(f"{self.argv[0]} has not ended within {timeout:g} s")
        return self._inner.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal to the first process; SIGINT goes to its whole process group, as with Ctrl-C."""
        self._inner.send_signal(number)

    def terminate(self) -> None:
        """Send SIGTERM to the first process."""
        self._inner.terminate()

    @like(Process.kill)
    async def kill(self) -> None:
        """See ``Process.kill``."""
        self._inner._cancel()
        await self.wait()


class AsyncProcessInput:
    """Standard input of a process, for asyncio. One task may write at a time."""

    def __init__(self, inner: ProcessInput, pump: Pump) -> None:
        self._inner, self._pump = inner, pump

    @like(ProcessInput.write)
    async def write(self, data: bytes, timeout: float | None = None) -> None:
        """See ``ProcessInput.write``."""
        await self._pump.until(self._inner._takes_more, timeout)
        self._inner.write(data, 0.0)

    def close(self) -> None:
        """End standard input after everything that was written."""
        self._inner.close()


class AsyncProcessOutput:
    """Standard output or error of a process, as bytes, for asyncio. One task may read at a time."""

    def __init__(self, inner: ProcessOutput, pump: Pump) -> None:
        self._inner, self._pump = inner, pump

    @like(ProcessOutput.read)
    async def read(self, size: int = -1, timeout: float | None = None) -> bytes:
        """See ``ProcessOutput.read``."""
        if size >= 0:
            await self._pump.until(lambda: self._inner._has(min(size, 1)), timeout)
            return self._inner.read(size, 0.0)
        parts = []
        async with asyncio.timeout(timeout):
            while part := await self.read(WINDOW):
                parts.append(part)
        return b"".join(parts)

    @like(ProcessOutput.read_exactly)
    async def read_exactly(self, size: int, timeout: float | None = None) -> bytes:
        """See ``ProcessOutput.read_exactly``."""
        parts = []
        async with asyncio.timeout(timeout):
            for wanted in pieces(size):
                await self._pump.until(partial(self._inner._has, wanted), None)
                parts.append(self._inner.read_exactly(wanted, 0.0))
        return b"".join(parts)

    @like(ProcessOutput.readline)
    async def readline(self, timeout: float | None = None) -> bytes:
        """See ``ProcessOutput.readline``."""
        await self._pump.until(self._inner._has_line, timeout)
        return self._inner.readline(0.0)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the lines up to the end."""
        while line := await self.readline():
            yield line


class AsyncTerminal(AsyncProcess[Terminal]):
    """``Terminal`` for asyncio: a running command at a terminal. ``AsyncSandbox.terminal`` makes it.

    Leaving the context hangs up.
    """

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up."""
        await self.close()

    @like(Terminal.read)
    async def read(self, size: int = 1 << 16, timeout: float | None = None) -> bytes:
        """See ``Terminal.read``."""
        return await self.stdout.read(size, timeout)

    @like(Terminal.write)
    async def write(self, data: bytes, timeout: float | None = None) -> None:
        """See ``Terminal.write``."""
        await self.stdin.write(data, timeout)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal; its foreground processes get SIGWINCH."""
        self._inner.resize(rows, columns)

    @like(Terminal.close)
    async def close(self) -> None:
        """See ``Terminal.close``."""
        self._inner._ask("hang_up")
        try:
            await self.wait(GRACE_SECONDS)
        except TimeoutError:
            await self.kill()
