"""``RemoteTerminal``: ``AsyncRemoteTerminal`` for callers without asyncio, by an event loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from stockade.runs.result import Result
from stockade.service.client_steps import Service, Steps
from stockade.service.living.async_remote_terminal import AsyncRemoteTerminal, opened
from stockade.service.living.remote_steps import Opened

T = TypeVar("T")


class RemoteTerminal:
    """A running command of a sandbox on a service at a terminal. ``RemoteSandbox.terminal`` makes it.

    It has the methods of ``Terminal``: raw bytes in and out, a size, and a hang-up. Output is live: a command whose
    output nobody reads waits. Several threads may use it. Leaving the context hangs up.
    """

    def __init__(self, service: Service, steps: Steps[Opened]) -> None:
        """Use ``RemoteSandbox.terminal``."""
        self._loop = _LoopThread()
        self._inner: AsyncRemoteTerminal = self._loop.call(opened(service, steps))
        self.argv = self._inner.argv

    def __enter__(self) -> RemoteTerminal:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up."""
        self.close()

    def __del__(self) -> None:
        """End the thread."""
        if hasattr(self, "_loop"):
            self._loop.close()

    @property
    def returncode(self) -> int | None:
        """The exit status; minus a signal's number if a signal ended it, and ``None`` if no end is known yet."""
        return self._inner.returncode

    def poll(self) -> int | None:
        """Return ``returncode``."""
        return self.returncode

    def read(self, size: int = 1 << 16, timeout: float | None = None) -> bytes:
        """Return 1 to ``size`` bytes of the screen as soon as any are there, and empty bytes at the end.

        Raises ``TimeoutError`` after ``timeout`` seconds, and ``ServiceError`` if the terminal ended without a result.
        """
        return self._loop.call(self._inner.read(size, timeout))

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """Type ``data``. Raises ``BrokenPipeError`` if the command has ended."""
        self._loop.call(self._inner.write(data, timeout))

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal; its foreground processes get SIGWINCH."""
        self._loop.call(_called(self._inner.resize, rows, columns))

    def send_signal(self, number: int) -> None:
        """Send a signal to the first process; SIGINT goes to its whole process group, as with Ctrl-C."""
        self._loop.call(_called(self._inner.send_signal, number))

    def terminate(self) -> None:
        """Send SIGTERM to the first process."""
        self._loop.call(_called(self._inner.terminate))

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end and return the verdict, which holds no output.

        Raises ``TimeoutError`` after ``timeout`` seconds, and ``ServiceError`` if the terminal ended without a result:
        its sandbox has ended, no byte came or went for ``idle_timeout``, or the connection was lost.
        """
        return self._loop.call(self._inner.wait(timeout))

    def close(self) -> None:
        """Hang up: the command and its foreground processes get SIGHUP. What does not end within a second is killed."""
        self._loop.call(self._inner.close())

    def kill(self) -> None:
        """End the command with everything that it started, and wait for that."""
        self._loop.call(self._inner.kill())


async def _called(function: Callable[..., None], *values: Any) -> None:
    """Call a function in the thread of the loop."""
    function(*values)


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop, self._over = asyncio.new_event_loop(), asyncio.Event()
        threading.Thread(target=_run, args=(self._loop, self._over), daemon=True, name="stockade terminal").start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work in the thread, and wait for it. An exception here, such as Ctrl-C, cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._over.set)


def _run(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(over.wait())
