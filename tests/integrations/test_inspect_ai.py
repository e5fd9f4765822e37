"""inspect_ai's own checks of a sandbox, over ours; and an evaluation whose model makes mistakes."""

from __future__ import annotations

import inspect_ai
import pytest
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import ToolError, bash, python
from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxEnvironmentSpec,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
)
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

EXCEPTIONS = {
    "test_exec_as_user": "a sandbox has one user without rights; it has no root, and nothing in it can make users",
}


@pytest.fixture(scope="module")
async def shared():
    kind = registry_find_sandboxenv("stockade")
    environments = await kind.sample_init("checks", None, {})
    yield environments["default"]
    await kind.sample_cleanup("checks", None, environments, False)


@pytest.fixture
def sandbox_env(request, shared):
    if request.node.originalname in EXCEPTIONS:
        request.applymarker(pytest.mark.xfail(reason=EXCEPTIONS[request.node.originalname], strict=True))
    return shared


def test_all_checks_are_here():
    assert len(self_check.__all__) >= 44
    assert set(EXCEPTIONS) <= set(self_check.__all__) <= set(globals())


async def test_limits_are_told_in_inspects_words(shared):
    with pytest.raises(OutputLimitExceededError) as limited:
        await shared.exec(["sh", "-c", "head -c 11000000 /dev/zero | tr '\\0' x"])
    assert limited.value.truncated_output
    with pytest.raises(TimeoutError) as late:
        await shared.exec(["sh", "-c", "echo begun; sleep 9"], timeout=1)
    assert late.value.truncated_output == "begun\n"
    hungry = await shared.exec(["python3", "-c", "x = bytearray(3 << 30)"])
    assert not hungry.success and ("memory" in hungry.stderr or "MemoryError" in hungry.stderr)
    missing = await shared.exec(["no-such-program"])
    assert (missing.returncode, missing.stderr) == (127, "no-such-program: command not found")
    with pytest.raises(SandboxUserUnsupportedError):
        await shared.exec(["id"], user="root")


async def test_errors_of_the_guests_making_reach_the_model(shared):
    await shared.exec(["sh", "-c", "mkfifo trap; ln -s loop loop"])
    for path in ("trap", "loop", "trap/below"):
        with pytest.raises(ToolError):
            await shared.read_file(path)
    with pytest.raises(ToolError, match="File too large"):
        await shared.write_file("/tmp/big", bytes(257 << 20))
    with pytest.raises(ToolError, match="No space left"):
        for each in range(3):
            await shared.write_file(f"/tmp/flood/{each}", bytes(200 << 20))
    await shared.exec(["rm", "-r", "/tmp/flood"])
    with pytest.raises(ToolError, match="NUL"):
        await shared.exec(["echo", "a\0b"])


async def test_closed_sandbox_is_unavailable():
    kind = registry_find_sandboxenv("stockade")
    config = kind.config_deserialize({"policy": {"limits": {"memory": "64MiB"}}, "environment": {"A": "b"}})
    environments = await kind.sample_init("checks", config, {})
    assert (await environments["default"].exec(["sh", "-c", "echo $A"])).stdout == "b\n"
    await kind.sample_cleanup("checks", config, environments, False)
    with pytest.raises(SandboxUnavailableError, match="closed"):
        await environments["default"].exec(["true"])
    with pytest.raises(SandboxUnavailableError):
        await environments["default"].write_file("a", "b")


def calls(*steps):
    """Return a model that calls tools in turn, whatever they answer."""
    outputs = [ModelOutput.for_tool_call("mockllm/model", tool, {argument: text}) for tool, argument, text in steps]
    return get_model(
        "mockllm/model", custom_outputs=[*outputs, ModelOutput.from_content("mockllm/model", "the answer is 42")]
    )


def test_evaluation_of_a_model_that_makes_mistakes(tmp_path, monkeypatch):
    monkeypatch.setattr("inspect_ai.model._model.count_text_tokens", len)  # the real one downloads a vocabulary
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter3")
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    model = calls(
        ("python", "code", "print(6 * 7"),
        ("bash", "command", "while :; do :; done"),
        ("bash", "command", "head -c 700000000 /dev/zero > flood; ls -s flood | cut -c1; rm flood"),
        ("bash", "command", f"cat {secret} /etc/shadow; echo $SECRET_OF_THE_HOST"),
        ("bash", "command", "cat data.txt"),
    )
    task = inspect_ai.Task(
        dataset=[
            Sample(input="6 * 7?", target="42", files={"data.txt": "from the sample"}, setup="touch made-by-setup")
        ],
        solver=[use_tools(python(timeout=10), bash(timeout=3)), generate()],
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("stockade"),
    )
    (log,) = inspect_ai.eval(task, model=model, log_dir=str(tmp_path / "logs"), display="none")
    assert log.status == "success", log.error
    (sample,) = log.samples
    told = [message for message in sample.messages if message.role == "tool"]
    assert "SyntaxError" in told[0].text
    assert told[1].error.type == "timeout"
    assert "File size limit exceeded" in told[2].text
    assert "hunter" not in told[3].text and "No such file" in told[3].text
    assert told[4].text == "from the sample"
    assert sample.scores["includes"].value == "C"
