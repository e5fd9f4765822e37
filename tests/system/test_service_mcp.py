"""MCP over HTTP, ``/mcp`` of ``stockade serve``: the real client of the SDK over the loopback, and attacks."""

from __future__ import annotations

import asyncio
import base64
import http.client
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, contextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.support.service import is_ready, served, wait_for

from stockade.service.mcp.place import MOST_CALLS

PNG = b"\x89PNG\r\n\x1a\n..."
SHOWN = f"from IPython.display import Image, display\ndisplay(Image({PNG!r}))\nx = 6 * 7\nx"
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}  # fmt: skip
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
BOTH = "application/json, text/event-stream"
ENDED = "The sandbox had ended; this is a fresh one"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("mcp") / "data", "--sandboxes-per-key", "2")


@pytest.fixture
def other(service):
    """Another key, whose sessions and sandboxes do not count for the first one."""
    yield service.add_key("other")
    service.remove_key("other")


@asynccontextmanager
async def connected(service, key=None) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"X-API-Key": key or service.key}, timeout=60) as http,
        Client(streamable_http_client(f"http://{service.address}/mcp", http_client=http)) as client,
    ):
        yield client


def text_of(result):
    return "\n".join(each.text for each in result.content if each.type == "text")


def raw(service, method="POST", body=LIST, key=None, **headers):
    return service.ask(method, "/mcp", body, key, Accept=BOTH, **headers)


def opened(service, key=None):
    """Open a session without the SDK, and return its id."""
    status, found, headers = raw(service, body=INITIALIZE, key=key)
    assert status == 200, found
    return headers["Mcp-Session-Id"]


@contextmanager
def streaming(service, key, session):
    """Keep the stream of a session open, as clients do while they live."""
    connection = http.client.HTTPConnection(service.address, timeout=60)
    connection.request("GET", "/mcp", headers={"X-API-Key": key, "Accept": BOTH, "Mcp-Session-Id": session})
    with closing(connection):
        assert connection.getresponse().status == 200
        yield


def open_sandboxes(service, key=None):
    return [each["id"] for each in service.ask("GET", "/v1/sandboxes?state=open", key=key)[1]["sandboxes"]]


def test_tools_over_http_keep_state_and_can_be_cancelled(service) -> None:
    async def scenario() -> None:
        async with connected(service) as client:
            tools = {each.name for each in (await client.list_tools()).tools}
            assert tools == {"run_python", "run_command", "write_file", "read_file", "list_files", "reset", "plan"}
            assert not open_sandboxes(service)
            shown = await client.call_tool("run_python", {"code": SHOWN})
            assert not shown.is_error and shown.structured_content["value"] == "42"
            assert [each.type for each in shown.content] == ["text", "image"]
            assert base64.b64decode(shown.content[1].data) == PNG
            await client.call_tool("write_file", {"path": "a/text", "content": "héllo\n"})
            part = await client.call_tool("read_file", {"path": "a/text", "max_bytes": 2})
            assert part.structured_content["content"] == "h" and part.structured_content["remaining"] == 6
            listed = await client.call_tool("list_files", {"path": "a"})
            assert listed.structured_content["entries"] == [{"name": "text", "kind": "file", "size": 7}]
            missing = await client.call_tool("read_file", {"path": "b"})
            assert missing.is_error and "list_files shows what is there" in text_of(missing)
            done = await client.call_tool("run_command", {"command": "cat a/text; cat; exit 3", "stdin": "given"})
            assert done.is_error and done.structured_content["exit_code"] == 3
            assert done.structured_content["stdout"] == "héllo\ngiven"
            plan = (await client.call_tool("plan")).structured_content
            assert plan["keeps_state"] and plan["backend"] == "native" and plan["isolation"] == "namespaces"
            assert plan["guarantees"]["memory"]["limit"] == "1 GiB" and plan["longest_call_seconds"] == 300

            running = asyncio.Event()

            async def report(passed: float, total: float | None, message: str | None) -> None:
                running.set()

            endless = {"code": "while True: pass"}
            call = asyncio.ensure_future(client.call_tool("run_python", endless, progress_callback=report))
            await asyncio.wait_for(running.wait(), 30)
            call.cancel()
            after = await client.call_tool("run_python", {"code": "x + 2"}, read_timeout_seconds=30)
            assert text_of(after) == "44"  # the loop was interrupted, and the variables are kept
            assert len(open_sandboxes(service)) == 1
        assert not open_sandboxes(service)  # the client ended its session

    asyncio.run(scenario())


def test_sandbox_that_ended_is_followed_by_a_fresh_one(service) -> None:
    async def scenario() -> None:
        async with connected(service) as client:
            await client.call_tool("run_python", {"code": "x = 1"})
            died = await client.call_tool("run_python", {"code": "import os; os._exit(3)"})
            assert died.is_error and died.structured_content["outcome"] == "died"
            again = await client.call_tool("run_python", {"code": "'x' in dir()"})
            assert again.structured_content["value"] == "False" and "interpreter is a fresh one" in text_of(again)
            [sandbox] = open_sandboxes(service)
            assert service.ask("DELETE", f"/v1/sandboxes/{sandbox}")[0] == 200
            assert ENDED in text_of(await client.call_tool("run_command", {"command": "ls"}))
            await client.call_tool("reset")
            assert not open_sandboxes(service)
            assert ENDED not in text_of(await client.call_tool("run_command", {"command": "ls"}))

    asyncio.run(scenario())


