"""``stockade mcp`` and its tools, with the real client of the SDK: over stdio, and in memory where the transport does not matter."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult
from tests.support import host

from stockade import JobError, Secret
from stockade.integrations.mcp import DEFAULT_LIMITS, Single, choose, make_server

POLICY = {"limits": {**DEFAULT_LIMITS, "memory": "128MiB", "file_size": "1MiB", "disk": "4MiB", "wall_time": "30s"}}
PNG = b"\x89PNG\r\n\x1a\n..."
SHOWN = f"from IPython.display import Image, display\ndisplay(Image({PNG!r}))\nx = 6 * 7\nprint('shown')\nx"
CLIENT = """
import json, subprocess, sys

server = subprocess.Popen([sys.executable, "-m", "stockade", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def say(method, number=None, **params):
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})
    server.stdin.write(json.dumps(message).encode() + b"\\n")
    server.stdin.flush()

say("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "old", "version": "1"})
server.stdout.readline()
say("notifications/initialized")
say("tools/call", 2, name="run_command", arguments={"command": "setsid sleep 1000 > log 2>&1 &"})
server.stdout.readline()
code = "print('begun', flush=True)\\nwhile True: pass"
say("tools/call", 3, name="run_python", arguments={"code": code}, _meta={"progressToken": 1})
print(server.stdout.readline(), flush=True)
server.wait()
"""
"""A client without the SDK, of an older protocol: it waits for a call that does not end."""


def text_of(result: CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if each.type == "text")


@asynccontextmanager
async def in_memory(**options: Any) -> AsyncIterator[Client]:
    place = choose(POLICY, **options)
    try:
        async with Client(make_server(place)) as client:
            yield client
    finally:
        await place.close()


def test_tools_over_stdio_keep_state_and_can_be_cancelled() -> None:
    async def scenario() -> None:
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "stockade", "mcp", "--limit", "output=64KiB"]
        )
        async with Client(command) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert set(tools) == {"run_python", "run_command", "write_file", "read_file", "list_files", "reset", "plan"}
            assert tools["run_python"].input_schema["properties"]["timeout"] == {
                "default": 60, "exclusiveMinimum": 0, "title": "Timeout", "type": "number",
                "description": "Seconds on the clock after which the call is ended",
            }  # fmt: skip
            assert tools["run_python"].annotations.open_world_hint is False
            assert tools["run_python"].output_schema["properties"]["advice"]

            shown = await client.call_tool("run_python", {"code": SHOWN})
            assert not shown.is_error and shown.structured_content["value"] == "42"
            assert [each.type for each in shown.content] == ["text", "image"]
            assert base64.b64decode(shown.content[1].data) == PNG and shown.content[1].mime_type == "image/png"
            assert text_of(await client.call_tool("run_python", {"code": "x + 1"})) == "43"

            await client.call_tool("write_file", {"path": "a/text", "content": "héllo\n"})
            part = await client.call_tool("read_file", {"path": "a/text", "max_bytes": 2})
            assert part.structured_content["content"] == "h" and part.structured_content["remaining"] == 6
            listed = await client.call_tool("list_files", {"path": "a"})
            assert listed.structured_content["entries"] == [{"name": "text", "kind": "file", "size": 7}]
            done = await client.call_tool("run_command", {"command": "cat a/text; cat; exit 3", "stdin": "given"})
            assert done.is_error and done.structured_content["exit_code"] == 3
            assert done.structured_content["stdout"] == "héllo\ngiven"
            plan = (await client.call_tool("plan")).structured_content
            assert plan["keeps_state"] and plan["guarantees"]["memory"]["limit"] == "1 GiB"

            running = asyncio.Event()

            async def report(passed: float, total: float | None, message: str | None) -> None:
                if message and message.endswith("begun"):
                    running.set()

            code = {"code": "print('begun')\nwhile True: pass"}
            call = asyncio.ensure_future(client.call_tool("run_python", code, progress_callback=report))
            await asyncio.wait_for(running.wait(), 30)
            call.cancel()
            after = await client.call_tool("run_python", {"code": "x + 2"}, read_timeout_seconds=30)
            assert text_of(after) == "44"  # the loop was interrupted, and the variables are kept

    asyncio.run(scenario())


def test_model_that_makes_mistakes_gets_errors_to_act_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter3")
    (tmp_path / "secret").write_text("hunter2")
    secret = f"cat {tmp_path}/secret /etc/shadow; echo secret=$SECRET_OF_THE_HOST; exit 1"
    mistakes = [
        ("run_python", {"code": "print(6 * 7"}, "SyntaxError"),
        ("run_python", {"code": "while True: pass", "timeout": 1}, "longer than 1 s"),
        ("run_command", {"command": "while :; do :; done", "timeout": 1}, "pass a longer timeout (at most 30)"),
        ("run_command", {"command": "head -c 2000000 /dev/zero > flood"}, "write smaller ones"),
        ("write_file", {"path": "big", "content": "x" * 2_000_000}, "A file has 1 MiB at most here"),
        (
            "run_python",
            {"code": "for n in range(9): open(str(n), 'wb').write(bytes(900_000))"},
            "The disk of 4 MiB is full",
        ),
        ("run_command", {"command": secret}, "no other file of the host"),
        ("run_python", {"code": "import nowhere"}, "--with nowhere"),
        ("run_python", {"code": "import urllib.request as r; r.urlopen('http://example.com')"}, "has no network"),
        ("run_python", {"code": "import os; os._exit(3)"}, "starts a fresh interpreter"),
        ("run_python", {"code": "bytearray(1 << 30)"}, "with --limit"),
        ("read_file", {"path": "nothing"}, "list_files shows"),
    ]

    async def scenario() -> None:
        async with in_memory() as client:
            for tool, arguments, wanted in mistakes:
                found = await client.call_tool(tool, arguments)
                assert found.is_error and wanted in text_of(found), (arguments, text_of(found))
                assert "hunter" not in text_of(found)
            odd = await client.call_tool(
                "run_python", {"code": "class Odd:\n    __repr__ = lambda self: '\\ud800'\nOdd()"}
            )
            assert odd.structured_content["value"] == "?"
            await client.call_tool("run_python", {"code": "import os; os._exit(0)"})
            fresh = await client.call_tool("run_python", {"code": "print('x' * 200_000, 'end')"})
            assert not fresh.is_error and "variables of earlier calls are gone" in text_of(fresh)
            stdout = fresh.structured_content["stdout"]
            assert "\n[... 170005 bytes omitted ...]\n" in stdout and stdout.endswith("x end\n")
            assert len(stdout) < 31_000 and "read parts with read_file" in text_of(fresh)

    asyncio.run(scenario())


def test_sandbox_without_use_ends_and_reset_ends_it_at_once() -> None:
    async def scenario() -> None:
        async with in_memory(idle_timeout=0.5) as client:
            await client.call_tool("write_file", {"path": "kept", "content": "1"})
            await asyncio.sleep(2)
            listed = await client.call_tool("list_files")
            assert listed.structured_content["entries"] == [] and "files and variables of earlier calls" in text_of(
                listed
            )
            await client.call_tool("write_file", {"path": "kept", "content": "1"})
            await client.call_tool("reset")
            assert text_of(await client.call_tool("list_files")) == "(empty)"

    asyncio.run(scenario())


def test_wrong_options_fail_before_the_server_starts() -> None:
    secret = {"KEY": Secret("value", hosts=["api.example.com"])}
    for options in ({"idle_timeout": -1}, {"secrets": secret}, {"packages": "/nowhere"}):
        with pytest.raises(JobError):
            choose(POLICY, **options)


@pytest.mark.needs("bwrap")
def test_backend_without_living_sandboxes_runs_each_call_afresh() -> None:
    with pytest.raises(JobError, match="packages"):
        choose(POLICY, backend="bubblewrap", packages="/nowhere")

    async def scenario() -> None:
        place = choose(POLICY, backend="bubblewrap")
        assert isinstance(place, Single)
        async with Client(make_server(place)) as client:
            assert [each.name for each in (await client.list_tools()).tools] == ["run_python", "run_command", "plan"]
            await client.call_tool("run_command", {"command": "echo > kept"})
            assert text_of(await client.call_tool("run_command", {"command": "ls"})) == "(no output)"
            late = await client.call_tool("run_command", {"command": "sleep 9", "timeout": 0.5})
            assert late.structured_content["limit"] == "wall_time" and "longer than 0.5 s" in text_of(late)

    asyncio.run(scenario())


def test_client_killed_leaves_no_process() -> None:
    with subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None and "notifications/progress" in client.stdout.readline()
        made = host.descendants(client.pid)
        assert {"sleep"} <= {host.name(pid) for pid in made}
        os.kill(client.pid, signal.SIGKILL)
    gone = host.eventually(lambda: all(host.state(pid) in ("", "Z") for pid in made), 30)
    assert gone, {pid: host.name(pid) for pid in made if host.state(pid) not in ("", "Z")}
