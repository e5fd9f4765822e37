"""An agent of the OpenAI Agents SDK whose model makes mistakes, in a living sandbox; and sessions of the client."""

from __future__ import annotations

import io
import urllib.request
from pathlib import Path

import pytest
from agents import Runner, set_tracing_disabled
from agents.run import RunConfig
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.entries import File, InContainerMountStrategy, LocalFile, RcloneMountPattern, S3Mount
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
)
from agents.sandbox.snapshot import LocalSnapshotSpec, NoopSnapshotSpec
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall

import stockade
from stockade.integrations.openai_agents import (
    DEFAULT_POLICY,
    StockadeSandboxClient,
    StockadeSandboxClientOptions,
)
from stockade.integrations.openai_agents.processes import MOST_WAITING

LIMITS = {**DEFAULT_POLICY["limits"], "disk": "64MiB", "output": "1MiB", "memory": "512MiB"}
PATCH = "*** Begin Patch\n*** Update File: {}\n@@\n-print(6 * 7\n+print(6 * 7)\n*** End Patch"
set_tracing_disabled(True)


@pytest.fixture(scope="module")
def client():
    return StockadeSandboxClient({"limits": LIMITS})


@pytest.fixture(scope="module")
async def session(client):
    made = await client.create(
        manifest=Manifest(entries={"notes/a.txt": File(content=b"one\n")}),
        options=StockadeSandboxClientOptions(exposed_ports=(8000,)),
    )
    async with made:
        yield made
    await client.delete(made)


def calls(*tools):
    """Return a model that calls tools in turn, whatever they answer."""
    steps = [[call(f"call-{number}", *each)] for number, each in enumerate(tools)]
    return ScriptedModel([*steps, [assistant_message("the answer is 42")]])


def call(number, name, fields):
    if isinstance(fields, dict):
        return function_call(name, fields, call_id=number)
    return ResponseCustomToolCall(type="custom_tool_call", call_id=number, name=name, input=fields)


async def answers(model, config, **options):
    """Run an agent, and return its final output and what its tools have answered."""
    agent = SandboxAgent(name="Worker", model=model, capabilities=[Shell(), Filesystem()], **options)
    run = await Runner.run(agent, "6 * 7?", run_config=RunConfig(sandbox=config), max_turns=20)
    return run.final_output, [str(each.output) for each in run.new_items if each.type == "tool_call_output_item"]


def shell(cmd, seconds=30, **more):
    return "exec_command", {"cmd": cmd, "yield_time_ms": seconds * 1000, **more}


