"""smolagents' agent over our executor: a model that makes mistakes, and what crosses the wall."""

from __future__ import annotations

import datetime
import gc
import re
import runpy
from decimal import Decimal
from pathlib import Path

import numpy
import PIL.Image
import pytest
import smolagents
from smolagents.local_python_executor import InterpreterError

import stockade
from stockade.integrations.smolagents import DEFAULT_POLICY, StockadeExecutor
from stockade.integrations.smolagents.values import packed, unpacked


class Script(smolagents.Model):
    """A model that answers with one piece of code after another, whatever it is told."""

    def __init__(self, *steps):
        super().__init__(model_id="script")
        self.steps, self.told = list(steps), []

    def generate(self, messages, **_options):
        self.told.append("\n".join(str(part.get("text")) for message in messages[-2:] for part in message.content))
        text = f"Thought: next.\n<code>\n{self.steps.pop(0)}\n</code>"
        return smolagents.ChatMessage(role=smolagents.MessageRole.ASSISTANT, content=text)


@pytest.fixture(scope="module")
def executor():
    with StockadeExecutor(timeout=30) as made:
        made.send_tools({"final_answer": smolagents.FinalAnswerTool()})
        yield made


def test_agent_whose_model_makes_mistakes(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter3")
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    asked = []

    @smolagents.tool
    def capital(country: str) -> str:
        """Return the capital of a country.

        Args:
            country: The name of the country.
        """
        asked.append(country)
        return {"France": "Paris", "secret": secret.read_text()}[country]

    model = Script(
        "x = 6 *",
        "kept = 6\nwhile True: pass",
        "with open('flood', 'wb') as file:\n    while True: file.write(bytes(1 << 20))",
        "import os\nos.remove('flood')\ndata = b'x' * (3 << 30)",
        f"import os\nprint(os.environ.get('SECRET_OF_THE_HOST'))\nopen({str(secret)!r}).read()",
        "import os\nos._exit(3)",
        "kept",
        "print(capital('Atlantis'))",
        "print('x' * 200_000)",
        "kept = 7\ncity = capital(country='France')",
        "final_answer(f'{city} {kept * 6} {given}')",
    )
    policy = {"limits": DEFAULT_POLICY["limits"] | {"memory": "192MiB", "disk": "64MiB", "file_size": "32MiB"}}
    with StockadeExecutor(policy=policy, timeout=10, max_print_outputs_length=3000) as made:
        agent = smolagents.CodeAgent([capital], model, executor=made, max_steps=20, verbosity_level=-1)
        assert agent.run("Find it.", additional_args={"given": [1, {"a": 2}]}) == "Paris 42 [1, {'a': 2}]"
    told = model.told[1:]
    assert "SyntaxError" in told[0]
    assert "longer than 10 s" in told[1] and "Variables keep their values" in told[1]
    assert "File too large" in told[2] or "No space left" in told[2]
    assert "limit on memory" in told[3] or "MemoryError" in told[3]  # a control group's, or the process's own
    assert "None" in told[4] and "FileNotFoundError" in told[4] and "hunter" not in "".join(told)
    assert "exited with status 3" in told[5] and "A fresh interpreter has started" in told[5]
    assert "NameError" in told[6]
    assert "KeyError: 'Atlantis'" in told[7]
    assert "bytes omitted" in told[8] and len(told[8]) < 5000
    assert asked == ["Atlantis", "France"]


def test_example_of_the_guide(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs/guides/smolagents.md").read_text()
    example = tmp_path / "example.py"  # a tool's source is read from a file
    example.write_text(re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0])
    model = Script("final_answer(2 * price('apple') + price('pear'))")
    monkeypatch.setattr(smolagents, "InferenceClientModel", lambda: model)
    runpy.run_path(str(example))
    assert capsys.readouterr().out.splitlines()[-1] == "10.0"


VALUES = [
    None, True, -(2**70), 1.5, float("inf"), "text", b"bytes", 2j, [1, (2, {3}), frozenset({4})], {1: {"a": (None,)}},
    datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), datetime.timedelta(1), Decimal("1.10"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_data_crosses_the_wall_both_ways(executor, value):
    executor.send_variables({"value": value})
    assert executor("value").output == value
    ended = executor("final_answer(value)")
    assert ended.is_final_answer and ended.output == value and type(ended.output) is type(value)


def test_step_gives_logs_value_and_state(executor):
    step = executor("import math\nx = 40\nprint('hello')\nx + 2")
    assert (step.output, step.logs, step.is_final_answer) == (42, "hello\n", False)
    assert executor("math.floor(x + .5)").output == 40
    assert executor("object").output == "<class 'object'>"  # not data, so its repr
    caught = executor("try:\n    final_answer(7)\nexcept BaseException:\n    pass\n8")
    assert (caught.output, caught.is_final_answer) == (7, True)
    with pytest.raises(InterpreterError, match="ZeroDivisionError"):
        executor("print('before')\n1 / 0")
    assert executor.state["_print_outputs"] == "before\n"


def test_pictures_and_arrays_cross_as_numbers():
    picture = PIL.Image.frombytes("RGB", (2, 1), bytes(range(6)))
    array = numpy.arange(6, dtype="<f4").reshape(2, 3)
    back = unpacked(packed({"both": [picture, array, numpy.int64(3), numpy.str_("s")]}))["both"]
    assert back[0].tobytes() == picture.tobytes() and back[0].size == (2, 1)
    assert (back[1] == array).all() and back[1].dtype == array.dtype and back[2:] == [3, "s"]
    for wrong in (
        {"stockade:picture": ["RGB", 1 << 30, 1 << 30, b"x"]},
        {"stockade:picture": ["P", 1, 1, b"x"]},
        {"stockade:picture": []},
        {"stockade:array": ["|b1", [1], b"\2"]},  # numpy would sum it to 2
        {"stockade:array": ["<f16", [1], bytes(16)]},
        {"stockade:array": ["|O8", [1], bytes(8)]},
        {"stockade:array": ["<f8", [-1], bytes(8)]},
        {"stockade:array": ["<f8", [2], bytes(8)]},
    ):
        with pytest.raises(ValueError):
            unpacked(wrong)


def test_picture_without_pixels_reserves_no_memory():
    forged = {"stockade:picture": ["P", 20_000, 20_000, b""]}
    before = peak()
    with pytest.raises(ValueError, match="size is not that of its pixels"):
        unpacked(forged)
    assert peak() < before + (100 << 10)
    with pytest.raises(ValueError):  # the control: Pillow reserves 400 MB before it misses the pixels
        PIL.Image.frombytes("P", (20_000, 20_000), b"")
    assert peak() > before + (300 << 10)


def peak():
    """Return the most address space that this process has had, in KiB."""
    return int(re.search(r"VmPeak:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def test_value_that_is_too_large_keeps_the_interpreter(executor):
    executor.send_tools({"measure": len})
    for length in (8 << 20, 40 << 20):
        with pytest.raises(InterpreterError, match="it takes more than 8,388,608 bytes"):
            executor(f"kept = 6\nmeasure('x' * {length})")
        assert executor("kept * 7").output == 42
    assert executor(f"'x' * {20 << 20}").output.startswith("'xxx")  # its repr
    assert executor("kept * 7").output == 42


def test_picture_of_a_tool_reaches_code_with_pillow():
    import sys

    seen = []
    with StockadeExecutor(["PIL", "numpy"], packages=sys.prefix, timeout=60) as made:
        picture = PIL.Image.new("RGB", (3, 2), (1, 2, 3))
        made.send_tools({"camera": lambda: picture, "show": seen.append, "final_answer": lambda answer: answer})
        made("image = camera()\nshow(image.rotate(90, expand=True))")
        assert seen[0].size == (2, 3) and seen[0].getpixel((0, 0)) == (1, 2, 3)
        assert made("import numpy\nfinal_answer(numpy.asarray(image).sum(axis=(0, 1)))").output.tolist() == [6, 12, 18]


def test_what_is_no_data_is_refused_with_the_remedy(executor):
    with pytest.raises(TypeError, match="variable 'lock' cannot cross"):
        executor.send_variables({"lock": object()})
    with pytest.raises(TypeError, match="all variables together cannot cross"):
        executor.send_variables({"one": "x" * (5 << 20), "other": "x" * (5 << 20)})
    executor.send_variables({"one": 1})  # those that were refused are forgotten
    executor.send_tools({"strange": lambda: object()})
    with pytest.raises(InterpreterError, match=r"HostError: the value of strange\(\) cannot cross the wall"):
        executor("strange()")
    with pytest.raises(InterpreterError, match="there is no tool 'nothing'"):
        executor("_stockade.ask('call', 'nothing', (), {})")
    for request in ("'other'", "'call', 'strange'", "'call', 3, (), {}", "'variables', 1"):
        with pytest.raises(InterpreterError, match="a request that does not exist"):
            executor(f"_stockade.ask({request})")
    with pytest.raises(InterpreterError, match="HostError"):
        executor("_stockade_host('no base64')")


def test_executor_checks_its_arguments(executor):
    with pytest.raises(InterpreterError, match=r"lacks modules .*\['no_such_module'\]"):
        StockadeExecutor(["json", "no_such_module.sub"])
    with pytest.raises(TypeError, match="pass its policy"):
        StockadeExecutor(sandbox=executor.sandbox, memory="1GiB")
    for seconds in (None, -1, float("nan")):
        with pytest.raises(stockade.JobError, match=r"timeout = .*: a positive number of seconds"):
            StockadeExecutor(timeout=seconds)
    with StockadeExecutor(sandbox=executor.sandbox) as second:
        assert second("1 + 1").output == 2
    assert executor("1 + 1").output == 2  # the sandbox of the caller stays open


def test_closed_sandbox_is_an_error_that_says_so():
    made = StockadeExecutor()
    made.sandbox.close()
    with pytest.raises((stockade.StockadeError, InterpreterError), match=r"sandbox .*(closed|ended)"):
        made("1")
    made.cleanup()
    gc.collect()
