"""The calls of a client as steps without I/O, which the blocking client and the one for asyncio carry out."""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import ssl
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

from stockade.api.interface import PortableOptions, PortableRunOptions
from stockade.core.errors import FieldProblem, JobError, PolicyError, StockadeError
from stockade.core.strict_json import dumps
from stockade.runs.result import Result

T = TypeVar("T")
_WAIT_SECONDS = 20
_WAITING = f"wait={_WAIT_SECONDS}&format=full"
_CANCEL_SECONDS = 5.0
RETRIED = (429, 503)
_NO_TLS = "WRONG_VERSION_NUMBER"
"""OpenSSL's name for an answer that is not TLS at all."""
LIMITS = {"timeout": "wall_time", "cpu_time": "cpu_time", "memory": "memory", "processes": "processes"}
_VARIABLE = "STOCKADE_API_KEY"
TABLES = ("limits", "languages", "network", "on_output")
"""The fields of a policy that a request may set. The others show the host, or weaken the walls around the guest."""
LONGEST_LINE = 64 << 20
"""The bytes of the longest line of an answer that is read by lines."""


class ServiceError(StockadeError):
    """A service refused a request, or could not be reached. ``status`` is the HTTP status; 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class RemoteOptions(PortableOptions, total=False):
    """Options of a run on a service. ``stockade.run`` describes those of the same names.

    ``policy`` has the fields that a request may set: ``limits``, ``languages``, ``network`` and ``on_output``.
    ``timeout``, ``cpu_time``, ``memory`` and ``processes`` replace these limits of it.
    """

    policy: Mapping[str, Any] | None
    timeout: float | str | None
    cpu_time: float | str | None
    memory: int | str | None
    processes: int | str | None


class RemoteRunOptions(RemoteOptions, PortableRunOptions, total=False):
    """Options of a run of source text on a service: those of a command, and how to run the source."""


class RemoteRun(RemoteRunOptions, total=False):
    """A run of a batch: either ``source`` or ``argv``, and its options."""

    source: str | bytes
    argv: Sequence[str]


class Ask(NamedTuple):
    """Send a request. The step gets an ``Answer``, or what kept it from coming: ``OSError`` or ``HTTPException``."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    seconds: float = _WAIT_SECONDS + 30.0
    fresh: bool = False
    """Use a connection of its own: the service may close an idle one at any time, and this cannot be repeated."""
    raw: bool = False
    """Take the body of an answer without an error as it is."""


class Follow(NamedTuple):
    """Send a request, and keep the connection for the lines of its answer, which are the data of the ``Answer``."""

    path: str
    headers: Mapping[str, str]
    seconds: float


class Line(NamedTuple):
    """Wait for the next line of an answer: empty bytes at its end. Raises as ``Ask`` does."""

    lines: Any
    seconds: float


class Pause(NamedTuple):
    """Wait for some seconds."""

    seconds: float


class Answer(NamedTuple):
    """The status, the JSON (or the bytes, for ``Ask.raw``) and the ``Retry-After`` of an answer."""

    status: int
    data: Any
    retry: str | None


Step: TypeAlias = Ask | Pause | Follow | Line
Steps: TypeAlias = Generator[Step, Any, T]
"""Yields steps, gets what came of each, and returns what the caller wants."""


