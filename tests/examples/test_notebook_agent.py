"""The example of a notebook-like agent shows errors and interrupts to its model, and keeps state over both."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import notebook_agent


def test_notebook_agent_keeps_state_over_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook_agent.main(tmp_path)
    seen = capsys.readouterr().out.split("\n\n")
    assert "(3, {'month': 'May', 'sales': '3'})" in seen[1]
    assert "TypeError" in seen[2]
    assert seen[3].strip() == "16"
    assert "took too long" in seen[4]
    assert "image/png" in seen[5]
    assert (tmp_path / "picture-5.png").read_bytes().startswith(b"\x89PNG")
