"""Backends of other packages are found by their entry point, and chosen and run like the built-in ones."""

import sys

import pytest

import stockade
from stockade.backends import registry

MODULE = """
from stockade.backends.native.backend import Native

class Mine(Native):
    name = "mine"
"""
ENTRY = "[stockade.backends]\nmine = their_package:Mine\nnative = their_package:Mine\n"
METADATA = "Metadata-Version: 2.1\nName: their-package\nVersion: 1\n"


@pytest.fixture
def their_package(tmp_path, monkeypatch):
    (tmp_path / "their_package.py").write_text(MODULE)
    info = tmp_path / "their_package-1.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(ENTRY)
    (info / "METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._others.cache_clear()
    yield
    registry._others.cache_clear()
    sys.modules.pop("their_package", None)


@pytest.mark.needs("native")
def test_backend_found_by_entry_point_runs(their_package):
    assert stockade.run_command(["echo", "x"], backend="mine").stdout == "x\n"
    assert registry.others() == ["mine"]
    assert (
        type(registry.find("native")).__module__ == "stockade.backends.native.backend"
    )  # a built-in name cannot be taken
    with pytest.raises(stockade.BackendUnavailable, match="landlock, metered, microvm, mine, native"):
        registry.find("nobodys")
