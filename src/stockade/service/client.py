"""``Client`` runs code on a service, with the results that the library gives."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

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
    from stockade.service.living.remote import RemoteSandbox
    from stockade.service.living.remote_steps import RemoteSandboxOptions
    from stockade.service.streams import RemoteStream

T = TypeVar("T")


class Client:
    """Runs code on the service at ``url``, such as ``"http://127.0.0.1:8080"``, with one of its keys.

    Without ``api_key``, the variable ``STOCKADE_API_KEY`` holds the key. ``patience`` is for how many seconds a run is
    offered again to a service whose queue is full or that cannot be reached. An accepted run is waited for without a
    bound: its policy bounds it, once it begins. Several threads may use one client; a forked process makes its own.
    """

    @known_options
    def __init__(self, url: str, api_key: str | None = None, *, patience: float = 60.0) -> None:
        self._service = Service(url, api_key, patience)
        self._idle: list[http.client.HTTPConnection] = []
        """Connections that no thread uses now."""

    def __enter__(self) -> Client:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def __del__(self) -> None:
        """Close the connections."""
        if hasattr(self, "_idle"):
            self.close()

    def close(self) -> None:
        """Close the connections that no thread uses. A later call opens one again."""
        while self._idle:
            self._idle.pop().close()

    @known_options
    def run(self, source: str | bytes, **options: Unpack[RemoteRunOptions]) -> Result:
        """Run source text and return its result, as ``Runner.run`` does.

        Raises ``JobError`` and ``PolicyError`` as that does, and ``ServiceError`` if the service refuses the run for
        another reason, or cannot be reached. If an exception ends the wait, the run is cancelled.
        """
        return self._run(source_text(source), options)

    @known_options
    def run_command(self, argv: Sequence[str], **options: Unpack[RemoteOptions]) -> Result:
        """Run a command and return its result; see ``run``."""
        return self._run(command(argv), options)

    @known_options
    def stream(self, source: str | bytes, **options: Unpack[RemoteRunOptions]) -> RemoteStream:
        """Run source text and return its events while they happen, as ``Runner.stream`` does; see ``run``."""
        return self._streamed(source_text(source), options)

    @known_options
    def stream_command(self, argv: Sequence[str], **options: Unpack[RemoteOptions]) -> RemoteStream:
        """Run a command and return its events while they happen; see ``stream``."""
        return self._streamed(command(argv), options)

    def _run(self, what: dict[str, Any], options: Mapping[str, Any]) -> Result:
        return self._complete(self._service.run(what, options))

    def _streamed(self, what: dict[str, Any], options: Mapping[str, Any]) -> RemoteStream:
        from stockade.service.stream_steps import StreamSteps
        from stockade.service.streams import RemoteStream

        return RemoteStream(self, StreamSteps(self._service, what, options))

    @known_options
    def create_sandbox(self, **options: Unpack[RemoteSandboxOptions]) -> RemoteSandbox:
        """Start a sandbox that lives on the service, and return it. See ``Sandbox.create`` for the options.

        Raises ``JobError`` and ``PolicyError`` as that does, and ``ServiceError`` if this key has too many sandboxes,
        if the service cannot keep any, or cannot be reached.
        """
        from stockade.service.living.remote import RemoteSandbox
        from stockade.service.living.remote_steps import created

        return RemoteSandbox(self, self._complete(created(self._service, options)))

    def run_batch(self, runs: Sequence[RemoteRun]) -> list[Result]:
        """Run many sources and commands, and return their results in the same order.

        Each is a mapping with ``source`` or ``argv``, and with the options of ``run``. The service accepts all of them,
        up to a thousand, or none. Raises what ``run`` raises. If an exception ends the wait, those that have not ended
        are cancelled.
        """
        return self._complete(self._service.batch(runs))

    def _complete(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    found = self._do(step)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(found)
        except StopIteration as end:
            value: T = end.value
            return value

    def _do(self, step: Step) -> Answer | bytes | None:
        match step:
            case Pause():
                time.sleep(step.seconds)
                return None
            case Follow():
                return self._follow(step)
            case Line():
                line: bytes = step.lines.readline()
                return line
        return self._ask(step)

    def _follow(self, step: Follow) -> Answer:
        connection = self._connection(fresh=True)
        connection.timeout = step.seconds
        there = self._service
        try:
            connection.request("GET", there.base + step.path, headers={**there.headers, **step.headers})
            response = connection.getresponse()
            if response.status < 400:
                return Answer(response.status, _Lines(connection, response), None)
            with closing(connection):
                retry = response.headers["Retry-After"]
                return there.answer(Ask("GET", step.path), response.status, response.read(), retry)
        except BaseException:
            connection.close()
            raise

    def _connection(self, *, fresh: bool) -> http.client.HTTPConnection:
        if not fresh:
            with suppress(IndexError):
                return self._idle.pop()
        make: Any = http.client.HTTPSConnection if self._service.secure else http.client.HTTPConnection
        made: http.client.HTTPConnection = make(self._service.address)
        return made

    def _ask(self, ask: Ask) -> Answer:
        there = self._service
        connection = self._connection(fresh=ask.fresh)
        connection.timeout = ask.seconds
        if connection.sock is not None:
            connection.sock.settimeout(ask.seconds)
        try:
            connection.request(ask.method, there.base + ask.path, ask.body, {**there.headers, **ask.headers})
            response = connection.getresponse()
            text = response.read()
        except BaseException:
            connection.close()
            raise
        if ask.fresh:
            connection.close()
        else:
            self._idle.append(connection)
        return there.answer(ask, response.status, text, response.headers["Retry-After"])


class _Lines:
    """The lines of an answer, while they come."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection, self._response = connection, response

    def readline(self) -> bytes:
        """Return the next line; empty bytes at the end."""
        return self._response.readline(LONGEST_LINE)

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        self._connection.close()
