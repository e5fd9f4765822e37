"""LangChain's standard tests of tools, over ours; and a model that makes mistakes."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from langchain_core.messages import ToolCall
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

import stockade
from stockade.integrations.langchain import StockadePythonTool


@pytest.fixture(scope="module")
def sandbox():
    with stockade.Sandbox.create({"limits": {"wall_time": "1min", "memory": "256MiB", "disk": "64MiB"}}) as sandbox:
        yield sandbox


class Standard:
    tool_constructor = StockadePythonTool
    tool_invoke_params_example = MappingProxyType({"code": "6 * 7"})

    @pytest.fixture(autouse=True)
    def living(self, sandbox):
        self.sandbox = sandbox

    @property
    def tool_constructor_params(self):
        return {"sandbox": self.sandbox}


class TestUnit(Standard, ToolsUnitTests):
    pass


class TestIntegration(Standard, ToolsIntegrationTests):
    pass


def test_mistakes_get_errors_to_act_on(sandbox, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter3")
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    tool = StockadePythonTool(sandbox=sandbox)

    def answer(code):
        return tool.invoke({"code": code})

    answer("kept = 6")
    assert "SyntaxError" in answer("print(6 * 7")
    assert "the time was over" in StockadePythonTool(sandbox=sandbox, timeout=1).invoke({"code": "while True: pass"})
    assert "No space left" in answer("for n in range(3): open(f'flood{n}', 'wb').write(bytes(30 << 20))")
    assert "FileNotFoundError" in answer(f"open({str(secret)!r}).read()")
    assert answer("import os; str(os.environ.get('SECRET_OF_THE_HOST'))") == "'None'"
    assert "bytes omitted" in answer("print('x' * 100_000)") and len(answer("'x' * 100_000")) < 40_000
    assert answer("kept * 7") == "42"
    gone = answer("bytearray(1 << 30)")
    assert "MemoryError" in gone or ("the interpreter is gone" in gone and "memory" in gone)
    assert "NUL" in answer("a\0b")


def test_answer_has_the_result(sandbox):
    with pytest.raises(ValueError, match="timeout"):
        StockadePythonTool(sandbox=sandbox, timeout=0)
    tool = StockadePythonTool(sandbox=sandbox)
    answer = tool.invoke(ToolCall(type="tool_call", name="run_python", args={"code": "6 * 7"}, id="1"))
    assert answer.content == "42" and answer.artifact.value_repr == "42"
    tool.invoke({"code": "import os; os._exit(3)"})
    assert (
        tool.invoke({"code": "1"})
        == "The interpreter is a fresh one: variables of earlier calls are gone, files are kept.\n1"
    )