class Service:
    """A service as its clients know it: where it is, and the steps of each call."""

    def __init__(self, url: str, api_key: str | None, patience: float) -> None:
        """Raises ``JobError`` for an address or a key that cannot be one."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise JobError(f"url = {url!r:.80}: expected an address such as 'http://127.0.0.1:8080'")
        key = os.environ.get(_VARIABLE, "") if api_key is None else api_key
        if not key.isascii() or not key.isprintable() or not key:
            raise JobError(f"api_key: expected a key of the service; without the argument, {_VARIABLE} holds it")
        self.secure, self.host, self.port = parts.scheme == "https", parts.hostname, parts.port
        self.address, self.base = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self.patience = patience

    def answer(self, ask: Ask, status: int, text: bytes, retry: str | None) -> Answer:
        """Return the answer with the JSON ``text``. Raises ``ServiceError`` for any other text."""
        if ask.raw and status < 400:
            return Answer(status, text, retry)
        try:
            return Answer(status, json.loads(text), retry)
        except ValueError:
            raise ServiceError(f"{self.address}: the answer is not JSON: {text[:80]!r}", status) from None

    def run(self, what: dict[str, Any], options: Mapping[str, Any]) -> Steps[Result]:
        """Accept a run, and wait for its result. If an exception ends the wait, the run is cancelled."""
        return self.followed("runs", _WAITING, request_of(what, options), self.result)

    def batch(self, runs: Sequence[Mapping[str, Any]]) -> Steps[list[Result]]:
        """Accept runs together, and wait for their results. If an exception ends the wait, they are cancelled."""

        def results(found: Any) -> Steps[list[Result]]:
            got, after = [], 0
            while after is not None:
                page = yield from self._patiently("GET", f"{place_of('batches', found)}?format=full&after={after}")
                for run in page["runs"]:
                    got.append((yield from self.result(run)))
                after = page["next"]
            if len(got) != len(runs):
                raise ServiceError(f"{self.address}: it has forgotten {len(runs) - len(got)} results of the batch")
            return got

        return self.followed("batches", "", {"runs": [_one_of_batch(each) for each in runs]}, results)

    def result(self, found: Any) -> Steps[Result]:
        """Wait for the result of a run that was accepted."""
        while found["state"] != "finished":
            found = yield from self._patiently("GET", f"{place_of('runs', found)}?{_WAITING}")
        return Result.from_dict(found["result"])

    def followed(self, kind: str, query: str, request: Any, follow: Callable[[Any], Steps[T]]) -> Steps[T]:
        """Have something accepted, and ``follow`` it. If an exception ends that, what was accepted is cancelled."""
        body, found = dumps(request).encode(), None
        # The same word with each try, so that the service knows a request whose answer was lost.
        repeat = {"Idempotency-Key": secrets.token_hex(16)}
        try:
            found = yield from self._patiently("POST", f"/v1/{kind}?{query}", body, repeat)
            return (yield from follow(found))
        except BaseException as error:
            if found is None and isinstance(error, StockadeError):
                raise  # the service refused the request, or cannot be reached
            with suppress(StockadeError, OSError, http.client.HTTPException):
                if found is None:  # it may be accepted: the same word gives its id
                    found = (yield Ask("POST", f"/v1/{kind}", body, repeat, _CANCEL_SECONDS)).data
                yield Ask("DELETE", place_of(kind, found), seconds=_CANCEL_SECONDS)
            raise

    def _patiently(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> Steps[Any]:
        # The first retry follows at once, because the service may have closed a connection that was idle.
        until, pause = time.monotonic() + self.patience, 0.0
        while True:
            try:
                status, answer, retry = yield Ask(method, path, body, headers)
                problem = error_of(status, answer) if status >= 400 else None
            except (OSError, http.client.HTTPException) as error:
                status, retry, problem = 0, None, self.unreachable(error)
            if problem is None:
                return answer
            wait = float(retry) if retry and retry.isdigit() else pause
            if status not in (0, *RETRIED) or time.monotonic() + wait > until:
                raise problem
            yield Pause(wait)
            pause = min(2 * pause or 0.1, 5.0)

    def unreachable(self, error: Exception) -> ServiceError:
        """Return the error of an answer that did not come. Raises it if another try would meet the same."""
        if isinstance(error, ssl.SSLCertVerificationError):
            raise ServiceError(f"{self.address}: its certificate is refused: {error.verify_message}") from None
        if isinstance(error, ssl.SSLError) and error.reason == _NO_TLS:
            raise ServiceError(f"{self.address}: it answers without TLS; its URL begins with http://") from None
        return ServiceError(f"{self.address}: cannot be reached: {type(error).__name__}: {error}")


def place_of(kind: str, found: Any) -> str:
    """Return the path of something that the service has accepted. Raises ``ServiceError`` without its id."""
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        raise ServiceError(f"the service's answer has no id, where one of {kind} belongs")
    return f"/v1/{kind}/{quote(found['id'])}"


def source_text(text: str | bytes) -> dict[str, Any]:
    """Return what a request says of a source."""
    return {"source": content(text)}


def command(argv: Sequence[str]) -> dict[str, Any]:
    """Return what a request says of a command. Raises ``JobError`` for a text."""
    if isinstance(argv, str | bytes):
        raise JobError("a command is a list of words, such as ['sort', 'big.txt']; no text is split into words")
    return {"argv": [*argv]}


def _one_of_batch(run: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in run.items() if name not in ("source", "argv")}
    if ("source" in run) == ("argv" in run):
        raise JobError("a run of a batch has either source, a program's text, or argv, a command as a list of words")
    return request_of(source_text(run["source"]) if "source" in run else command(run["argv"]), options)


def request_of(what: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request for a run. Raises ``TypeError`` for an unknown option."""
    from stockade.api.options import check_names

    known = (*RemoteRunOptions.__annotations__,)
    if "argv" in what:
        known = (*(name for name in known if name not in ("language", "arguments")),)
    check_names(options, known)
    given = {name: value for name, value in options.items() if value is not None}
    limits = {LIMITS[name]: given.pop(name) for name in LIMITS if name in given}
    if "stdin" in given:
        given["stdin"] = content(given["stdin"])
    if "files" in given:
        given["files"] = {name: content(each) for name, each in given["files"].items()}
    for name in ("artifacts", "arguments"):
        if name in given:
            given[name] = [*given[name]]
    return {**what, **given, **({"limits": limits} if limits else {})}


def content(value: str | bytes) -> Any:
    """Return a content as requests have it."""
    return value if isinstance(value, str) else {"base64": base64.b64encode(value).decode()}


def error_of(status: int, answer: Any) -> StockadeError:
    """Return the error that the service's answer describes: the one that the library would have raised."""
    found = answer if isinstance(answer, dict) else {}
    message = str(found.get("message", f"HTTP status {status}"))
    match found.get("error"):
        case "PolicyError":
            with suppress(TypeError, KeyError):
                return PolicyError([FieldProblem(**each) for each in found["problems"]])
        case "JobError" | "RequestError":
            return JobError(message)
    return ServiceError(message, status)
