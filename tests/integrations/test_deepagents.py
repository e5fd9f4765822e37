"""The standard tests of sandboxes for deepagents, over ours; and an agent whose model makes mistakes."""

from __future__ import annotations

import deepagents
import pytest
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_tests.integration_tests import SandboxIntegrationTests

import stockade
from stockade.integrations.deepagents import DEFAULT_POLICY, StockadeBackend

POLICY = {"limits": {**DEFAULT_POLICY["limits"], "disk": "128MiB"}}

NEWER = tuple(map(int, deepagents.__version__.split(".")[:2])) >= (0, 7)
_PATHS = (
    "deepagents 0.7 returns absolute paths and files only, so that its own rules on paths hold; the tests expect names"
)
EXCEPTIONS = {
    "test_write_existing_file_fails": "deepagents 0.7 replaces a file that exists; the tests expect an error",
    "test_glob": _PATHS,
    "test_glob_basic_pattern": _PATHS,
    "test_glob_with_directories": _PATHS,
    "test_glob_hidden_files_explicitly": _PATHS,
    "test_glob_with_character_class": _PATHS,
    "test_glob_with_question_mark": _PATHS,
}
"""Where deepagents 0.7 departs from the tests of langchain-tests 1.1. With deepagents 0.6 there are no exceptions."""


@pytest.fixture(scope="module")
def living():
    environment = {"PATH": "/tmp/bin:/usr/bin:/bin"}
    with stockade.Sandbox.create(POLICY, environment=environment) as sandbox:
        # the tests call python, and hosts may have python3 alone
        sandbox.run_command(["sh", "-c", "mkdir /tmp/bin && ln -s /usr/bin/python3 /tmp/bin/python"]).check()
        yield sandbox


class TestStandard(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, living):
        return StockadeBackend(living)

    @pytest.fixture(autouse=True)
    def known_departures(self, request):
        reason = EXCEPTIONS.get(request.node.originalname)
        if NEWER and reason:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    def test_all_tests_are_here(self):
        names = [name for name in dir(SandboxIntegrationTests) if name.startswith("test_")]
        assert len(names) >= 85
        assert set(EXCEPTIONS) <= set(names)


def test_limits_reach_the_agent(living):
    backend = StockadeBackend(living)
    late = backend.execute("echo begun; echo wrong >&2; sleep 60", timeout=1)
    assert late.exit_code == 124
    assert late.output.startswith("begun\nwrong\n") and "wall_time" in late.output and "background" in late.output
    hungry = backend.execute("python3 -c 'x = bytearray(1 << 30)'")
    assert hungry.exit_code != 0 and ("memory" in hungry.output or "MemoryError" in hungry.output)
    flood = backend.execute("head -c 5000000 /dev/zero | tr '\\0' x")
    assert flood.truncated and "bytes omitted" in flood.output and len(flood.output) < 3 << 19
    assert backend.execute("echo '", timeout=3).exit_code == 2
    assert "NUL" in backend.execute("echo a\0b").output
    assert backend.execute("sleep 0.1; echo done", timeout=0).output == "done\n"


def test_files_of_the_guests_making_are_errors(living):
    backend = StockadeBackend(living)
    backend.execute("mkfifo /tmp/trap; ln -s /tmp/loop /tmp/loop")
    errors = [each.error for each in backend.download_files(["/tmp/trap", "/tmp/loop", "/etc/shadow", "/tmp/a\0b"])]
    assert all(errors) and errors[2] == "file_not_found"
    full = [each.error for each in backend.upload_files([(f"/tmp/flood/{n}", bytes(50 << 20)) for n in range(3)])]
    assert full[0] is None and "No space left" in str(full[-1])
    backend.execute("rm -r /tmp/flood")
    assert "/tmp can be written" in str(backend.write("/notes.txt", "x").error)


def test_closed_sandbox_ends_the_agent():
    sandbox = stockade.Sandbox.create({"limits": {"memory": "64MiB"}})
    backend = StockadeBackend(sandbox)
    assert backend.id == sandbox.id
    sandbox.close()
    with pytest.raises(stockade.SandboxClosed):
        backend.execute("true")
    with pytest.raises(stockade.SandboxClosed):
        backend.upload_files([("/tmp/a", b"")])


class Scripted(GenericFakeChatModel):
    """A model that calls tools in turn, whatever they answer."""

    def bind_tools(self, tools, **options):
        return self


def calls(*steps):
    asked = [
        AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])
        for number, (name, arguments) in enumerate(steps)
    ]
    return Scripted(messages=iter([*asked, AIMessage("the answer is 42")]))


def test_agent_whose_model_makes_mistakes(living, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter3")
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    model = calls(
        ("write_file", {"file_path": "/tmp/job/bad.py", "content": "print(6 * 7"}),
        ("execute", {"command": "python3 /tmp/job/bad.py"}),
        ("execute", {"command": "while :; do :; done", "timeout": 2}),
        ("execute", {"command": "head -c 700000000 /dev/zero > /tmp/flood; ls -s /tmp/flood | cut -c1; rm /tmp/flood"}),
        ("execute", {"command": f"cat {secret} /etc/shadow; echo $SECRET_OF_THE_HOST"}),
        ("execute", {"command": "seq 100000"}),
        ("edit_file", {"file_path": "/tmp/job/bad.py", "old_string": "7", "new_string": "7)"}),
        ("execute", {"command": "python3 /tmp/job/bad.py"}),
    )
    backend = CompositeBackend(default=StockadeBackend(living), routes={}, artifacts_root="/tmp/agent")
    agent = create_deep_agent(model=model, backend=backend)
    messages = agent.invoke({"messages": [("user", "6 * 7?")]}, {"recursion_limit": 60})["messages"]
    assert messages[-1].content == "the answer is 42"
    _, syntax, late, flood, secrets, long, _, right = (each.text for each in messages if isinstance(each, ToolMessage))
    assert "SyntaxError" in syntax
    assert "wall_time" in late and "do less at a time" in late
    assert "No space left" in flood or "File size limit" in flood
    assert "No such file" in secrets and "hunter" not in secrets
    assert "/tmp/agent/large_tool_results/" in long and len(long) < 20_000
    assert right.startswith("42")
