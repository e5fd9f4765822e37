"""Adapters of frameworks are found by their entry points, and say what to install."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_adapter_without_its_framework_names_the_extra():
    code = "import sys; sys.modules['inspect_ai'] = None; import stockade.integrations.inspect_ai"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'stockade[inspect]'" in done.stderr.splitlines()[-1]


def test_entry_points_name_modules_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["inspect_ai"] == {"stockade": "stockade.integrations.inspect_ai"}
    for points in project["entry-points"].values():
        for name in points.values():
            assert importlib.util.find_spec("stockade.integrations"), name
            assert (ROOT / "src" / (name.replace(".", "/") + ".py")).is_file()
    assert "inspect" in project["optional-dependencies"]
