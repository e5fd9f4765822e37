"""The routes of living sandboxes. The service worker does the work; this checks whose sandbox it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from stockade.core.strict_json import dumps
from stockade.service.answers import Problem, Shape, refusals
from stockade.service.depends import DOCUMENTED, KeyOf, StateOf
from stockade.service.errors import Refused
from stockade.service.living.calls import OwnerGone
from stockade.service.living.place import Place, lost, row_of
from stockade.service.living.register import OPEN, shown
from stockade.service.living.requests import (
    Call,
    Cell,
    CellRequest,
    CommandRequest,
    Sandbox,
    Sandboxes,
    SandboxRequest,
    TerminalRequest,
)
from stockade.service.state import State

_START_SECONDS = 120.0
_JSON = "application/json"
_BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_Format = Annotated[Shape, Query(description="text: streams as text; full: every field, bytes as base64")]
_Recursive = Annotated[bool, Query(description="a folder with all that is in it")]


@dataclass(frozen=True)
class _Place(Place):
    request: Request

    async def ask(self, body: bytes = b"", **what: Any) -> Response:
        """Have the worker do something in the sandbox."""
        return await _asked(self.state, self.call(**what), body, self.seconds, self.request)


async def _place(sandbox: str, request: Request, state: StateOf, key: KeyOf) -> _Place:
    return _Place(await row_of(sandbox, state, key), state, key, request)


_PlaceOf = Annotated[_Place, Depends(_place)]
api = APIRouter(
    prefix="/v1/sandboxes",
    dependencies=DOCUMENTED,
    responses=refusals(403, 404, 409, 410, 429, 501, 504),
)


@api.post("", status_code=201, response_model=Sandbox, summary="Start a sandbox that lives")
async def _create(body: SandboxRequest, request: Request, state: StateOf, key: KeyOf) -> Response:
    call = Call(do="create", holder=state.calls.holder, key=key.id, key_name=key.name)
    return await _asked(state, call, body.model_dump_json().encode(), _START_SECONDS, request)


@api.get("", response_model=Sandboxes, summary="List the key's own sandboxes, newest first")
async def _list(
    state: StateOf,
    key: KeyOf,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="'next' of the page before")] = None,
    of: Annotated[Literal["open", "closed", "lost"] | None, Query(alias="state")] = None,
) -> Response:
    rows = await state.call(state.sandboxes.page, key.id, limit, before, of)
    following = rows[-1].number if len(rows) == limit else None
    found = {"sandboxes": [shown(row) for row in rows], "next": following}
    return Response(dumps(found, compact=True), media_type=_JSON)


@api.get("/{sandbox}", response_model=Sandbox, summary="Return a sandbox, also one that has ended")
async def _get(place: _PlaceOf) -> Response:
    return Response(dumps(shown(place.row), compact=True), media_type=_JSON)


@api.delete("/{sandbox}", response_model=Sandbox, summary="End a sandbox; one that has ended stays as it is")
async def _close(place: _PlaceOf) -> Response:
    return await place.ask(do="close") if place.row.state == OPEN else await _get(place)


@api.post(
    "/{sandbox}/fork", status_code=201, response_model=Sandbox, summary="Start a sandbox with copies of its files"
)
async def _fork(place: _PlaceOf) -> Response:
    """Answer with the new sandbox. It has the limits, policy, environment and labels of this one, and no process."""
    return await place.ask(do="fork")


@api.post("/{sandbox}/commands", response_model=dict[str, Any], summary="Run a command and wait for its result")
async def _command(place: _PlaceOf, body: CommandRequest, format: _Format = "text") -> Response:  # noqa: A002
    """Answer with the result, as a run has it. If the client closes the connection, the command ends."""
    return await place.ask(body.model_dump_json().encode(), do="command", shape=format)


@api.get("/{sandbox}/terminal", status_code=426, response_model=Problem, summary="Open a terminal, as a WebSocket")
async def _terminal(_of: _PlaceOf, _request: Annotated[TerminalRequest, Query()]) -> Response:
    """Begin a WebSocket here to run a command at a terminal; anything else is refused with 426.

    Binary messages of at most 64 KiB are input and output. A text of yours is {"rows": 24, "columns": 80}, a new size,
    {"signal": 15} or {"end": "hang_up"} (or "kill"). The service's only text is the result, as a run has it; then it
    closes the connection. If you do, it hangs up.
    """
    message = "a terminal is a WebSocket; connect to this address with a client for WebSockets"
    raise Refused(426, "UpgradeRequired", message)


@api.post("/{sandbox}/interpreters/{language}/cells", response_model=Cell, summary="Run a cell in an interpreter")
async def _cell(place: _PlaceOf, language: str, body: CellRequest) -> Response:
    """Answer with the result of the cell. The first cell starts the interpreter: python, ruby or javascript.

    If the client closes the connection, the cell is interrupted.
    """
    return await place.ask(body.model_dump_json().encode(), do="cell", language=language)


@api.delete("/{sandbox}/interpreters/{language}", status_code=204, summary="End an interpreter")
async def _restart(place: _PlaceOf, language: str) -> Response:
    """End an interpreter with all its processes. The next cell starts a fresh one."""
    return await place.ask(do="restart", language=language)


@api.get(
    "/{sandbox}/files/{path:path}",
    response_class=Response,
    responses={200: {"content": _BYTES}},
    summary="Return the content of a file",
)
async def _read(place: _PlaceOf, path: str) -> Response:
    """A relative path starts in the workspace. An absolute one begins with a second slash: files//tmp/a."""
    return await place.ask(do="read", path=path)


@api.put(
    "/{sandbox}/files/{path:path}",
    status_code=204,
    openapi_extra={"requestBody": {"content": _BYTES, "required": False}},
    summary="Write a file whole, and make its folders; without a body, an empty one",
)
async def _write(place: _PlaceOf, path: str) -> Response:
    return await place.ask(await place.request.body(), do="write", path=path)


@api.delete("/{sandbox}/files/{path:path}", status_code=204, summary="Remove a file or a folder")
async def _remove(place: _PlaceOf, path: str, recursive: _Recursive = False) -> Response:
    return await place.ask(do="remove", path=path, recursive=recursive)


async def _asked(state: State, call: Call, body: bytes, seconds: float, request: Request) -> Response:
    try:
        answer, content = await state.calls.ask(call, body, seconds, request)
    except OwnerGone:
        raise lost(state, call) from None
    if answer.status >= 400:
        state.metrics.refused(answer.status)
    headers = {} if answer.retry is None else {"Retry-After": str(answer.retry)}
    if answer.status == 201:
        headers["Location"] = f"/v1/sandboxes/{json.loads(content)['id']}"
    return Response(content, answer.status, headers, None if answer.status == 204 else answer.type)
