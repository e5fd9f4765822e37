"""No run exceeds a limit by more than the stated bound; ``bench/overshoot.py`` measures the same with more runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.timing

RUNS = 5
MIB = 1 << 20


def _load() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "overshoot.py"
    spec = importlib.util.spec_from_file_location("overshoot", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["overshoot"] = module
    spec.loader.exec_module(module)
    return module


overshoot = _load()


def test_wall_time_overshoot_within_50_ms() -> None:
    line = overshoot.wall_time(RUNS)
    assert line.ok, line


def test_cpu_time_overshoot_within_100_ms() -> None:
    line = overshoot.cpu_time(RUNS)
    assert line.ok, line


@pytest.mark.parametrize("size", [64 * MIB, 256 * MIB, 1024 * MIB])
def test_memory_is_exceeded_by_forced_charges_alone(size) -> None:
    line = overshoot.memory(size, 3)
    assert line.ok, line


@pytest.mark.needs("unprivileged")
def test_sampled_memory_within_stated_worst_case() -> None:
    line = overshoot.sampled_memory(RUNS)
    assert line.ok, line


def test_output_is_exact() -> None:
    line = overshoot.output(RUNS)
    assert line.ok, line


@pytest.mark.parametrize(
    ("name", "unit", "code", "limit"),
    [
        ("processes", "tasks", overshoot.FORKS, 8),
        ("open_files", "descriptors", overshoot.FILES, 32),
        ("disk", "bytes", overshoot.FILL, 8 * MIB),
    ],
)
def test_counts_are_exact(name, unit, code, limit) -> None:
    line = overshoot.counted(name, unit, code, limit, RUNS)
    assert line.ok, line
