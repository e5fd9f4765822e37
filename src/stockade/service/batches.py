"""Batches: many runs that are accepted, listed and cancelled together. How runs are accepted at all is here too."""

from __future__ import annotations

import json
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from stockade.core.errors import FieldProblem, JobError, PolicyError
from stockade.service.answers import Run, Shape, refusals, shown
from stockade.service.database import FINISHED, LEASED, QUEUED, Row
from stockade.service.depends import DOCUMENTED, KeyOf, StateOf
from stockade.service.errors import Refused
from stockade.service.keys import Key
from stockade.service.queue import NewRun, QueueFull
from stockade.service.requests import RunRequest, record_of
from stockade.service.settings import MIB
from stockade.service.state import State

_RETRY_SECONDS = 5
_MOST_RUNS = 1000
_PAGE_BYTES = 16 * MIB
"""A page has results of so many bytes, or one that has more."""
Format = Annotated[Shape, Query(description="text: streams as text; full: every field, bytes as base64")]
Repeat = Annotated[
    str | None, Header(description="the same word again gives the same run or batch", pattern="^[!-~]{1,128}$")
]
api = APIRouter(prefix="/v1/batches", dependencies=DOCUMENTED, responses=refusals(404, 429))


class BatchRequest(BaseModel):
    """Runs to accept together, or not at all."""

    model_config = ConfigDict(extra="forbid", strict=True)
    runs: list[RunRequest] = Field(min_length=1, max_length=_MOST_RUNS)


class Batch(BaseModel):
    """A batch: how many of its runs are in which state, and a page of them in the order of the request."""

    id: str
    queued: int
    running: int
    finished: int
    runs: list[Run] = Field(description="with the results of those that have ended")
    next: int | None = Field(description="pass it as 'after' for the next page; null on the last one")


async def accepted(state: State, key: Key, *news: NewRun) -> list[Row]:
    """Accept runs, all or none. Raises ``Refused`` if the queue is too full."""
    try:
        return await state.submit(key, *news)
    except QueueFull as full:
        status = 429 if full.own else 503
        state.metrics.refused(status)
        raise Refused(status, "QueueFull", f"{full}; try again later", retry=_RETRY_SECONDS) from None


@api.post("", status_code=202, response_model=Batch, summary="Accept runs together, or none of them")
async def _submit(request: BatchRequest, state: StateOf, key: KeyOf, idempotency_key: Repeat = None) -> Response:
    news, batch = [], f"batch_{uuid4().hex}"
    for at, each in enumerate(request.runs):
        # No client's own word has a space in it, so no run alone has the word of a run of a batch.
        word = None if idempotency_key is None else f"{idempotency_key} {at}"
        try:
            news.append(record_of(each, state.policies, word, batch))
        except JobError as error:
            raise JobError(f"runs[{at}]: {error}") from None
        except PolicyError as error:
            problems = ({**vars(each), "field": f"runs[{at}]: {each.field}"} for each in error.problems)
            raise PolicyError([FieldProblem(**each) for each in problems]) from None
    rows = await accepted(state, key, *news)
    return await _page(state, key, rows[0].batch, status=202)


@api.get("/{batch}", response_model=Batch, summary="Return a batch with a page of its runs and their results")
async def _get(  # noqa: PLR0917
    batch: str,
    state: StateOf,
    key: KeyOf,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    after: Annotated[int, Query(ge=0, le=2**62, description="'next' of the page before")] = 0,
    format: Format = "text",  # noqa: A002
) -> Response:
    return await _page(state, key, batch, most=limit, after=after, shape=format)


@api.delete("/{batch}", response_model=Batch, summary="Cancel the runs of a batch; those that have ended stay")
async def _cancel(batch: str, state: StateOf, key: KeyOf) -> Response:
    await state.cancel(key, batch=batch)
    return await _page(state, key, batch)


async def _page(
    state: State, key: Key, batch: str, *, most: int = 50, after: int = 0, shape: Shape = "text", status: int = 200
) -> Response:
    counts, rows = await state.call(state.queue.batch, key.id, batch, most, after)
    if not counts:
        raise Refused(404, "NotFound", "this key has no batch of this id; runs are forgotten some time after their end")
    texts: list[str] = []
    size, following = 0, None
    for row in rows:
        size += row.bytes if row.state == FINISHED else 0
        if texts and size > _PAGE_BYTES:
            break
        whole = await state.call(state.queue.find, key.id, row.id) if row.state == FINISHED else row
        texts.append(shown(whole or row, shape))
        following = row.number
    is_last = len(texts) == len(rows) < most
    fields: dict[str, Any] = {"id": batch, "queued": counts.get(QUEUED, 0), "running": counts.get(LEASED, 0)}
    fields |= {"finished": counts.get(FINISHED, 0), "next": None if is_last else following}
    text = f'{json.dumps(fields)[:-1]},"runs":[{",".join(texts)}]}}'
    return Response(text, status, {"Location": f"/v1/batches/{batch}"}, "application/json")
