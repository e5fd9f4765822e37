"""The native API: runs, the kill switch, health and metrics."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Query, Response
from starlette.routing import Route

from stockade import __version__
from stockade.service import batches, event_routes, kill, mcp, sandbox_fusion
from stockade.service.answers import Run, Runs, Shape, page, refusals, shown
from stockade.service.batches import Format, Repeat, accepted
from stockade.service.database import FINISHED, LEASED
from stockade.service.depends import DOCUMENTED, KeyOf, OperatorOf, StateOf, known_query
from stockade.service.errors import Refused, add_handlers
from stockade.service.judge0 import routes as judge0
from stockade.service.living import routes as living
from stockade.service.living import terminal_routes as terminals
from stockade.service.metrics import CONTENT_TYPE
from stockade.service.requests import RunRequest, record_of
from stockade.service.state import State

_DESCRIPTION = "Runs untrusted code in sandboxes: every resource bounded, the host out of reach."
_Wait = Annotated[float, Query(ge=0, le=60, description="seconds to wait for the result")]
_LISTED = {"queued": "queued", "running": LEASED, "finished": FINISHED}
health = APIRouter(responses=refusals())
api = APIRouter(prefix="/v1", dependencies=DOCUMENTED, responses=refusals(403, 404, 429))
metrics = APIRouter(dependencies=DOCUMENTED, responses=refusals(403))


def make(state: State) -> FastAPI:
    """Return the application, which belongs behind a ``Gate``."""
    app = FastAPI(title="stockade", version=__version__, description=_DESCRIPTION, docs_url=None, redoc_url=None)
    app.state.service = state
    for native in (health, api, event_routes.api, batches.api, living.api, metrics):
        app.include_router(native, dependencies=[Depends(known_query)])
    app.router.add_websocket_route(terminals.PATH, terminals.terminal)
    app.router.routes.append(Route(mcp.PATH, mcp.application(state)))
    for emulated in (sandbox_fusion.api, judge0.api):  # their clients send parameters that have no effect
        app.include_router(emulated)
    add_handlers(app)
    return app


@api.post("/runs", status_code=202, response_model=Run, responses={200: {"model": Run}}, summary="Accept a run")
async def _submit(  # noqa: PLR0917
    request: RunRequest,
    state: StateOf,
    key: KeyOf,
    wait: _Wait = 0,
    format: Format = "text",  # noqa: A002
    idempotency_key: Repeat = None,
) -> Response:
    """Answer 202 for a run that waits or runs, and 200 for one that ended within `wait` seconds."""
    new = record_of(request, state.policies, idempotency_key)
    row: Any = (await accepted(state, key, new))[0]
    if wait or row.state == FINISHED:
        row = await state.waited(key, row.id, wait, None if row.state == FINISHED else row)
    return _answer(row, format)


@api.get("/runs", response_model=Runs, summary="List the key's own runs, newest first")
async def _list(
    state: StateOf,
    key: KeyOf,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="'next' of the page before")] = None,
    of: Annotated[Literal["queued", "running", "finished"] | None, Query(alias="state")] = None,
) -> Response:
    rows = await state.call(state.queue.page, key.id, limit, before, of and _LISTED[of])
    return Response(page(list(rows), limit), media_type="application/json")


@api.get("/runs/{run}", response_model=Run, summary="Return a run, with its result if it has ended")
async def _get(run: str, state: StateOf, key: KeyOf, wait: _Wait = 0, format: Format = "text") -> Response:  # noqa: A002
    return _answer(await state.waited(key, run, wait), format, unfinished=200)


@api.delete("/runs/{run}", response_model=Run, summary="Cancel a run; one that has ended stays as it is")
async def _cancel(run: str, state: StateOf, key: KeyOf) -> Response:
    return _answer(next(iter(await state.cancel(key, run=run)), None), "text", unfinished=200)


def _answer(row: Any, shape: Shape, unfinished: int = 202) -> Response:
    if row is None:
        raise Refused(404, "NotFound", "this key has no run of this id; runs are forgotten some time after their end")
    status = 200 if row.state == FINISHED else unfinished
    return Response(shown(row, shape), status, {"Location": f"/v1/runs/{row.id}"}, "application/json")


@api.get("/kill", response_model=kill.Switch, summary="Show the kill switch")
async def _switch(state: StateOf, _of: OperatorOf) -> kill.Switch:
    return await state.kill(kill.Order(do="show"))


@api.post("/kill", response_model=kill.Switch, summary="End runs, and refuse new ones until the switch is lifted")
async def _kill(request: kill.KillRequest, state: StateOf, _of: OperatorOf) -> kill.Switch:
    kill.lines_of(request)
    return await state.kill(kill.Order(do="add", runs=request))


@api.delete("/kill", response_model=kill.Switch, summary="Lift the kill switch")
async def _lift(state: StateOf, _of: OperatorOf) -> kill.Switch:
    return await state.kill(kill.Order(do="lift"))


@health.get("/healthz", summary="Whether the server answers")
async def _health() -> dict[str, str]:
    return {"status": "ok"}


@health.get("/readyz", summary="Whether a worker takes runs")
async def _ready(state: StateOf) -> dict[str, str]:
    if not state.ready or state.stopping:
        raise Refused(503, "NotReady", "no worker takes runs now; those that are accepted wait", retry=1)
    return {"status": "ok"}


@metrics.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    summary="The figures of the service for prometheus",
)  # fmt: skip
async def _metrics(state: StateOf, _of: OperatorOf) -> Response:
    text = state.metrics.text(await state.call(state.queue.counts), await state.call(state.sandboxes.count))
    return Response(text, media_type=CONTENT_TYPE)
