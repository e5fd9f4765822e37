"""MCP sessions over HTTP: when one ends by itself, and a service without the SDK."""

import asyncio
import sys

import pytest

from stockade.integrations.mcp import Keeping
from stockade.policy.model import Policy
from stockade.service.errors import Refused
from stockade.service.mcp import application
from stockade.service.mcp.session import Session


class _Place(Keeping):
    closed = 0

    async def close(self):
        self.closed += 1


def _session(idle):
    place = _Place(Policy())
    return place, Session(1, place, idle, 1 << 20)


def test_session_without_a_request_ends_when_it_is_idle():
    async def scenario():
        place, session = _session(0.05)
        await asyncio.wait_for(session.run(), 30)
        assert place.closed == 1 and session.stopped and session.over.is_set()

    asyncio.run(scenario())


def test_session_is_kept_by_a_request_and_ends_with_it():
    async def scenario():
        place, session = _session(0.05)
        running = asyncio.create_task(session.run())
        left = asyncio.Event()
        sent = []

        async def receive():
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [], "query_string": b""}
        request = asyncio.create_task(session.handle(scope, receive, send))
        done, _ = await asyncio.wait([running], timeout=0.3)
        assert not done and not place.closed
        left.set()
        await asyncio.gather(request, return_exceptions=True)
        await asyncio.wait_for(running, 30)
        assert place.closed == 1

    asyncio.run(scenario())


def test_service_without_the_sdk_refuses_mcp(monkeypatch):
    monkeypatch.delitem(sys.modules, "stockade.service.mcp.endpoint", raising=False)
    monkeypatch.setitem(sys.modules, "mcp_types.version", None)
    with pytest.raises(Refused, match=r"stockade\[mcp\]") as refused:
        asyncio.run(application(None)({}, None, None))
    assert refused.value.status == 501
