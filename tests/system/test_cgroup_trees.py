"""Cgroup trees that a warden left: the next one removes them at its start or, if they are busy, at its end."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stockade.linux import cgroups

pytestmark = pytest.mark.needs("cgroup-memory")


@pytest.fixture
def memory() -> cgroups.Hierarchy:
    return next(each for each in cgroups.find() if "memory" in each.controllers)


@pytest.fixture
def busy(memory: cgroups.Hierarchy) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Return a tree that nobody holds, and a process in one of its groups."""
    tree = Path(memory.path, cgroups.PREFIX + os.urandom(8).hex())
    (tree / "1").mkdir(parents=True)
    process = subprocess.Popen(["sleep", "60"])
    (tree / "1" / "cgroup.procs").write_text(str(process.pid))
    yield tree, process
    process.kill()
    process.wait()
    for group in (tree / "1", tree):
        if group.exists():
            group.rmdir()


def test_busy_tree_is_removed_at_warden_end(
    memory: cgroups.Hierarchy, busy: tuple[Path, subprocess.Popen[bytes]]
) -> None:
    left, process = busy
    tree = cgroups.Tree([memory], os.urandom(8).hex())
    assert left.exists()
    process.kill()
    process.wait()
    tree.close()
    assert not left.exists()


def test_empty_tree_is_removed_at_warden_start(
    memory: cgroups.Hierarchy, busy: tuple[Path, subprocess.Popen[bytes]]
) -> None:
    left, process = busy
    process.kill()
    process.wait()
    tree = cgroups.Tree([memory], os.urandom(8).hex())
    assert not left.exists()
    tree.close()


def test_tree_of_living_warden_stays(memory: cgroups.Hierarchy, busy: tuple[Path, subprocess.Popen[bytes]]) -> None:
    held, process = busy
    process.kill()
    process.wait()
    lock = os.open(held, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        cgroups.Tree([memory], os.urandom(8).hex()).close()
        assert (held / "1").exists()
    finally:
        os.close(lock)


@pytest.mark.needs("cgroup-cpuacct")
def test_tree_tells_its_cpu_time_without_a_free_descriptor() -> None:
    """The warden reads it while guests run, whether or not they have left a descriptor."""
    counting = next(each for each in cgroups.find() if "cpuacct" in each.controllers)
    tree = cgroups.Tree([counting], os.urandom(8).hex())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        found = tree.cpu_seconds()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        tree.close()
    assert found == 0
