"""The part of SandboxFusion's API by which trainers score code: ``run_code``, over the same queue."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stockade.runs.result import Outcome, Result
from stockade.service.answers import refusals
from stockade.service.database import FINISHED, Row
from stockade.service.depends import DOCUMENTED, KeyOf, StateOf
from stockade.service.errors import Refused
from stockade.service.keys import Key
from stockade.service.queue import NewRun, QueueFull
from stockade.service.requests import RunRequest, record_of
from stockade.service.state import State

_LANGUAGES = {"python": "python", "nodejs": "javascript", "ruby": "ruby", "bash": "shell"}
_RETRY_SECONDS = 1.0
_LONGEST_SECONDS = 3600.0
"""How long a request waits for its place in the queue and for its result, all in all."""
_TIMES = ("wall_time", "cpu_time")
_Seconds = Annotated[float, Field(gt=0, le=3600)]

api = APIRouter(prefix="/sandbox-fusion", dependencies=DOCUMENTED, responses=refusals(501))


class RunCode(BaseModel):
    """A program, in the words of SandboxFusion."""

    model_config = ConfigDict(extra="ignore")
    code: str
    language: str
    stdin: str | None = None
    compile_timeout: _Seconds = Field(10, description="for compiled languages, which this service does not have")
    run_timeout: _Seconds = 10
    memory_limit_MB: int = Field(-1, description="MiB; -1 is the service's own limit")  # noqa: N815
    files: dict[str, str | None] = Field({}, description="relative path to content in base64")
    fetch_files: list[str] = []


class CommandResult(BaseModel):
    """How a command ended."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    execution_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class Answer(BaseModel):
    """An answer of SandboxFusion, and ``stockade``: the outcome, and the limit that ended the program."""

    status: Literal["Success", "Failed", "SandboxError"]
    message: str = ""
    compile_result: CommandResult | None = None
    run_result: CommandResult | None = None
    executor_pod_name: str | None = None
    files: dict[str, str] = {}
    stockade: dict[str, Any] = {}


@api.post("/run_code", response_model=Answer, summary="Run a program; waits for its place in the queue")
async def _run_code(asked: RunCode, state: StateOf, key: KeyOf) -> Answer:
    """Answer 200 whatever the code does. A full queue is waited for."""
    row = await _finished(state, key, record_of(_request(asked), state.policies))
    if row is None:
        return Answer(status="SandboxError", message="the run has no result yet: the service stops, or is too busy")
    return _answer(Result.from_dict(json.loads(row.result)))


@api.post("/{what}", include_in_schema=False)
@api.get("/{what}", include_in_schema=False)
async def _missing(what: str) -> None:
    raise Refused(
        501, "NotImplemented", f"{what[:40]!a}: this service has run_code of SandboxFusion's API, and no more"
    )


def _request(asked: RunCode) -> RunRequest:
    language = _LANGUAGES.get(asked.language)
    if language is None:
        known = ", ".join(sorted(_LANGUAGES))
        raise Refused(501, "NotImplemented", f"language = {asked.language[:40]!a}: this service runs {known}")
    limits: dict[str, Any] = {"wall_time": f"{asked.run_timeout}s"}
    if asked.memory_limit_MB > 0:
        limits["memory"] = f"{asked.memory_limit_MB}MiB"
    files = {name: {"base64": text or ""} for name, text in asked.files.items()}
    given = {"source": asked.code, "language": language, "stdin": asked.stdin, "files": files}
    try:
        return RunRequest.model_validate({**given, "artifacts": asked.fetch_files, "limits": limits})
    except ValidationError as error:
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in error.errors()]) from None


async def _finished(state: State, key: Key, new: NewRun) -> Row | None:
    """Submit a run, once there is a place for it, and return it when it has a result."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _LONGEST_SECONDS
    while not state.stopping and loop.time() < until:
        try:
            row: Any = (await state.submit(key, new))[0]
        except QueueFull:
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        row = await state.waited(key, row.id, until - loop.time(), row)
        return row if row is not None and row.state == FINISHED else None
    return None


def _answer(result: Result) -> Answer:
    own = {"outcome": result.outcome.value, "limit": result.limit}
    message = "" if result.error is None else f"{result.error.type}: {result.error.message}"
    if result.outcome in (Outcome.SANDBOX_FAILED, Outcome.CANCELLED):
        return Answer(status="SandboxError", message=message, stockade=own)
    ran = CommandResult(
        status="TimeLimitExceeded" if result.limit in _TIMES else "Finished",
        execution_time=result.usage.wall_seconds,
        return_code=_return_code(result),
        stdout=result.stdout,
        stderr=result.stderr,
    )
    files = {name: b64encode(content).decode() for name, content in result.artifacts.items()}
    passed = result.outcome is Outcome.COMPLETED and ran.return_code == 0
    return Answer(status="Success" if passed else "Failed", message=message, run_result=ran, files=files, stockade=own)


def _return_code(result: Result) -> int | None:
    """Return the exit status, or the number of the signal below zero; ``None`` after a time limit."""
    if result.limit in _TIMES:
        return None
    if result.exit_code is not None:
        return result.exit_code
    return -9 if result.signal is None else -int(result.signal)