async def test_agent_whose_model_makes_mistakes(client, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter3")
    secret, data = tmp_path / "secret", tmp_path / "data"
    secret.write_text("hunter2")
    data.write_text("from the host\n")
    monkeypatch.chdir(tmp_path)
    model = calls(
        shell("cat data; echo 'print(6 * 7' > bad.py; python3 bad.py"),
        shell("while :; do :; done", seconds=1),
        shell("head -c 200000000 /dev/zero > flood; ls -s flood | cut -c1; rm flood"),
        shell("python3 -c 'x = bytearray(3 << 30)'"),
        shell(f"cat {secret} /etc/shadow; echo $SECRET_OF_THE_HOST"),
        shell("head -c 3000000 /dev/zero | tr '\\0' x"),
        shell("echo a\0b"),
        ("write_stdin", {"session_id": 1, "chars": "x"}),
        ("apply_patch", PATCH.format("missing.py")),
        ("apply_patch", PATCH.format("bad.py")),
        shell("python3 bad.py"),
    )
    manifest = Manifest(entries={"data": LocalFile(src="data")})
    config = SandboxRunConfig(client=client, snapshot=NoopSnapshotSpec())
    output, told = await answers(model, config, default_manifest=manifest)
    assert output == "the answer is 42"
    syntax, late, flood, memory, secrets, long, nul, stranger, missing, patched, right = told
    assert "from the host" in syntax and "SyntaxError" in syntax and "exited with code 1" in syntax
    assert "running with session ID" in late
    assert "No space left" in flood or "File size limit" in flood
    assert "MemoryError" in memory or "memory" in memory
    assert "No such file" in secrets and "hunter" not in secrets
    assert "bytes omitted" in long and len(long) < 2 * MOST_WAITING
    assert "NUL" in nul and "exited with code 126" in nul
    assert "session not found" in stranger
    assert "missing.py" in missing
    assert "42" in right, (patched, right)
    assert not client._open


async def test_process_goes_on_between_calls(session):
    started = await session.pty_exec_start("cat", tty=True, yield_time_s=0.3)
    assert started.process_id and started.exit_code is None
    typed = await session.pty_write_stdin(session_id=started.process_id, chars="gr\u00fc\u00df\n", yield_time_s=1)
    assert typed.output.decode().count("gr\u00fc\u00df") == 2  # the echo of the terminal, and cat
    ended = await session.pty_write_stdin(session_id=started.process_id, chars="\x03", yield_time_s=20)
    assert (ended.process_id, ended.exit_code) == (None, 130)
    plain = await session.pty_exec_start("echo begun; sleep 60", yield_time_s=0.3)
    with pytest.raises(RuntimeError, match="stdin is not available"):
        await session.pty_write_stdin(session_id=plain.process_id, chars="x")
    await session.pty_terminate_all()
    assert (await session.exec("pgrep -x sleep")).exit_code == 1


async def test_command_and_its_limits(session):
    done = await session.exec("cat notes/a.txt; echo bad >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code) == (b"one\n", b"bad\n", 3)
    assert (await session.exec("/missing", shell=False)).exit_code == 127
    with pytest.raises(ExecTimeoutError) as late:
        await session.exec("echo begun; sleep 60", timeout=1)
    assert late.value.context["stdout"] == "begun\n" and "do less at a time" in str(late.value.context["reason"])
    flood = await session.exec("head -c 3000000 /dev/zero | tr '\\0' x")
    assert b"bytes omitted" in flood.stdout and len(flood.stdout) < 2 << 20
    with pytest.raises(ValueError, match="one user, without rights"):
        await session.exec("id", user="root")


async def test_files_stay_inside_and_errors_say_why(session, tmp_path):
    await session.write(Path("made/b.bin"), io.BytesIO(b"\0\xff"))
    assert (await session.read(Path("made/b.bin"))).read() == b"\0\xff"
    assert {Path(each.path).name for each in await session.ls("made")} >= {"b.bin"}
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    await session.exec(f"ln -s {secret} link; mkfifo pipe")
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("link"))
    with pytest.raises(WorkspaceArchiveReadError, match="regular file"):
        await session.read(Path("pipe"))
    with pytest.raises(WorkspaceArchiveWriteError, match="No space left"):
        for number in range(3):
            await session.write(Path(f"flood/{number}"), io.BytesIO(bytes(30 << 20)))
    await session.rm("flood", recursive=True)


async def test_exposed_port_leads_to_a_server(session):
    server = await session.pty_exec_start("cd notes && python3 -u -m http.server 8000", yield_time_s=0.5)
    endpoint = await session.resolve_exposed_port(8000)
    for _ in range(100):
        if (await session.exec("ss -ltn 2>/dev/null | grep -q 8000 || grep -q ':1F40 ' /proc/net/tcp")).exit_code == 0:
            break
    assert urllib.request.urlopen(f"http://{endpoint.host}:{endpoint.port}/a.txt", timeout=20).read() == b"one\n"
    assert server.process_id


async def test_resumed_session_gets_the_policy_of_its_client(tmp_path):
    spec = LocalSnapshotSpec(base_path=tmp_path)
    first = StockadeSandboxClient({"limits": {**LIMITS, "processes": 20}})
    session = await first.create(snapshot=spec)
    async with session:
        await session.exec("mkdir kept; echo yes > kept/a; ln -s a kept/b; chmod 700 kept/a")
    stored = first.serialize_session_state(session.state)
    second = StockadeSandboxClient({"limits": {**LIMITS, "processes": 12}})
    again = await second.resume(second.deserialize_session_state(dict(stored)))
    async with again:
        assert (await again.exec("cat kept/b; test -x kept/a")).stdout == b"yes\n"
        assert again._inner._sandbox.policy.limits.processes == 12
        # a client goes on in a sandbox that it has not closed
        same = await second.resume(second.deserialize_session_state(second.serialize_session_state(again.state)))
        await same.start()
        assert same._inner._sandbox is again._inner._sandbox


async def test_archive_of_holes_is_refused(client):
    session = await client.create()
    async with session:
        await session.exec("truncate -s 250M hole")
        with pytest.raises(WorkspaceArchiveReadError) as large:
            await session.persist_workspace()
        assert "holes" in str(large.value.context["reason"])
        with pytest.raises(WorkspaceArchiveWriteError) as broken:
            await session.hydrate_workspace(io.BytesIO(b"no archive" * 1000))
        assert "tar" in str(broken.value.context["reason"])


async def test_session_whose_sandbox_has_ended_does_not_start_another(client):
    session = await client.create()
    await session.start()
    await session._inner._sandbox.close()
    assert not await session.running()
    with pytest.raises(ExecTransportError, match="closed"):
        await session.exec("true")
    with pytest.raises(WorkspaceStartError):
        await session.start()
    await client.delete(session)


async def test_manifest_beyond_a_sandbox_is_refused_at_once(client):
    mount = S3Mount(bucket="b", mount_strategy=InContainerMountStrategy(pattern=RcloneMountPattern()))
    for manifest, why in (
        (Manifest(root="/srv"), "the workspace of a sandbox is /workspace"),
        (Manifest(users=[{"name": "root"}]), "one user"),
        (Manifest(entries={"bucket": mount}), "no rights to mount"),
    ):
        with pytest.raises(ValueError, match=why):
            await client.create(manifest=manifest)
    with pytest.raises(TypeError, match="LocalDir"):
        StockadeSandboxClient(workspace="/tmp")
    with pytest.raises(ValueError, match="leave it 'empty'"):
        StockadeSandboxClient({"filesystem": {"workspace": "/tmp"}})
    with pytest.raises(stockade.PolicyError):
        StockadeSandboxClient({"limits": {"memry": 1}})