def test_model_learns_what_the_operator_can_change(service) -> None:
    async def scenario() -> None:
        async with connected(service) as client:
            missing = await client.call_tool("run_python", {"code": "import no_such_package"})
            assert "no package no_such_package" in text_of(missing)
            assert "the operator of the service" in text_of(missing) and "stockade mcp" not in text_of(missing)
            late = await client.call_tool("run_command", {"command": "sleep 100", "timeout": 1})
            assert late.is_error and late.structured_content["outcome"] == "timed_out"

    asyncio.run(scenario())


def test_session_of_another_key_is_not_there(service, other) -> None:
    session = opened(service)
    for method, body in (("POST", LIST), ("GET", None), ("DELETE", None)):
        mine = raw(service, method, body, key=other, Mcp_Session_Id=session)
        unknown = raw(service, method, body, key=other, Mcp_Session_Id="0" * 32)
        assert mine[:2] == unknown[:2] and mine[0] == 404
        assert raw(service, method, body, key="e2b_" + "0" * 40, Mcp_Session_Id=session)[0] == 401
    assert raw(service, Mcp_Session_Id=session)[0] == 200
    assert raw(service, "DELETE", None, Mcp_Session_Id=session)[0] == 200
    assert raw(service, Mcp_Session_Id=session)[0] == 404


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1", "null", "http://[", "https://{address}"])
def test_page_of_another_origin_is_refused(service, origin) -> None:
    origin = origin.format(address=service.address).replace("https://", "http://x")
    assert raw(service, body=INITIALIZE, Origin=origin)[0] == 403
    # As after DNS rebinding, when the browser believes that the service is the page's own server.
    assert raw(service, body=INITIALIZE, Origin="http://evil.example:8080", Host="evil.example:8080")[0] == 403


def test_page_of_the_service_itself_is_let_in(service) -> None:
    status, _, headers = raw(service, body=INITIALIZE, Origin=f"http://{service.address}")
    assert status == 200
    assert raw(service, "DELETE", None, Mcp_Session_Id=headers["Mcp-Session-Id"])[0] == 200


def test_sessions_of_a_key_are_bounded(service, other) -> None:
    first, second = (opened(service, other) for _ in range(2))
    assert first != second and len(first) == len(second) == 32
    assert raw(service, key=other, Mcp_Session_Id=first)[0] == 200
    third = opened(service, other)  # the second one had no request for the longest time, and ends
    assert raw(service, key=other, Mcp_Session_Id=second)[0] == 404
    with streaming(service, other, first), streaming(service, other, third):
        status, found, headers = raw(service, body=INITIALIZE, key=other)
        assert status == 429 and found["error"] == "TooManySessions" and headers["Retry-After"] == "5"
    for each in (first, third):
        assert raw(service, "DELETE", None, key=other, Mcp_Session_Id=each)[0] == 200


def test_request_that_no_session_takes_leaves_none(service, other) -> None:
    large = {**INITIALIZE, "params": {**INITIALIZE["params"], "_meta": {"x": "x" * (8 << 20)}}}
    wrong = [
        (raw(service, body=LIST, key=other), 400),
        (raw(service, "GET", None, key=other), 400),
        (raw(service, "PATCH", INITIALIZE, key=other), 400),
        (raw(service, body=b'{"initialize"', key=other), 400),
        (raw(service, body=b'["initialize"]', key=other), 400),
        (raw(service, body=large, key=other), 413),
        (service.ask("POST", "/mcp", INITIALIZE, other, Accept="text/html"), 406),
        (raw(service, body=INITIALIZE, key=other, Mcp_Protocol_Version="2026-07-28"), 400),
    ]
    assert [status for (status, _, _), _ in wrong] == [expected for _, expected in wrong]
    sessions = [opened(service, other) for _ in range(2)]
    for session in sessions:  # none of the refused ones counts: both are still there
        assert raw(service, "DELETE", None, key=other, Mcp_Session_Id=session)[0] == 200


def test_calls_without_a_connection_are_bounded(service) -> None:
    async def scenario() -> None:
        async with connected(service) as client:
            sleep = {"command": "sleep 60"}
            calls = [asyncio.ensure_future(client.call_tool("run_command", sleep)) for _ in range(MOST_CALLS + 1)]
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=30)
            [refused] = [call.result() for call in done]
            assert refused.is_error and f"{MOST_CALLS} calls of this session run" in text_of(refused)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            while (await client.call_tool("list_files")).is_error:
                await asyncio.sleep(0.05)

    asyncio.run(scenario())


def test_sandbox_ends_with_the_front_that_was_killed(service, other) -> None:
    async def scenario() -> None:
        async with connected(service, other) as client:
            await client.call_tool("run_command", {"command": "sleep 1000 > log 2>&1 &"})
            assert len(open_sandboxes(service, other)) == 1
            os.kill(service.front, signal.SIGKILL)
            await asyncio.to_thread(wait_for, lambda: is_ready(service))
            await asyncio.to_thread(wait_for, lambda: not open_sandboxes(service, other))

    asyncio.run(scenario())


def test_sandbox_of_a_removed_key_ends(service) -> None:
    key = service.add_key("gone")

    async def scenario() -> None:
        async with connected(service, key) as client:
            call = asyncio.ensure_future(client.call_tool("run_command", {"command": "sleep 60"}))
            await asyncio.to_thread(wait_for, lambda: open_sandboxes(service, key))
            service.remove_key("gone")
            ended = await asyncio.wait_for(call, 30)
            assert ended.is_error

    asyncio.run(scenario())
