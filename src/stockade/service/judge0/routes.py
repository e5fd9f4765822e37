"""The requests of Judge0's API."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import JSONResponse

from stockade import __version__
from stockade.service.answers import refusals
from stockade.service.database import Row
from stockade.service.depends import DOCUMENTED, KeyOf, StateOf
from stockade.service.errors import Refused
from stockade.service.judge0 import answer, facts
from stockade.service.judge0.submission import Invalid, Submission, record
from stockade.service.keys import Key
from stockade.service.queue import NewRun, QueueFull
from stockade.service.settings import MIB
from stockade.service.state import State

_RETRY_SECONDS = 5
_LONGEST_SECONDS = 3600.0
"""How long a request with ``wait=true`` waits. Then it is answered with the submission as it is."""
_MOST_BYTES = 32 * MIB
"""The most that the submissions of one answer may have: while the front makes it, it answers nobody else."""
_NOT_TEXT = "the submission has a text that is not UTF-8; ask for it with base64_encoded=true"
_Encoded = Annotated[bool, Query(description="contents, and the message, are base64 in both directions")]
_Fields = Annotated[str | None, Query(description="names with commas between them, or *")]
_SCHEMA = {"requestBody": {"content": {"application/json": {"schema": Submission.model_json_schema()}}}}

_Messages = dict[str, list[str]]
api = APIRouter(
    prefix="/judge0", dependencies=DOCUMENTED, responses=refusals(404, 501, own=_Messages | list[_Messages])
)


@api.get("/languages", summary="List the languages")
@api.get("/languages/all", include_in_schema=False)
async def _languages() -> list[dict[str, Any]]:
    return [each.brief() for each in facts.LANGUAGES.values()]


@api.get("/languages/{language}", summary="Return a language")
async def _language(language: int) -> dict[str, Any]:
    if language not in facts.LANGUAGES:
        raise Refused(404, "NotFound", f"there is no language {language}; /judge0/languages lists them")
    return facts.LANGUAGES[language].whole()


@api.get("/statuses", summary="List the statuses of submissions")
async def _statuses() -> list[dict[str, Any]]:
    return [{"id": number, "description": text} for number, text in facts.STATUSES.items()]


@api.get("/about", summary="Return the version of the API, and what serves it")
async def _about() -> dict[str, str]:
    return {"version": facts.VERSION, "software": f"stockade {__version__}"}


@api.get("/config_info", summary="Return the settings that clients read")
async def _config(state: StateOf) -> dict[str, Any]:
    return facts.config(state.settings, state.policies)


@api.post("/submissions", status_code=201, openapi_extra=_SCHEMA, summary="Accept a submission")
async def _create(  # noqa: PLR0917
    given: Annotated[dict[str, Any], Body()],
    state: StateOf,
    key: KeyOf,
    base64_encoded: _Encoded = False,
    wait: Annotated[bool, Query(description="answer when the submission has a result")] = False,
    fields: _Fields = None,
) -> JSONResponse:
    """Answer with the token, or with ``wait=true`` with the submission and its result."""
    names = answer.wanted(fields)
    try:
        new = record(given, base64_encoded, state.policies)
    except Invalid as invalid:
        return JSONResponse(invalid.messages, invalid.status)
    row: Any = (await _accepted(state, key, [new]))[0]
    token = answer.token(row.id)
    if not wait:
        return JSONResponse({"token": token}, 201)
    row = await state.waited(key, row.id, _LONGEST_SECONDS, row) or row
    try:
        return JSONResponse(answer.shown(row, names, base64_encoded), 201)
    except answer.NotText:
        return JSONResponse({"token": token, "error": _NOT_TEXT}, 201)


@api.post("/submissions/batch", status_code=201, summary="Accept submissions, all of them or none")
async def _create_batch(
    state: StateOf,
    key: KeyOf,
    submissions: Annotated[list[dict[str, Any]], Body(embed=True)],
    base64_encoded: _Encoded = False,
) -> JSONResponse:
    """Answer with a list of tokens. An invalid submission has its errors there, and the others run."""
    _check_count(len(submissions))
    answers: list[Any] = []
    news = []
    for each in submissions:
        try:
            news.append(record(each, base64_encoded, state.policies, len(submissions)))
            answers.append(None)
        except Invalid as invalid:
            answers.append(invalid.messages)
    rows = iter(await _accepted(state, key, news) if news else [])
    found = [{"token": answer.token(next(rows).id)} if each is None else each for each in answers]
    return JSONResponse(found, 201 if news else 422)


@api.get("/submissions/batch", summary="Return submissions by their tokens")
async def _get_batch(
    state: StateOf,
    key: KeyOf,
    tokens: Annotated[str, Query(description="with commas between them")] = "",
    base64_encoded: _Encoded = False,
    fields: _Fields = None,
) -> dict[str, list[dict[str, Any] | None]]:
    names, asked = answer.wanted(fields), [each for each in tokens.strip().split(",") if each]
    _check_count(len(asked))
    rows, size = [], 0
    for each in asked:
        rows.append(await _found(state, key, each))
        size += rows[-1].bytes if rows[-1] is not None else 0
        if size > _MOST_BYTES:
            raise Refused(
                400, "RequestError", f"the answer would have more than {_MOST_BYTES} bytes; name fewer tokens"
            )
    try:
        return {"submissions": [row and answer.shown(row, names, base64_encoded) for row in rows]}
    except answer.NotText:
        raise Refused(400, "RequestError", _NOT_TEXT) from None


@api.get("/submissions/{token}", summary="Return a submission")
async def _get(
    token: str,
    state: StateOf,
    key: KeyOf,
    base64_encoded: _Encoded = False,
    fields: _Fields = None,
) -> dict[str, Any]:
    names = answer.wanted(fields)
    row = await _found(state, key, token)
    if row is None:
        raise Refused(404, "NotFound", "this key has no submission of this token; they are forgotten after some time")
    try:
        return answer.shown(row, names, base64_encoded)
    except answer.NotText:
        raise Refused(400, "RequestError", _NOT_TEXT) from None


@api.api_route("/{what:path}", methods=["GET", "POST", "PUT", "DELETE"], include_in_schema=False)
async def _missing(what: str) -> None:
    raise Refused(
        501,
        "NotImplemented",
        f"{what[:40]!a}: this service has languages, statuses, about, config_info and submissions of Judge0's API, and "
        "no way to list or delete submissions: /v1/runs lists runs and cancels them",
    )


def _check_count(count: int) -> None:
    if not 1 <= count <= facts.MOST_IN_BATCH:
        raise Refused(400, "RequestError", f"{count} submissions: a batch has 1 to {facts.MOST_IN_BATCH}")


async def _accepted(state: State, key: Key, news: list[NewRun]) -> list[Row]:
    try:
        return await state.submit(key, *news)
    except QueueFull as full:
        state.metrics.refused(503)
        raise Refused(503, "QueueFull", f"queue is full: {full}; try again later", retry=_RETRY_SECONDS) from None


async def _found(state: State, key: Key, token: str) -> Row | None:
    """Return a submission of this key, and ``None`` for a run that came by another API."""
    run = answer.run(token)
    row = None if run is None else await state.call(state.queue.find, key.id, run)
    return None if row is None or row.asked is None else row
