"""``RemoteSandbox``: a sandbox that lives on a service, with the methods of ``Sandbox``."""

from __future__ import annotations

import errno
import http.client
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import quote

from stockade.api.options import check_names
from stockade.core.errors import JobError, SandboxClosed
from stockade.core.hints import known_options
from stockade.core.strict_json import dumps
from stockade.runs.result import Result
from stockade.service.client_steps import LIMITS, Ask, Pause, Service, ServiceError, Steps, content, error_of

if TYPE_CHECKING:
    from stockade.api.sessions.records import CellResult
    from stockade.service.client import Client

_JSON: Mapping[str, str] = MappingProxyType({})
"""The client's own headers."""
_BYTES = {"Content-Type": "application/octet-stream"}
_START_SECONDS = 150.0
_GRACE_SECONDS = 90.0
"""Longer than the service takes to say that there was no answer."""


class RemoteSandboxOptions(TypedDict, total=False):
    """Options of a sandbox on a service. ``Sandbox.create`` describes those of the same names.

    ``policy`` has the fields that a request may set; the limits replace those of it. The service's own bound holds for
    ``max_lifetime``.
    """

    environment: Mapping[str, str] | None
    labels: Mapping[str, str] | None
    idle_timeout: float | None
    max_lifetime: float | None
    policy: Mapping[str, Any] | None
    timeout: float | str | None
    cpu_time: float | str | None
    memory: int | str | None
    processes: int | str | None
    disk: int | str | None


