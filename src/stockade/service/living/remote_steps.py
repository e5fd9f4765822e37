"""The calls of a sandbox on a service as steps without I/O, which both clients carry out."""

from __future__ import annotations

import errno
import functools
import http.client
import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote, urlencode

from stockade.api.options import check_names
from stockade.api.terminal import check_size
from stockade.core.errors import JobError, SandboxClosed
from stockade.core.hints import known_options
from stockade.core.strict_json import dumps
from stockade.runs.result import Result
from stockade.service.client_steps import (
    LIMITS,
    Ask,
    Pause,
    Service,
    ServiceError,
    Steps,
    command,
    content,
    error_of,
)

if TYPE_CHECKING:
    from stockade.api.sessions.records import CellResult

_Method = TypeVar("_Method", bound=Callable[..., Any])
_JSON: Mapping[str, str] = MappingProxyType({})
"""The client's own headers."""
Opened: TypeAlias = tuple[list[str], Any]
"""The words of a command, and the WebSocket of its terminal."""
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


class SandboxSteps:
    """A sandbox of a service as its client knows it: where it is, and the steps of each call."""

    def __init__(self, service: Service, found: Mapping[str, Any]) -> None:
        """``found`` is what the service says of the sandbox."""
        self._service = service
        self.id = str(found["id"])
        self._place = f"/v1/sandboxes/{quote(self.id)}"
        self._until = time.monotonic() + float(found["max_lifetime"])
        self.closed = False

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
    ) -> Steps[Result]:
        """Run a command to the end of its first process and return its verdict; see ``Sandbox.run_command``."""
        fields = {"cwd": cwd, "environment": environment, "timeout": timeout, "cpu_time": cpu_time, "output": output}
        given = {name: _plain(value) for name, value in fields.items() if value is not None}
        given |= command(argv) | ({} if stdin is None else {"stdin": content(stdin)})
        return Result.from_dict((yield from self.ask("POST", "/commands?format=full", given)))

    @known_options
    def terminal(
        self,
        argv: Sequence[str] = ("sh", "-i"),
        *,
        rows: int = 24,
        columns: int = 80,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        cpu_time: float | None = None,
        idle_timeout: float | None = None,
    ) -> Steps[Opened]:
        """Start a command at a terminal of its own, and return it at once; see ``Sandbox.terminal``.

        ``idle_timeout`` is how many seconds may pass without a byte in either direction: 600 without it. It needs
        ``pip install 'stockade[client]'``.
        """
        self._check_open()
        check_size(rows, columns)
        words: list[str] = command(argv)["argv"]
        options = {"cwd": cwd, "timeout": timeout, "cpu_time": cpu_time, "idle_timeout": idle_timeout}
        given = {"rows": rows, "columns": columns, "format": "full", **options}
        query = [("argv", word) for word in words] + [(k, v) for k, v in given.items() if v is not None]
        path = f"{self._place}/terminal?{urlencode(query)}"
        return words, (yield from asked(self._service, Ask("GET", path, seconds=_START_SECONDS, fresh=True)))

    def fork(self) -> Steps[SandboxSteps]:
        """Start a sandbox with copies of the files of this one, and return it."""
        return SandboxSteps(self._service, (yield from self.ask("POST", "/fork", {})))

    def close(self) -> Steps[None]:
        """End every process of the sandbox, and the sandbox. Its files are gone after that."""
        if self.closed:
            return
        with suppress(SandboxClosed):
            yield from asked(self._service, Ask("DELETE", self._place, seconds=_START_SECONDS))
        self.closed = True

    def ask(self, method: str, path: str, body: Any = b"", headers: Mapping[str, str] = _JSON) -> Steps[Any]:
        """Return the answer of a request about something in the sandbox. Raises ``SandboxClosed`` after ``close``."""
        self._check_open()
        data = body if isinstance(body, bytes) else dumps(body).encode()
        seconds = max(0.0, self._until - time.monotonic()) + _GRACE_SECONDS
        posts = method == "POST"
        ask = Ask(method, self._place + path, data, headers, seconds, fresh=posts, raw=not posts)
        return (yield from asked(self._service, ask))

    def _check_open(self) -> None:
        if self.closed:
            raise SandboxClosed("the sandbox was closed")


