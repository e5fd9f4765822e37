"""What a run's groups say of it, read from files that stand for the kernel's."""

import os

import pytest

from stockade._launch import Groups
from stockade.linux.cgroups import Hierarchy
from stockade.linux.cgroups.group import Group


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A group under cgroup v2 on a kernel before Linux 6.12, on which no peak can be begun anew."""
    for name, content in (("memory.peak", "0"), ("memory.events", "oom_kill 0")):
        (tmp_path / name).write_text(content)

    def refuse(*_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "pwrite", refuse)
    found = Group([(Hierarchy(version=2, path=str(tmp_path), controllers=("memory",)), str(tmp_path))])
    yield found
    found.close()


def test_a_peak_of_an_earlier_run_is_not_told_as_the_next_one_s(group, tmp_path):
    peak = tmp_path / "memory.peak"
    for before, after, own in ((10, 50, 50), (50, 50, None), (50, 80, 80), (80, 80, None)):
        peak.write_text(str(before))
        group.begin()
        peak.write_text(str(after))
        assert group.read().peak_memory == own


def test_a_peak_that_can_be_begun_anew_is(group, tmp_path, monkeypatch):
    peak = tmp_path / "memory.peak"
    monkeypatch.setattr(os, "pwrite", lambda _fd, word, _at: peak.write_text("20") if word == b"reset" else None)
    for after in (50, 30):
        group.begin()
        peak.write_text(str(after))
        assert group.read().peak_memory == after


def test_who_ends_a_guest_has_some_memory_more_than_it_and_the_next_guest_has_not(group, tmp_path):
    limit = tmp_path / "memory.max"
    limit.touch()
    group.limit(Groups(memory=64 << 20))
    group.begin()
    group.unthrottle()
    group.unthrottle()
    assert limit.read_text() == str(80 << 20)
    group.begin()
    assert limit.read_text() == str(64 << 20)
    group.lift_limits()
    assert limit.read_text().startswith("max")
    group.unthrottle()
    assert limit.read_text().startswith("max")
