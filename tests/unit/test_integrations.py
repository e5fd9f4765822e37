"""Adapters of frameworks are found by their entry points, and say what to install."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stockade.integrations.texts import cut_text

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("framework", "code", "extra"),
    [
        ("inspect_ai", "import stockade.integrations.inspect_ai", "inspect"),
        ("deepagents", "import stockade.integrations.deepagents", "deepagents"),
        ("pydantic_ai", "import stockade.integrations.pydantic_ai", "pydantic-ai"),
        ("langchain_core", "import stockade.integrations.langchain", "langchain"),
        ("smolagents", "import stockade.integrations.smolagents", "smolagents"),
        ("agents", "import stockade.integrations.openai_agents", "openai-agents"),
        ("jupyter_client", "import stockade.integrations.jupyter", "jupyter"),
        ("opentelemetry", "import stockade.integrations.opentelemetry", "otel"),
        ("mcp", "from stockade.cli.main import main; sys.exit(main(['mcp']))", "mcp"),
    ],
)
def test_adapter_without_its_framework_names_the_extra(framework, code, extra):
    code = f"import sys; sys.modules[{framework!r}] = None; {code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"pip install 'stockade[{extra}]'" in done.stderr.splitlines()[-1]
    assert done.returncode == (125 if "main" in code else 1)


@pytest.mark.parametrize("most", [1, 2, 7])
def test_long_text_is_cut_to_its_bound(most):
    text = cut_text("x" * 100, most)
    assert text.count("x") == most // 2 * 2 and f"{100 - most // 2 * 2} bytes omitted" in text


def test_entry_points_name_modules_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["inspect_ai"] == {"stockade": "stockade.integrations.inspect_ai"}
    assert project["entry-points"]["pytest11"] == {"stockade": "stockade.integrations.pytest"}
    for points in project["entry-points"].values():
        for name in points.values():
            assert importlib.util.find_spec("stockade.integrations"), name
            assert (ROOT / "src" / (name.partition(":")[0].replace(".", "/") + ".py")).is_file()
    assert "inspect" in project["optional-dependencies"]
