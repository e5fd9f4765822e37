"""``AsyncClient``: ``Client`` for asyncio, over asyncio's own connections."""

from __future__ import annotations

import asyncio
import http.client
import io
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

from stockade.core.hints import known_options
from stockade.runs.result import Result
from stockade.service.client_steps import (
    LONGEST_LINE,
    Answer,
    Ask,
    Follow,
    Line,
    Pause,
    RemoteOptions,
    RemoteRun,
    RemoteRunOptions,
    Service,
    Step,
    Steps,
    command,
    source_text,
)

if TYPE_CHECKING:
    from stockade.service.living.async_remote import AsyncRemoteSandbox
    from stockade.service.living.remote_steps import RemoteSandboxOptions
    from stockade.service.streams import AsyncRemoteStream

T = TypeVar("T")
_Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AsyncClient:
    """``Client`` for asyncio: many runs at a time on one thread. Cancelling the task cancels the run."""

    @known_options
    def __init__(self, url: str, api_key: str | None = None, *, patience: float = 60.0) -> None:
        self._service = Service(url, api_key, patience)
        self._tls = ssl.create_default_context() if self._service.secure else None
        self._idle: list[_Connection] = []
        """Connections of ``_loop`` that no task uses now."""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> AsyncClient:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections that no task uses. A later call opens one again."""
        for _, writer in self._free():
            writer.close()
        self._idle.clear()

    @known_options
    async def run(self, source: str | bytes, **options: Unpack[RemoteRunOptions]) -> Result:
        """Run source text and return its result; see ``Client.run``."""
        return await self._complete(self._service.run(source_text(source), options))

    @known_options
    async def run_command(self, argv: Sequence[str], **options: Unpack[RemoteOptions]) -> Result:
        """Run a command and return its result; see ``Client.run``."""
        return await self._complete(self._service.run(command(argv), options))

    @known_options
    def stream(self, source: str | bytes, **options: Unpack[RemoteRunOptions]) -> AsyncRemoteStream:
        """Run source text and return its events while they happen; see ``Client.stream``."""
        return self._streamed(source_text(source), options)

    @known_options
    def stream_command(self, argv: Sequence[str], **options: Unpack[RemoteOptions]) -> AsyncRemoteStream:
        """Run a command and return its events while they happen; see ``Client.stream``."""
        return self._streamed(command(argv), options)

    def _streamed(self, what: dict[str, Any], options: Mapping[str, Any]) -> AsyncRemoteStream:
        from stockade.service.stream_steps import StreamSteps
        from stockade.service.streams import AsyncRemoteStream

        return AsyncRemoteStream(self, StreamSteps(self._service, what, options))

    @known_options
    async def create_sandbox(self, **options: Unpack[RemoteSandboxOptions]) -> AsyncRemoteSandbox:
        """Start a sandbox that lives on the service, and return it; see ``Client.create_sandbox``."""
        from stockade.service.living.async_remote import AsyncRemoteSandbox
        from stockade.service.living.remote_steps import created

        return AsyncRemoteSandbox(self, await self._complete(created(self._service, options)))

    async def run_batch(self, runs: Sequence[RemoteRun]) -> list[Result]:
        """Run many sources and commands, and return their results in the same order; see ``Client.run_batch``."""
        return await self._complete(self._service.batch(runs))

    async def _complete(self, steps: Steps[T]) -> T:
        return await completed(steps, self._do)

    async def _do(self, step: Step) -> Answer | bytes | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        async with asyncio.timeout(step.seconds):
            match step:
                case Follow():
                    return await self._follow(step)
                case Line():
                    line: bytes = await step.lines.readline()
                    return line
            return await self._ask(step)

    async def _follow(self, step: Follow) -> Answer:
        ask = Ask("GET", step.path, headers=step.headers)
        reader, writer = await self._opened()
        try:
            writer.write(self._sent(ask))
            await writer.drain()
            status, headers = await _head(reader)
            if status < 400:
                return Answer(status, _Lines(reader, writer, headers), None)
            text = await _body(reader, headers)
        except BaseException:
            writer.transport.abort()
            raise
        writer.close()
        return self._service.answer(ask, status, text, headers["Retry-After"])

    async def _ask(self, ask: Ask) -> Answer:
        there = self._service
        reader, writer = self._free().pop() if self._free() and not ask.fresh else await self._opened()
        try:
            writer.write(self._sent(ask))
            await writer.drain()
            status, headers, text = await _answer(reader)
        except BaseException:
            writer.transport.abort()
            raise
        if ask.fresh or headers.get("Connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append((reader, writer))
        return there.answer(ask, status, text, headers["Retry-After"])

    def _free(self) -> list[_Connection]:
        """Return the idle connections: none for a loop that opened none, since they end with their loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._idle = loop, []
        return self._idle

    async def _opened(self) -> _Connection:
        there = self._service
        port = there.port or (443 if there.secure else 80)
        return await asyncio.open_connection(there.host, port, ssl=self._tls)

    def _sent(self, ask: Ask) -> bytes:
        """Return a request as one piece, so that the service wakes up once for it."""
        body = ask.body or b""
        headers = {"Host": self._service.address, "Content-Length": len(body), **self._service.headers, **ask.headers}
        lines = [f"{ask.method} {self._service.base}{ask.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join((*lines, "", "")).encode("latin-1") + body


async def completed(steps: Steps[T], do: Callable[[Step], Awaitable[Answer | bytes | None]]) -> T:
    """Return what ``steps`` return. ``do`` carries out each of them."""
    try:
        step = next(steps)
        while True:
            try:
                found = await do(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(found)
    except StopIteration as end:
        value: T = end.value
        return value


async def _answer(reader: asyncio.StreamReader) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Read the status, headers and body of an answer. Raises ``HTTPException`` for a malformed or incomplete one."""
    status, headers = await _head(reader)
    return status, headers, await _body(reader, headers)


async def _head(reader: asyncio.StreamReader) -> tuple[int, http.client.HTTPMessage]:
    """Read the status and the headers of an answer. Raises ``HTTPException``."""
    with _complete_answer():
        line, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
        version, status = line.split(maxsplit=2)[:2]
        if not version.startswith(b"HTTP/1."):
            raise http.client.BadStatusLine(repr(line[:80]))
        return int(status), http.client.parse_headers(io.BytesIO(rest))


async def _body(reader: asyncio.StreamReader, headers: http.client.HTTPMessage) -> bytes:
    """Read the body of an answer. Raises ``HTTPException``."""
    with _complete_answer():
        if _is_chunked(headers):
            chunks = []
            while chunk := await _chunk(reader):
                chunks.append(chunk)
            return b"".join(chunks)
        size = headers.get("Content-Length")
        return await reader.read() if size is None else await reader.readexactly(int(size))


@contextmanager
def _complete_answer() -> Iterator[None]:
    try:
        yield
    except (EOFError, ValueError, asyncio.LimitOverrunError) as error:
        raise http.client.HTTPException(f"no whole answer of HTTP/1.1 came: {error}") from None


def _is_chunked(headers: http.client.HTTPMessage) -> bool:
    return headers.get("Transfer-Encoding", "").lower() == "chunked"


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    """Read a chunk of a body; the last one is empty."""
    if size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        chunk = await reader.readexactly(size)
        await reader.readexactly(2)
        return chunk
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # a trailer
    return b""


class _Lines:
    """The lines of an answer, while they come."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: http.client.HTTPMessage
    ) -> None:
        self._reader, self._writer = reader, writer
        self._chunked = _is_chunked(headers)
        self._rest = bytearray()

    async def readline(self) -> bytes:
        """Return the next line; one without its newline is the last, or too long. Raises ``HTTPException``."""
        at = 0
        while not (end := self._rest.find(b"\n", at) + 1):
            at = len(self._rest)
            with _complete_answer():
                piece = await (_chunk(self._reader) if self._chunked else self._reader.read(1 << 16))
            self._rest += piece
            if not piece or len(self._rest) > LONGEST_LINE:
                end = len(self._rest)
                break
        line = bytes(self._rest[:end])
        del self._rest[:end]
        return line

    def close(self) -> None:
        """Close the connection."""
        with suppress(RuntimeError):  # the loop is closed, and the connection with it
            self._writer.transport.abort()
