"""``Client`` runs code on a service, with the results that the library gives."""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TypedDict, Unpack
from urllib.parse import quote, urlsplit

from stockade.core.errors import FieldProblem, JobError, PolicyError, StockadeError
from stockade.core.hints import known_options
from stockade.core.strict_json import dumps
from stockade.runs.result import Result

_WAIT_SECONDS = 20
_RETRIED = (429, 503)
_NO_TLS = "WRONG_VERSION_NUMBER"
"""OpenSSL's name for an answer that is not TLS at all."""
_LIMITS = {"timeout": "wall_time", "cpu_time": "cpu_time", "memory": "memory", "processes": "processes"}
_VARIABLE = "STOCKADE_API_KEY"


class ServiceError(StockadeError):
    """A service refused a request, or could not be reached. ``status`` is the HTTP status; 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class RemoteOptions(TypedDict, total=False):
    """Options of a run on a service. ``stockade.run`` describes those of the same names.

    ``policy`` has the fields that a request may set: ``limits``, ``languages``, ``network`` and ``on_output``.
    ``timeout``, ``cpu_time``, ``memory`` and ``processes`` replace these limits of it.
    """

    stdin: str | bytes | None
    files: Mapping[str, str | bytes] | None
    environment: Mapping[str, str] | None
    artifacts: Sequence[str]
    labels: Mapping[str, str] | None
    policy: Mapping[str, Any] | None
    timeout: float | str | None
    cpu_time: float | str | None
    memory: int | str | None
    processes: int | str | None


class RemoteRunOptions(RemoteOptions, total=False):
    """Options of a run of source text on a service: those of a command, and how to run the source."""

    language: str | None
    arguments: Sequence[str]


class Client:
    """Runs code on the service at ``url``, such as ``"http://127.0.0.1:8080"``, with one of its keys.

    Without ``api_key``, the variable ``STOCKADE_API_KEY`` holds the key. ``patience`` is for how many seconds a run is
    offered again to a service whose queue is full or that cannot be reached. An accepted run is waited for without a
    bound: its policy bounds it, once it begins. Several threads may use one client; a forked process makes its own.
    """

    @known_options
    def __init__(self, url: str, api_key: str | None = None, *, patience: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise JobError(f"url = {url!r:.80}: expected an address such as 'http://127.0.0.1:8080'")
        key = os.environ.get(_VARIABLE, "") if api_key is None else api_key
        if not key.isascii() or not key.isprintable() or not key:
            raise JobError(f"api_key: expected a key of the service; without the argument, {_VARIABLE} holds it")
        self._make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._address, self._base = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._patience = patience
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
        return self._result({"source": _content(source)}, options)

    @known_options
    def run_command(self, argv: Sequence[str], **options: Unpack[RemoteOptions]) -> Result:
        """Run a command and return its result; see ``run``."""
        if isinstance(argv, str | bytes):
            raise JobError("a command is a list of words, such as ['sort', 'big.txt']; no text is split into words")
        return self._result({"argv": [*argv]}, options)

    def _result(self, what: dict[str, Any], options: Mapping[str, Any]) -> Result:
        body = dumps(_request(what, options)).encode()
        # The same word with each try, so that the service knows a request whose answer was lost.
        repeat = {"Idempotency-Key": secrets.token_hex(16)}
        query = f"wait={_WAIT_SECONDS}&format=full"
        found = self._patiently("POST", f"/v1/runs?{query}", body, repeat)
        place = f"/v1/runs/{quote(found['id'])}"
        try:
            while found["state"] != "finished":
                found = self._patiently("GET", f"{place}?{query}")
        except BaseException:
            with suppress(StockadeError, OSError):
                self._ask("DELETE", place, None, {})
            raise
        return Result.from_dict(found["result"])

    def _patiently(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        # The first retry follows at once, because the service may have closed a connection that was idle.
        until, pause = time.monotonic() + self._patience, 0.0
        while True:
            try:
                status, answer, retry = self._ask(method, path, body, headers or {})
                problem = _error(status, answer) if status >= 400 else None
            except ssl.SSLCertVerificationError as error:  # another try would meet the same certificate
                raise ServiceError(f"{self._address}: its certificate is refused: {error.verify_message}") from None
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, ssl.SSLError) and error.reason == _NO_TLS:
                    raise ServiceError(
                        f"{self._address}: it answers without TLS; its URL begins with http://"
                    ) from None
                reason = f"{type(error).__name__}: {error}"
                status, retry, problem = 0, None, ServiceError(f"{self._address}: cannot be reached: {reason}")
            if problem is None:
                return answer
            wait = float(retry) if retry and retry.isdigit() else pause
            if status not in (0, *_RETRIED) or time.monotonic() + wait > until:
                raise problem
            time.sleep(wait)
            pause = min(2 * pause or 0.1, 5.0)

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, Any, str | None]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._make(self._address, timeout=_WAIT_SECONDS + 30)
        try:
            connection.request(method, self._base + path, body, {**self._headers, **headers})
            response = connection.getresponse()
            text = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        try:
            return response.status, json.loads(text), response.headers["Retry-After"]
        except ValueError:
            raise ServiceError(f"{self._address}: the answer is not JSON: {text[:80]!r}", response.status) from None


def _request(what: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    from stockade.api.options import check_names

    known = (*RemoteRunOptions.__annotations__,)
    if "argv" in what:
        known = (*(name for name in known if name not in ("language", "arguments")),)
    check_names(options, known)
    given = {name: value for name, value in options.items() if value is not None}
    limits = {_LIMITS[name]: given.pop(name) for name in _LIMITS if name in given}
    if "stdin" in given:
        given["stdin"] = _content(given["stdin"])
    if "files" in given:
        given["files"] = {name: _content(content) for name, content in given["files"].items()}
    for name in ("artifacts", "arguments"):
        if name in given:
            given[name] = [*given[name]]
    return {**what, **given, **({"limits": limits} if limits else {})}


def _content(value: str | bytes) -> Any:
    return value if isinstance(value, str) else {"base64": base64.b64encode(value).decode()}


def _error(status: int, answer: Any) -> StockadeError:
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
