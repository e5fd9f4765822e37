"""``AsyncRemoteTerminal``: a command of a sandbox on a service at a terminal, over a WebSocket."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal as signals
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from stockade.api.process import WINDOW, check_signal, returncode_of
from stockade.api.terminal import check_size
from stockade.runs.errors import ResultFormatError
from stockade.runs.result import Result
from stockade.service.async_client import completed
from stockade.service.client_steps import Answer, Ask, Pause, Service, ServiceError, Step, Steps
from stockade.service.living.remote_steps import Opened

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install it with: pip install 'stockade[client]'", name=error.name) from error

_PIECE = 1 << 15
_END_SECONDS = 10.0
"""How long the service may take to end the command, which gets a second."""
_PONG_SECONDS = 90.0
"""Longer than the service keeps what is typed, while it reads nothing."""


class AsyncRemoteTerminal:
    """``RemoteTerminal`` for asyncio. ``AsyncRemoteSandbox.terminal`` makes it. Leaving the context hangs up."""

    def __init__(self, argv: Sequence[str], connection: ClientConnection) -> None:
        """Use ``AsyncRemoteSandbox.terminal``."""
        self.argv = tuple(argv)
        self._connection = connection
        self._output = bytearray()
        self._result: Result | None = None
        self._failure: ServiceError | None = None
        self._outgoing: deque[bytes | str] = deque()
        self._typed = 0
        """Bytes in ``_outgoing``."""
        self._leaving = self._over = False
        self._news = asyncio.Event()
        self._tasks = [asyncio.create_task(each) for each in (self._receive(), self._send())]

    async def __aenter__(self) -> AsyncRemoteTerminal:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up."""
        await self.close()

    @property
    def returncode(self) -> int | None:
        """The exit status; minus a signal's number if a signal ended it, and ``None`` if no end is known yet."""
        return returncode_of(self._result)

    def poll(self) -> int | None:
        """Return ``returncode``."""
        return self.returncode

    async def read(self, size: int = 1 << 16, timeout: float | None = None) -> bytes:
        """Return 1 to ``size`` bytes of the screen; see ``RemoteTerminal.read``."""
        if not await self._until(lambda: bool(self._output), timeout) and not self._over:
            raise TimeoutError(f"{self.argv[0]} has not written that within {timeout:g} s")
        if self._failure is not None and not self._output:
            raise self._failure
        data = bytes(self._output[:size])
        del self._output[:size]
        self._tell()
        return data

    async def write(self, data: bytes, timeout: float | None = None) -> None:
        """Type ``data``; see ``RemoteTerminal.write``."""
        if not await self._until(lambda: self._typed < WINDOW, timeout) and not self._over:
            raise TimeoutError(f"{self.argv[0]} has not read its standard input within {timeout:g} s")
        if self._over or self._leaving:
            raise BrokenPipeError(f"{self.argv[0]} has ended, so it reads no standard input")
        data = bytes(memoryview(data))  # a text would be a message of another kind
        self._outgoing.extend(data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
        self._typed += len(data)
        self._tell()

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal; its foreground processes get SIGWINCH."""
        check_size(rows, columns)
        self._ask({"rows": rows, "columns": columns})

    def send_signal(self, number: int) -> None:
        """Send a signal to the first process; SIGINT goes to its whole process group, as with Ctrl-C."""
        check_signal(number)
        self._ask({"signal": int(number)})

    def terminate(self) -> None:
        """Send SIGTERM to the first process."""
        self.send_signal(signals.SIGTERM)

    async def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end and return the verdict; see ``RemoteTerminal.wait``."""
        if not await self._until(lambda: self._result is not None, timeout) and not self._over:
            raise TimeoutError(f"{self.argv[0]} has not ended within {timeout:g} s")
        if self._result is None:
            raise self._failure or ServiceError("the connection to the terminal was closed")
        return self._result

    async def close(self) -> None:
        """Hang up; see ``RemoteTerminal.close``."""
        await self._end("hang_up")

    async def kill(self) -> None:
        """End the command with everything that it started, and wait for that."""
        await self._end("kill")

    async def _end(self, how: str) -> None:
        """End the command, and close the connection, at which the service hangs up in any case."""
        self._leaving = True
        self._outgoing.clear()  # what was typed must not delay the end
        self._ask({"end": how})
        await self._until(lambda: self._result is not None, _END_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ask(self, what: dict[str, Any]) -> None:
        self._outgoing.append(json.dumps(what))
        self._tell()

    async def _receive(self) -> None:
        """Take what the service sends, as far as the window has room."""
        try:
            while self._result is None:
                await self._until(lambda: len(self._output) < WINDOW or self._leaving, None)
                message = await self._connection.recv()
                if isinstance(message, str):
                    self._result = Result.from_dict(json.loads(message))
                elif len(self._output) < WINDOW:
                    self._output += message
                self._tell()
        except ConnectionClosed as closed:
            reason = closed.rcvd.reason if closed.rcvd is not None else "the connection was lost"
            self._failure = ServiceError(f"the terminal ended without a result: {reason}")
        except (ValueError, ResultFormatError) as error:
            self._failure = ServiceError(f"the terminal ended, and its result makes no sense: {error}")
        finally:
            self._over = True
            self._connection.transport.abort()
            self._tell()

    async def _send(self) -> None:
        with suppress(ConnectionClosed):
            while await self._until(lambda: bool(self._outgoing), None):
                message = self._outgoing.popleft()
                await self._connection.send(message)
                self._typed = sum(len(each) for each in self._outgoing if isinstance(each, bytes))
                self._tell()

    async def _until(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until ``is_done`` returns true or the terminal has ended; return what it returns."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not (is_done() or self._over):
                    await self._news.wait()
        return is_done()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


async def opened(service: Service, steps: Steps[Opened]) -> AsyncRemoteTerminal:
    """Return the terminal whose WebSocket ``steps`` open."""

    async def do(step: Step) -> Answer | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        assert isinstance(step, Ask)
        scheme = "wss" if service.secure else "ws"
        address = f"{scheme}://{service.address}{service.base}{step.path}"
        headers = {"Authorization": service.headers["Authorization"]}
        try:
            connecting = _Connect(
                address, additional_headers=headers, user_agent_header=None, proxy=None, compression=None,
                open_timeout=step.seconds, ping_timeout=_PONG_SECONDS,
            )  # fmt: skip
            return Answer(101, await connecting, None)
        except InvalidStatus as refused:
            answer = refused.response
            return service.answer(
                step, answer.status_code, bytes(answer.body or b""), answer.headers.get("Retry-After")
            )
        except InvalidHandshake as error:
            raise http.client.HTTPException(str(error)) from None

    return AsyncRemoteTerminal(*await completed(steps, do))


class _Connect(connect):
    """A connection to one address: it follows no redirection, which would get the key."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Refuse it."""
        return exc
