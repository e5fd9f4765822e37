"""A test that looks at the whole host says so, since ``scripts/test.sh`` runs other tests side by side."""

from __future__ import annotations

import re
from pathlib import Path

KERNEL = [path for part in ("escape", "system", "contract", "cli") for path in Path("tests", part).rglob("test_*.py")]


def test_module_that_compares_the_host_runs_alone() -> None:
    texts = {str(path): path.read_text(encoding="utf-8") for path in KERNEL}
    comparing = {name for name, text in texts.items() if "host.as_before(" in text}
    marked = {name for name in comparing if re.search(r"pytestmark = .*mark\.(timing|alone)", texts[name])}
    assert comparing == marked != set()
