"""The events of a run as server-sent events: the front's side.

The front asks the worker for the next events when the client has taken the last ones: so no slow reader fills the
memory of this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Response

from stockade.service.answers import refusals, shown
from stockade.service.database import FINISHED, Row
from stockade.service.depends import DOCUMENTED, KeyOf, StateOf
from stockade.service.errors import Refused
from stockade.service.events import FINISHED as LAST
from stockade.service.events import QUIET, TYPE, message
from stockade.service.keys import Key
from stockade.service.living.calls import OwnerGone, gone, until_one_ends
from stockade.service.living.requests import Call
from stockade.service.state import State

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_QUIET_SECONDS = 15.0
_PAUSE_SECONDS = 0.1
_START_SECONDS = 5.0
"""How long a worker may take to begin, where a run has ended: it has the events that are kept."""
_ANSWER_SECONDS = 10.0
_END = "end"
"""The id of the last event. Whoever has seen it has seen all."""
api = APIRouter(
    prefix="/v1/runs",
    dependencies=DOCUMENTED,
    responses=refusals(404),
)
_LastId = Annotated[str | None, Header(description="the id of the last event that the client has", max_length=64)]


@api.get(
    "/{run}/events",
    response_class=Response,
    responses={200: {"content": {TYPE: {"schema": {"type": "string"}}}}, 204: {"description": "no more events come"}},
    summary="Follow a run by server-sent events",
)
async def _events(run: str, state: StateOf, key: KeyOf, last_event_id: _LastId = None) -> Response:
    """Send the events of a run while it happens, and `finished` with the run and its result at last.

    A run that was not accepted with `"live": true` has no other event. Its latest events are kept, a mebibyte of them:
    a reader that is slower, or comes back with `Last-Event-ID` too late, misses some.
    """
    row = await state.call(state.queue.find, key.id, run)
    if row is None:
        raise Refused(404, "NotFound", "this key has no run of this id; runs are forgotten some time after their end")
    if last_event_id == _END and row.state == FINISHED:
        return Response(status_code=204)
    return _Stream(_Follower(state, key, row).messages(last_event_id or ""))


class _Stream(Response):
    """An answer whose pieces come while the client is there."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        super().__init__(None, 200, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}, TYPE)
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the pieces, until they end or the client goes away."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await until_one_ends(self._send(send), gone(receive))

    async def _send(self, send: Send) -> None:
        with suppress(TimeoutError):  # the client has read nothing for too long
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Follower:
    """Follows a run for one client."""

    def __init__(self, state: State, key: Key, row: Row) -> None:
        self._state, self._key, self._row = state, key, row

    async def messages(self, last: str) -> AsyncIterator[bytes]:
        """Yield the events after the one with the id ``last``, until the run has ended or the service stops."""
        while self._row is not None:  # retention may have removed the run meanwhile
            over = self._row.state == FINISHED
            answer = await self._answer(last, over=over)
            if answer:
                found, _, text = answer.partition(b"\n")
                last = found.decode()
                yield text
            elif over or self._state.stopping:
                break
            else:
                yield QUIET
        if self._row is not None and self._row.state == FINISHED:
            yield message(LAST, shown(self._row), _END)

    async def _answer(self, last: str, *, over: bool) -> bytes:
        """Return what the worker has after ``last``. Without any, wait for news of the run, and return nothing."""
        asked = asyncio.ensure_future(self._asked(last, 0.0 if over else _QUIET_SECONDS))
        if over:
            return await asked
        ended = asyncio.ensure_future(self._state.waited(self._key, self._row.id, _QUIET_SECONDS))
        try:
            await asyncio.wait((asked, ended), return_when=asyncio.FIRST_COMPLETED)
            if asked.done() and asked.result():
                return asked.result()
            self._row = await ended
            return b""
        finally:
            for task in (asked, ended):
                task.cancel()
            await asyncio.gather(asked, ended, return_exceptions=True)

    async def _asked(self, last: str, seconds: float) -> bytes:
        """Return the answer of the worker. Without a worker, wait for one, which may just begin."""
        state, key, loop = self._state, self._key, asyncio.get_running_loop()
        what = {"key": key.id, "key_name": key.name, "run": self._row.id, "after": last, "seconds": seconds}
        until = loop.time() + max(seconds, _START_SECONDS)
        while loop.time() < until and not state.stopping:
            call = Call(do="events", holder=state.calls.holder, **what)
            with suppress(OwnerGone, Refused):
                answer, content = await state.calls.ask(call, b"", seconds + _ANSWER_SECONDS)
                return content if answer.status == 200 else b""
            await asyncio.sleep(_PAUSE_SECONDS)
        return b""
