"""The dependencies of the routes of every API: the state of the front, and the key of the request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import APIKeyHeader, HTTPBearer

from stockade.service.errors import Refused
from stockade.service.keys import Key
from stockade.service.state import State

DOCUMENTED = (
    Security(HTTPBearer(auto_error=False)),
    Security(APIKeyHeader(name="X-API-Key", auto_error=False)),
)
"""Says in the schema how a key is sent. The gate checks it."""


async def _state(request: Request) -> State:
    state: State = request.app.state.service
    return state


async def _key(request: Request) -> Key:
    key: Key = request.state.key
    return key


async def _operator(key: Annotated[Key, Depends(_key)]) -> Key:
    if not key.operator:
        raise Refused(403, "KeyError", "this needs an operator's key: 'stockade keys add NAME --operator' makes one")
    return key


async def known_query(request: Request) -> None:
    """Refuse query parameters that the schema of the route does not have: a misspelt one would have no effect."""
    if not request.query_params:
        return
    route = request.scope["route"]
    operation = request.app.openapi()["paths"][route.path_format][request.method.lower()]
    known = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
    unknown = {name: value for name, value in request.query_params.items() if name not in known}
    if unknown:
        problems = [
            {"type": "extra_forbidden", "loc": ("query", name), "input": value} for name, value in unknown.items()
        ]
        raise RequestValidationError(problems)


# They are coroutines, because FastAPI calls every other function in a thread, which takes longer than the function.
StateOf = Annotated[State, Depends(_state)]
KeyOf = Annotated[Key, Depends(_key)]
OperatorOf = Annotated[Key, Depends(_operator)]