class FileSteps:
    """The steps of reading and writing files of a sandbox."""

    def __init__(self, sandbox: SandboxSteps) -> None:
        self._sandbox = sandbox

    def read_bytes(self, path: str | os.PathLike[str]) -> Steps[bytes]:
        """Return the content of a regular file, of as many bytes as the service takes in a request (8 MiB)."""
        return self._sandbox.ask("GET", _place(path))

    def read_text(self, path: str | os.PathLike[str]) -> Steps[str]:
        """Return the content of a regular file as UTF-8. Raises ``UnicodeDecodeError`` if it is not."""
        return (yield from self.read_bytes(path)).decode()

    def write(self, path: str | os.PathLike[str], data: str | bytes) -> Steps[None]:
        """Write a file whole, or leave what was there. Missing folders are made."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        yield from self._sandbox.ask("PUT", _place(path), content, _BYTES)

    def remove(self, path: str | os.PathLike[str], *, recursive: bool = False) -> Steps[None]:
        """Remove a file, a link, or an empty folder; with ``recursive``, a folder with all that is in it."""
        yield from self._sandbox.ask("DELETE", f"{_place(path)}?recursive={str(recursive).lower()}")


class InterpreterSteps:
    """The steps of running cells one after another in one namespace."""

    def __init__(self, sandbox: SandboxSteps, language: str) -> None:
        self._sandbox, self._place = sandbox, f"/interpreters/{quote(language, safe='')}"

    def run(self, source: str, *, timeout: float | None = None) -> Steps[CellResult]:
        """Run one cell and wait for its end. See ``Interpreter.run``."""
        from stockade.service.living.cells import loaded

        given = {"source": source} | ({} if timeout is None else {"timeout": timeout})
        return loaded((yield from self._sandbox.ask("POST", f"{self._place}/cells", given)))

    def restart(self) -> Steps[None]:
        """Start afresh, without the state of earlier cells. Every process that they left is killed."""
        yield from self._sandbox.ask("DELETE", self._place)


class Shown:
    """The fields of a sandbox on a service that need no request."""

    _steps: SandboxSteps

    def __repr__(self) -> str:
        """Return the id and the state in one line."""
        return f"<{type(self).__name__} {self.id}: {'closed' if self.closed else 'open'}>"

    @property
    def id(self) -> str:
        """The name of the sandbox on the service, and in its audit log."""
        return self._steps.id

    @property
    def closed(self) -> bool:
        """Whether the sandbox was closed. It may have ended by itself before, which the next call reports."""
        return self._steps.closed


def named_after(steps: Callable[..., Any], method: _Method, returns: str = "") -> _Method:
    """Give a method, which carries out ``steps``, their name, arguments, docstring, and type of the result.

    ``returns`` is the type if the method makes something else of the result.
    """
    signature = inspect.signature(steps)
    returns = returns or str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
    functools.update_wrapper(method, steps)
    method.__signature__ = signature.replace(return_annotation=returns)  # type: ignore[attr-defined]
    return method


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _place(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if not text:
        raise JobError("path = '': a path is a text that is not empty")
    return f"/files/{quote(text, safe='')}"


def created(service: Service, options: Mapping[str, Any]) -> Steps[SandboxSteps]:
    """Start a sandbox, and return it."""
    check_names(options, tuple(RemoteSandboxOptions.__annotations__))
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    named = {**LIMITS, "disk": "disk"}
    given["limits"] = {named[name]: given.pop(name) for name in named if name in given}
    ask = Ask("POST", "/v1/sandboxes", dumps(given).encode(), seconds=_START_SECONDS, fresh=True)
    return SandboxSteps(service, (yield from asked(service, ask)))


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
            problem, again = error_in(answer) or error_of(status, answer), status == 503 and retry is not None
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


def error_in(found: Any) -> Exception | None:
    """Return the error of the library that an answer describes; ``None`` if it is one of the service."""
    from stockade.api.sessions.files import FileRefused
    from stockade.api.sessions.link import SessionEnded
    from stockade.api.snapshots.stream import SnapshotRefused

    if not isinstance(found, dict):
        return None
    message, number = str(found.get("message", "")), getattr(errno, str(found.get("errno")), None)
    if isinstance(number, int):
        return OSError(number, os.strerror(number), found.get("path"))
    kinds = {each.__name__: each for each in (TimeoutError, SandboxClosed, SessionEnded, FileRefused, SnapshotRefused)}
    kind = kinds.get(str(found.get("error")))
    return None if kind is None else kind(message)
