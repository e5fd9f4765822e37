"""Answers that refuse a request: JSON with what was wrong, which value, and what to do."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import Match

from stockade.core import log
from stockade.core.errors import JobError, PolicyError, StockadeError, nearest
from stockade.policy.parts import Limits
from stockade.service.requests import RunRequest

_MOST_PROBLEMS = 20
_RUNS = "/v1/runs"
_NO_PARAMETER = "this request has no such parameter; /openapi.json lists them"
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


class Refused(Exception):
    """A request that is answered with ``status`` and a message. ``retry`` is the seconds to wait before another try."""

    def __init__(self, status: int, error: str, message: str, *, retry: int | None = None) -> None:
        super().__init__(message)
        self.status, self.error, self.retry = status, error, retry

    def answer(self) -> JSONResponse:
        """Return the answer."""
        headers = {"Retry-After": str(self.retry)} if self.retry is not None else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.status == 426:
            headers["Upgrade"] = "websocket"
        return _answer(self.status, {"error": self.error, "message": str(self)}, headers)


def add_handlers(app: FastAPI) -> None:
    """Let ``app`` answer every error as JSON. The handlers are coroutines, because others would run in threads."""
    for kind, handler in _EXPECTED.items():
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def answered(connection: HTTPConnection, error: Exception) -> JSONResponse:
    """Return the answer for an error, one of ``EXPECTED``, of a request or of a WebSocket."""
    return await next(handler for kind, handler in _EXPECTED.items() if isinstance(error, kind))(connection, error)


def _answer(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(body, status, dict(headers or {}))


async def _refused(_request: HTTPConnection, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    return error.answer()


async def _invalid(request: HTTPConnection, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [
        {
            "field": _field(each),
            "value": ascii(error.body if each["type"] == "json_invalid" else each.get("input"))[:80],
            "reason": _reason(each, request.url.path),
        }
        for each in error.errors()[:_MOST_PROBLEMS]
    ]
    message = "; ".join(f"{each['field']} = {each['value']}: {each['reason']}" for each in problems)
    return _answer(422, {"error": "RequestError", "message": _plain(message), "problems": problems})


def _reason(problem: Mapping[str, Any], path: str) -> str:
    """Return what is wrong, and how to write what was probably meant."""
    kind, *where = problem["loc"]
    if kind != "body":
        return _NO_PARAMETER if problem["type"] == "extra_forbidden" else str(problem["msg"])
    if problem["type"] == "json_invalid":
        return f"not JSON: {problem['ctx']['error']}, character {where[0] + 1}"
    if problem["type"] == "extra_forbidden":
        return f"there is no such field{_meant(where[0]) if path == _RUNS and len(where) == 1 else ''}"
    if not where and problem["type"] in ("model_attributes_type", "missing"):
        return "expected a JSON object, sent with the header Content-Type: application/json"
    if where == ["argv"]:
        return "expected a list of words, such as ['sort', 'big.txt']"
    return str(problem["msg"])


def _meant(name: str) -> str:
    limits = list(Limits.model_fields)
    near = nearest(name, [*RunRequest.model_fields, *limits])
    if near in limits:
        return f"""; did you mean "limits": {{"{near}": ...}}?"""
    return f"; did you mean {near!r}?" if near else ""


def _field(problem: Mapping[str, Any]) -> str:
    kind, *path = problem["loc"]
    return str(kind) if not path or problem["type"] == "json_invalid" else ".".join(map(str, path))


async def _stockade(_request: HTTPConnection, error: Exception) -> JSONResponse:
    assert isinstance(error, StockadeError)
    status = 422 if isinstance(error, JobError | PolicyError) else 503
    return _answer(status, {name: _plain(value) for name, value in error.as_json().items()})


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers, message, path = dict(error.headers or {}), str(error.detail), request.url.path
    if error.status_code == 404:
        message = f"{path}: there is nothing at this path; /openapi.json lists every request"
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))  # the router names those of one of its routes only
        message = f"{request.method} {path}: this path takes {headers['Allow']}"
    return _answer(error.status_code, {"error": "RequestError", "message": message}, headers)


def _methods(request: Request) -> list[str]:
    """Return the methods that the path of a request has."""

    def is_served(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)

    return [method for method in _METHODS if is_served(method)]


async def _database(_request: HTTPConnection, error: Exception) -> JSONResponse:
    assert isinstance(error, DBAPIError)
    log.error("the database of the service failed: %s", error.orig)
    message = f"the service's database cannot be used now: {error.orig}; nothing was changed"
    return _answer(503, {"error": "DatabaseError", "message": message}, {"Retry-After": "5"})


_EXPECTED: dict[type[Exception], Callable[[Any, Exception], Coroutine[Any, Any, JSONResponse]]] = {
    Refused: _refused,
    RequestValidationError: _invalid,
    StockadeError: _stockade,
    DBAPIError: _database,
}
EXPECTED = (*_EXPECTED,)
"""The errors that refuse a request for a reason that its client can know."""


async def _unexpected(_request: Request, error: Exception) -> JSONResponse:
    log.error("the service failed to answer a request:\n%s", "".join(traceback.format_exception(error)))
    return _answer(500, {"error": "InternalError", "message": "the service failed; its log has the reason"})


def _plain(value: Any) -> Any:
    """Return texts without halves of surrogate pairs, which no UTF-8 has."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return {name: _plain(each) for name, each in value.items()} if isinstance(value, dict) else value
