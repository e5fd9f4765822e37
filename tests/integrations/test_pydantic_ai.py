"""pydantic-ai's own checks of a workspace, over ours; and an agent whose model makes mistakes."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.workspaces import (
    WorkspaceError,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

import stockade
from stockade.integrations import pydantic_ai
from stockade.integrations.pydantic_ai import DEFAULT_POLICY, StockadeWorkspace, StockadeWorkspaceBackend

LIMITS = {**DEFAULT_POLICY["limits"], "disk": "128MiB", "output": "1MiB"}


@pytest.fixture(scope="module")
def living():
    with stockade.Sandbox.create({"limits": LIMITS}) as sandbox:
        yield sandbox


@pytest.fixture
def backend(living):
    return StockadeWorkspaceBackend(living)


@pytest.fixture
def fresh_backend():
    made = []

    def fresh():
        made.append(StockadeWorkspaceBackend())
        return made[-1]

    yield fresh
    for each in made:
        asyncio.run(each.close())


class TestConformance(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self, living):
        return StockadeWorkspaceBackend(living)

    @pytest.fixture
    def fresh_backend(self, fresh_backend):
        return fresh_backend

    @pytest.fixture
    def attach_backend(self, living):
        def attach(ref):
            return StockadeWorkspaceBackend(living) if ref.id == living.id else StockadeWorkspaceBackend(ref=ref)

        return attach

    @pytest.fixture
    def destroy_environment(self):
        return lambda backend: backend.close()

    def test_all_checks_are_here(self):
        assert len([name for name in dir(WorkspaceBackendSuite) if name.startswith("test_")]) >= 40


async def test_limits_in_the_words_of_the_framework(backend):
    with pytest.raises(WorkspaceTimeoutError, match="do less at a time") as late:
        await backend.run("echo begun; sleep 60", shell=True, timeout=1)
    assert late.value.stdout == "begun\n"
    with pytest.raises(WorkspaceOutputLimitError, match="write it to a file") as flood:
        await backend.run("head -c 5000000 /dev/zero | tr '\\0' x", shell=True)
    assert flood.value.limit == 1 << 20 and flood.value.stdout
    hungry = await backend.run(["python3", "-c", "x = bytearray(3 << 30)"])
    assert hungry.exit_code != 0 and ("memory" in hungry.stderr or "MemoryError" in hungry.stderr)
    with pytest.raises(ValueError, match="NUL"):
        await backend.run(["echo", "a\0b"])
    with pytest.raises(ValueError, match="timeout"):
        await backend.run(["true"], timeout=float("nan"))
    with pytest.raises(OSError, match="No space left"):
        for number in range(3):
            await backend.write_bytes(f"/tmp/flood/{number}", bytes(60 << 20))
    await backend.remove("/tmp/flood")
    for path in ("/", "/tmp/..", await backend.working_dir()):
        with pytest.raises(ValueError, match="working folder"):
            await backend.remove(path)


async def test_guest_that_ends_the_agent_for_files_gets_another(backend):
    await backend.write_bytes("/tmp/kept", b"kept")
    others = "for each in /proc/[0-9]*; do [ ${each#/proc/} = $$ ] || kill -9 ${each#/proc/}; done"
    await backend.run(others, shell=True)
    with pytest.raises(WorkspaceError, match="try again") as ended:
        await backend.read_bytes("/tmp/kept")
    assert not isinstance(ended.value, WorkspaceUnavailableError)
    assert await backend.read_bytes("/tmp/kept") == b"kept"


async def test_ref_reaches_the_sandbox_until_it_is_closed(fresh_backend):
    first = fresh_backend()
    assert first.ref is None
    await first.write_bytes("/tmp/a", b"1")
    second = StockadeWorkspaceBackend(ref=first.ref)
    assert await second.read_bytes("/tmp/a") == b"1"
    await second.close()
    for each in (first, second, StockadeWorkspaceBackend(ref=WorkspaceRef(provider="stockade", id="0"))):
        with pytest.raises(WorkspaceUnavailableError):
            await each.run(["true"])
        with pytest.raises(WorkspaceUnavailableError):
            await each.read_bytes("/tmp/a")


async def test_sandboxes_past_their_time_are_forgotten_once(monkeypatch):
    old = [await stockade.AsyncSandbox.create({"limits": {"memory": "64MiB"}}) for _ in range(2)]
    monkeypatch.setattr(pydantic_ai, "_kept", {each.id: (0.0, each) for each in old})
    await asyncio.gather(pydantic_ai._forget_old(), pydantic_ai._forget_old())
    assert pydantic_ai._kept == {}
    for each in old:
        with pytest.raises(stockade.SandboxClosed):
            await each.run_command(["true"])


async def test_sandbox_of_yours_takes_no_policy_and_serves_an_agent(living):
    for other in ({"policy": {}}, {"memory": "1GiB"}, {"ref": WorkspaceRef(provider="stockade", id="0")}):
        with pytest.raises(TypeError, match="pass its policy and options"):
            StockadeWorkspaceBackend(living, **other)
    living.files.write("/tmp/mine", b"mine")
    run = await agent_of(calls("cat /tmp/mine")).run("whose?", workspace=StockadeWorkspaceBackend(living))
    assert "0: mine" in str(run.new_messages())


def calls(*commands):
    """Return a model that runs commands in turn, whatever they answer."""
    steps = iter(commands)

    def respond(messages, info):
        command = next(steps, None)
        if command is None:
            return ModelResponse(parts=[TextPart("the answer is 42")])
        return ModelResponse(parts=[ToolCallPart("shell", {"command": command})])

    return FunctionModel(respond)


def agent_of(model, **options):
    agent = Agent(model, capabilities=[StockadeWorkspace(**options)])

    @agent.tool(retries=10)
    async def shell(ctx: RunContext[None], command: str) -> str:
        try:
            done = await ctx.workspace.run(command, shell=True, timeout=2)
        except (WorkspaceTimeoutError, WorkspaceOutputLimitError) as error:
            raise ModelRetry(str(error)) from error
        return f"{done.exit_code}: {done.stdout}{done.stderr}"

    return agent


async def test_agent_whose_model_makes_mistakes(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter3")
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    model = calls(
        "echo 'print(6 * 7' > bad.py; python3 bad.py",
        "while :; do :; done",
        "head -c 700000000 /dev/zero > flood; ls -s flood | cut -c1; rm flood",
        f"cat {secret} /etc/shadow; echo $SECRET_OF_THE_HOST",
        "echo 'print(6 * 7)' > bad.py; python3 bad.py",
    )
    run = await agent_of(model, policy={"limits": LIMITS}).run("6 * 7?")
    assert run.output == "the answer is 42"
    parts = [
        part for message in run.all_messages() for part in message.parts if getattr(part, "tool_name", "") == "shell"
    ]
    syntax, late, flood, secrets, right = (str(part.content) for part in parts if not isinstance(part, ToolCallPart))
    assert "SyntaxError" in syntax
    assert "wall_time" in late and "do less at a time" in late
    assert "No space left" in flood or "File size limit" in flood
    assert "No such file" in secrets and "hunter" not in secrets
    assert right == "0: 42\n"
    assert isinstance(parts[-1], ToolReturnPart)
    # a later run goes on in the sandbox of the message history, and a fresh one starts with nothing
    later = await agent_of(calls("cat bad.py")).run("what was it?", message_history=run.all_messages())
    assert "0: print(6 * 7)" in str(later.new_messages())
    fresh = await agent_of(calls("cat bad.py")).run("what was it?", message_history=run.all_messages(), workspace="new")
    assert "No such file" in str(fresh.new_messages())
    for each in (later, fresh):
        ref = next(m.workspace_ref for m in reversed(each.new_messages()) if getattr(m, "workspace_ref", None))
        await StockadeWorkspaceBackend(ref=ref).close()
