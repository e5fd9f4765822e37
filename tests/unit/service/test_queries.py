"""Query parameters that a route does not have are refused, whichever route it is."""

import asyncio
import contextlib
import json

import pytest

from stockade.service import app
from stockade.service.database import Database
from stockade.service.keys import Key
from stockade.service.settings import Settings
from stockade.service.state import State


@pytest.fixture
def made(tmp_path):
    with contextlib.closing(Database(tmp_path)) as database:
        yield app.make(State(Settings(tmp_path), database))


def answer(made, method, path, query):
    """Return the status and the body of an answer to an operator."""
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(), "root_path": "",
        "scheme": "http", "query_string": query.encode(), "headers": [(b"host", b"localhost")],
        "state": {"key": Key(1, "ann", operator=True)},
    }  # fmt: skip
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(made(scope, receive, send))
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


def test_unknown_parameter_is_refused_by_every_native_route(made):
    routes = [(path, method) for path, methods in made.openapi()["paths"].items() for method in methods]
    native = [
        (path, method.upper()) for path, method in routes if path.split("/")[1] not in ("judge0", "sandbox-fusion")
    ]
    assert len(native) > 20
    for path, method in native:
        status, body = answer(made, method, path.replace("{", "").replace("}", ""), "wiat=1")
        assert status == 422, (method, path, status, body)
        assert "wiat = '1': this request has no such parameter" in json.loads(body)["message"]


@pytest.mark.parametrize("query", ["limit=5", "state=queued&limit=5", ""])
def test_known_parameters_are_taken(made, query):
    assert answer(made, "GET", "/v1/runs", query)[0] == 200
