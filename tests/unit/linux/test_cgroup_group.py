"""A run's control groups, read from plain files in place of the kernel's."""

import os

import pytest

from stockade.core.launch import Groups
from stockade.linux.cgroups import Hierarchy
from stockade.linux.cgroups.group import Group


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Return a group under cgroup v2 on a kernel before Linux 6.12, which cannot reset a peak."""
    for name, content in (("memory.peak", "0"), ("memory.events", "oom_kill 0")):
        (tmp_path / name).write_text(content)

    def refuse(*_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "pwrite", refuse)
    found = Group([(Hierarchy(version=2, path=str(tmp_path), controllers=("memory",)), str(tmp_path))])
    yield found
    found.close()


def test_peak_of_earlier_run_is_not_reported(group, tmp_path):
    peak = tmp_path / "memory.peak"
    for before, after, own in ((10, 50, 50), (50, 50, None), (50, 80, 80), (80, 80, None)):
        peak.write_text(str(before))
        group.begin(1)
        peak.write_text(str(after))
        assert group.read().peak_memory == own


def test_peak_that_can_be_reset_is_reset(group, tmp_path, monkeypatch):
    peak = tmp_path / "memory.peak"
    monkeypatch.setattr(os, "pwrite", lambda _fd, word, _at: peak.write_text("20") if word == b"reset" else None)
    for after in (50, 30):
        group.begin(1)
        peak.write_text(str(after))
        assert group.read().peak_memory == after


def test_unthrottle_adds_headroom_until_begin(group, tmp_path):
    limit = tmp_path / "memory.max"
    limit.touch()
    group.limit(Groups(memory=64 << 20))
    group.begin(1)
    group.unthrottle()
    group.unthrottle()
    assert limit.read_text() == str(80 << 20)
    group.begin(1)
    assert limit.read_text() == str(64 << 20)
    group.lift_limits()
    assert limit.read_text().startswith("max")
    group.unthrottle()
    assert limit.read_text().startswith("max")


def test_begin_restores_lifted_limits(tmp_path):
    controllers = ("memory", "pids", "cpu", "cpuacct")
    for name in ("memory.max", "memory.peak", "memory.events", "pids.max", "pids.events", "cpu.max", "cpu.stat"):
        (tmp_path / name).write_text("0")
    group = Group([(Hierarchy(version=2, path=str(tmp_path), controllers=controllers), str(tmp_path))])
    group.begin(1)
    group.limit(Groups(memory=64 << 20, processes=5, cores=0.5))
    quota = tmp_path / "cpu.max"
    for _ in range(2):
        assert quota.read_text() == "50000 100000"
        group.unthrottle()
        assert quota.read_text().startswith("max")
        group.begin(1)
    assert (tmp_path / "memory.max").read_text() == str(64 << 20)
    group.lift_limits()
    group.unthrottle()
    group.begin(1)
    assert quota.read_text().startswith("max")
    group.close()


@pytest.mark.parametrize(("version", "own"), [(1, "rss"), (2, "anon")])
def test_left_behind_excludes_private_memory(tmp_path, version, own):
    charged = tmp_path / ("memory.usage_in_bytes" if version == 1 else "memory.current")
    (tmp_path / "memory.stat").write_text(f"pgfault 5\n{own} 70\nmapped_file 9\n")
    group = Group([(Hierarchy(version=version, path=str(tmp_path), controllers=("memory",)), str(tmp_path))])
    for held, left in ((99, 99), (100, 30), (5000, 4930)):
        charged.write_text(str(held))
        assert group.left_behind(100) == left
    group.close()


@pytest.mark.parametrize(("own", "before", "expected"), [(1, 2, 2), (1, 3, None), (2, 3, 3), (2, 4, None)])
def test_peak_processes_hidden_by_earlier_is_none(tmp_path, own, before, expected):
    (tmp_path / "pids.peak").write_text(str(before))
    (tmp_path / "pids.events").write_text("max 0")
    group = Group([(Hierarchy(version=2, path=str(tmp_path), controllers=("pids",)), str(tmp_path))])
    group.begin(own)
    assert group.read().peak_processes == expected
    (tmp_path / "pids.peak").write_text("9")
    assert group.read().peak_processes == 9
    group.close()


def _v1(folder):
    for name in ("memory.limit_in_bytes", "memory.max_usage_in_bytes"):
        (folder / name).write_text("0")
    return Group([(Hierarchy(version=1, path=str(folder), controllers=("memory",)), str(folder))])


@pytest.mark.parametrize(("peak", "own"), [(64 << 20, True), ((64 << 20) - 4096, True), (3 << 20, False)])
def test_kill_far_below_own_limit_in_v1_is_outside(tmp_path, peak, own):
    (tmp_path / "memory.oom_control").write_text("under_oom 0\noom_kill 4")
    group = _v1(tmp_path)
    group.limit(Groups(memory=64 << 20))
    group.begin(1)
    (tmp_path / "memory.oom_control").write_text("under_oom 0\noom_kill 6")
    (tmp_path / "memory.max_usage_in_bytes").write_text(str(peak))
    counted = group.read()
    group.close()
    assert (counted.oom_kills, counted.oom_outside) == ((2, 0) if own else (0, 2))


@pytest.mark.parametrize("own", [True, False])
def test_kill_without_own_limit_hit_in_v2_is_outside(group, tmp_path, own):
    (tmp_path / "memory.max").touch()
    (tmp_path / "memory.events").write_text("max 7\noom 1\noom_kill 1")
    group.limit(Groups(memory=64 << 20))
    group.begin(1)
    (tmp_path / "memory.events").write_text(f"max 9\noom {1 + own}\noom_kill 2")
    counted = group.read()
    assert (counted.oom_kills, counted.oom_outside) == ((1, 0) if own else (0, 1))