class RemoteSandbox:
    """A sandbox that lives on a service. ``Client.create_sandbox`` makes it; use it as a context manager.

    Its methods are those of ``Sandbox`` with the same arguments, results and errors. They also raise ``ServiceError``.
    A command or cell whose answer is lost is not repeated: it may have run.
    """

    def __init__(self, client: Client, found: Mapping[str, Any]) -> None:
        """Use ``Client.create_sandbox``."""
        self._client = client
        self.id = str(found["id"])
        """The name of the sandbox on the service, and in its audit log."""
        self._place = f"/v1/sandboxes/{quote(self.id)}"
        self._until = time.monotonic() + float(found["max_lifetime"])
        self._closed = False
        self.files = RemoteFiles(self)
        """The files of the sandbox."""

    def __enter__(self) -> RemoteSandbox:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sandbox."""
        self.close()

    def __repr__(self) -> str:
        """Return the id and the state in one line."""
        return f"<RemoteSandbox {self.id}: {'closed' if self._closed else 'open'}>"

    @known_options
    def run_command(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        cpu_time: float | None = None,
        output: int | str | None = None,
    ) -> Result:
        """Run a command to the end of its first process and return its verdict; see ``Sandbox.run_command``."""
        if isinstance(argv, str | bytes):
            raise JobError("a command is a list of words, such as ['sort', 'big.txt']; no text is split into words")
        fields = {"cwd": cwd, "environment": environment, "timeout": timeout, "cpu_time": cpu_time, "output": output}
        given = {name: _plain(value) for name, value in fields.items() if value is not None}
        given |= {"argv": [*argv]} | ({} if stdin is None else {"stdin": content(stdin)})
        return Result.from_dict(self._ask("POST", "/commands?format=full", given))

    def interpreter(self, language: str = "python") -> RemoteInterpreter:
        """Return the interpreter of a language. It starts at its first cell; all callers share one."""
        return RemoteInterpreter(self, language)

    @property
    def closed(self) -> bool:
        """Whether the sandbox was closed. It may have ended by itself before, which the next call reports."""
        return self._closed

    def close(self) -> None:
        """End every process of the sandbox, and the sandbox. Its files are gone after that."""
        if self._closed:
            return
        with suppress(SandboxClosed):
            self._client._complete(asked(self._client._service, Ask("DELETE", self._place, seconds=_START_SECONDS)))
        self._closed = True

    def _ask(self, method: str, path: str, body: Any = b"", headers: Mapping[str, str] = _JSON) -> Any:
        if self._closed:
            raise SandboxClosed("the sandbox was closed")
        data = body if isinstance(body, bytes) else dumps(body).encode()
        seconds = max(0.0, self._until - time.monotonic()) + _GRACE_SECONDS
        posts = method == "POST"
        ask = Ask(method, self._place + path, data, headers, seconds, fresh=posts, raw=not posts)
        return self._client._complete(asked(self._client._service, ask))


class RemoteFiles:
    """Reads and writes files of a sandbox on a service: ``RemoteSandbox.files``. See ``Files``."""

    def __init__(self, sandbox: RemoteSandbox) -> None:
        self._sandbox = sandbox

    def read_bytes(self, path: str | os.PathLike[str]) -> bytes:
        """Return the content of a regular file, of as many bytes as the service takes in a request (8 MiB)."""
        content: bytes = self._sandbox._ask("GET", _place(path))
        return content

    def read_text(self, path: str | os.PathLike[str]) -> str:
        """Return the content of a regular file as UTF-8. Raises ``UnicodeDecodeError`` if it is not."""
        return self.read_bytes(path).decode()

    def write(self, path: str | os.PathLike[str], data: str | bytes) -> None:
        """Write a file whole, or leave what was there. Missing folders are made."""
        self._sandbox._ask("PUT", _place(path), data.encode() if isinstance(data, str) else bytes(data), _BYTES)

    def remove(self, path: str | os.PathLike[str], *, recursive: bool = False) -> None:
        """Remove a file, a link, or an empty folder; with ``recursive``, a folder with all that is in it."""
        self._sandbox._ask("DELETE", f"{_place(path)}?recursive={str(recursive).lower()}")


class RemoteInterpreter:
    """Runs cells one after another in one namespace, on a service. ``RemoteSandbox.interpreter`` makes it."""

    def __init__(self, sandbox: RemoteSandbox, language: str) -> None:
        self._sandbox, self._place = sandbox, f"/interpreters/{quote(language, safe='')}"

    def run(self, source: str, *, timeout: float | None = None) -> CellResult:
        """Run one cell and wait for its end. See ``Interpreter.run``."""
        from stockade.service.living.cells import loaded

        given = {"source": source} | ({} if timeout is None else {"timeout": timeout})
        return loaded(self._sandbox._ask("POST", f"{self._place}/cells", given))

    def restart(self) -> None:
        """Start afresh, without the state of earlier cells. Every process that they left is killed."""
        self._sandbox._ask("DELETE", self._place)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _place(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if not text:
        raise JobError("path = '': a path is a text that is not empty")
    return f"/files/{quote(text, safe='')}"


def created(service: Service, options: Mapping[str, Any]) -> Steps[dict[str, Any]]:
    """Start a sandbox, and return what the service says of it."""
    check_names(options, tuple(RemoteSandboxOptions.__annotations__))
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    named = {**LIMITS, "disk": "disk"}
    given["limits"] = {named[name]: given.pop(name) for name in named if name in given}
    ask = Ask("POST", "/v1/sandboxes", dumps(given).encode(), seconds=_START_SECONDS, fresh=True)
    found: dict[str, Any] = yield from asked(service, ask)
    return found


def asked(service: Service, ask: Ask) -> Steps[Any]:
    """Return the answer of a request about a sandbox, or raise its error.

    The request is repeated if the service did not begin with it. Otherwise, it is repeated without an answer only, and
    not if it is a POST.
    """
    until, pause = time.monotonic() + service.patience, 0.0
    while True:
        try:
            status, answer, retry = yield ask
            if status < 400:
                return answer
            problem, again = _raised(answer) or error_of(status, answer), status == 503 and retry is not None
        except (OSError, http.client.HTTPException) as error:
            problem, retry, again = service.unreachable(error), None, True
            if ask.fresh and not isinstance(error, ConnectionRefusedError):
                reason = f"the answer is lost, and the service may have done it: {type(error).__name__}: {error}"
                problem, again = ServiceError(f"{service.address}: {reason}"), False
        wait = float(retry) if retry and retry.isdigit() else pause
        if not again or time.monotonic() + wait > until:
            raise problem
        yield Pause(wait)
        pause = min(2 * pause or 0.1, 5.0)


def _raised(found: Any) -> Exception | None:
    """Return the error of the library that an answer describes; ``None`` if it is one of the service."""
    from stockade.api.sessions.files import FileRefused
    from stockade.api.sessions.link import SessionEnded

    if not isinstance(found, dict):
        return None
    message, number = str(found.get("message", "")), getattr(errno, str(found.get("errno")), None)
    if isinstance(number, int):
        return OSError(number, os.strerror(number), found.get("path"))
    kinds = {each.__name__: each for each in (TimeoutError, SandboxClosed, SessionEnded, FileRefused)}
    kind = kinds.get(str(found.get("error")))
    return None if kind is None else kind(message)
