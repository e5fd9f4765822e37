"""Terminals of living sandboxes as WebSockets: the front's side.

Each message of a client waits for the worker to take it, and each piece of output for the client: so neither end can
fill the memory of this process.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from stockade.service.errors import EXPECTED, Refused, answered
from stockade.service.living.calls import OwnerGone, answer_in, until_one_ends
from stockade.service.living.place import Place, lost, row_of
from stockade.service.living.requests import Answer, Control, TerminalRequest
from stockade.service.state import State

PATH = "/v1/sandboxes/{sandbox}/terminal"
_OPEN_SECONDS = 60.0
_INPUT_SECONDS = 60.0
_NAME_BYTES = 8
_LONGEST_REASON = 120
_THEIRS, _OURS = 1008, 1011
"""Why the service closes a connection early: for something that the client did, or for something else."""
_JSON = "application/json"


async def terminal(socket: WebSocket) -> None:
    """Serve a terminal. A refusal is an HTTP answer before the connection is accepted, and closes it later."""
    state: State = socket.app.state.service
    try:
        _check_origin(socket)
        place = Place(await row_of(socket.path_params["sandbox"], state, socket.state.key), state, socket.state.key)
        await _Session(socket, place, _request(socket)).run()
    except WebSocketDisconnect:
        pass
    except EXPECTED as error:
        answer = await answered(socket, error)
        state.metrics.refused(answer.status_code)
        if socket.application_state is WebSocketState.CONNECTING:
            await socket.send_denial_response(answer)
        else:
            reason = json.loads(bytes(answer.body))["message"].encode()[:_LONGEST_REASON].decode(errors="ignore")
            with suppress(WebSocketDisconnect):
                await socket.close(_THEIRS if answer.status_code < 500 else _OURS, reason)


def _check_origin(socket: WebSocket) -> None:
    """Raise ``Refused`` for a page of another origin: a browser sends a password that it knows along."""
    host = socket.headers.get("host", "").lower()
    for origin in socket.headers.getlist("origin"):
        if origin.lower() not in (f"http://{host}", f"https://{host}"):
            message = f"Origin = {origin[:80]!r}: a page may open a terminal of the service that it comes from only"
            raise Refused(403, "OriginRefused", message)


def _request(socket: WebSocket) -> TerminalRequest:
    given: dict[str, Any] = dict(socket.query_params)
    if "argv" in given:
        given["argv"] = socket.query_params.getlist("argv")
    try:
        return TerminalRequest.model_validate(given)
    except ValidationError as error:
        raise RequestValidationError([{**each, "loc": ("query", *each["loc"])} for each in error.errors()]) from None


class _Session:
    """A terminal, from its start to its end."""

    def __init__(self, socket: WebSocket, place: Place, request: TerminalRequest) -> None:
        self._socket, self._place, self._request = socket, place, request
        self._name = secrets.token_hex(_NAME_BYTES)
        self._moved = asyncio.Event()
        """Something came or went since the last look."""

    async def run(self) -> None:
        """Start the command, and relay until it ends or the client goes away."""
        place, request = self._place, self._request
        call = place.call(do="terminal", terminal=self._name)
        async with place.state.calls.begun(call, request.model_dump_json().encode()) as held:
            try:
                await self._started(held)
                await self._socket.accept()
                await self._relay(request.idle_timeout)
            except OwnerGone:
                raise lost(place.state, call) from None

    async def _started(self, held: asyncio.Future[bytes]) -> None:
        """Wait until the terminal is there. Raises ``Refused`` if it cannot be: the call that holds it has ended."""
        size = Control(rows=self._request.rows, columns=self._request.columns)
        sized = asyncio.ensure_future(self._ask("control", size.model_dump_json().encode(), _OPEN_SECONDS))
        try:
            await asyncio.wait((held, sized), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sized.cancel()
            await asyncio.gather(sized, return_exceptions=True)
        if held.done():
            _checked(*answer_in(held.result()))
        sized.result()

    async def _relay(self, idle: float) -> None:
        """Relay in both directions until one ends. Raises ``Refused`` after ``idle`` seconds in which nothing moves."""
        await until_one_ends(self._output(), self._input(), self._watch(idle))

    async def _output(self) -> None:
        while True:
            answer, content = await self._ask("screen")
            if answer.type == _JSON:
                await self._socket.send_text(content.decode())
                await self._socket.close()
                return
            self._moved.set()
            await self._socket.send_bytes(content)

    async def _input(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            self._moved.set()
            if message.get("bytes"):
                await self._ask("keys", message["bytes"], _INPUT_SECONDS)
            elif message.get("text"):
                await self._ask("control", message["text"].encode("utf-8", "replace"), _INPUT_SECONDS)

    async def _watch(self, idle: float) -> None:
        try:
            while True:
                async with asyncio.timeout(idle):
                    await self._moved.wait()
                self._moved.clear()
        except TimeoutError:
            raise Refused(408, "Idle", f"no byte came or went for {idle:g} seconds") from None

    async def _ask(self, do: str, body: bytes = b"", seconds: float | None = None) -> tuple[Answer, bytes]:
        place = self._place
        call = place.call(do=do, terminal=self._name, shape=self._request.format)
        return _checked(*await place.state.calls.ask(call, body, place.seconds if seconds is None else seconds))


def _checked(answer: Answer, content: bytes) -> tuple[Answer, bytes]:
    """Return an answer. Raises ``Refused`` for one that refuses the call."""
    if answer.status < 400:
        return answer, content
    problem: Mapping[str, Any] = json.loads(content)
    raise Refused(answer.status, problem["error"], problem["message"], retry=answer.retry)
