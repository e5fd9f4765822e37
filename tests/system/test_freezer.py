"""A frozen group: its processes stand still, forked children stay in it, and SIGKILL still ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stockade.linux import cgroups, descendants

pytestmark = [pytest.mark.needs("cgroup-unified"), pytest.mark.timing]
BUSY = ["sh", "-c", "while :; do (:); done"]


def bare():
    unified = [each for each in cgroups.find() if each.version == 2]
    return [cgroups.Hierarchy(version=2, path=unified[0].path, controllers=())]


@pytest.fixture
def tree():
    """Return a warden's groups in the v2 hierarchy, without any controller."""
    tree = cgroups.Tree(bare(), os.urandom(8).hex())
    yield tree
    tree.close()


@pytest.fixture
def busy():
    process = subprocess.Popen(BUSY, start_new_session=True)
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its children too, which may be frozen
    process.wait()


def spent(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:15]))


def runs(pid):
    before = spent(pid)
    time.sleep(0.5)
    return spent(pid) > before


def family(process):
    return lambda: [process.pid, *descendants.below(process.pid)]


def test_forking_tree_is_frozen_and_resumes(tree, busy):
    group = tree.make()
    freezer = cgroups.Freezer(group.folders[0])
    assert runs(busy.pid)
    freezer.freeze(family(busy))
    time.sleep(0.1)
    assert not runs(busy.pid)
    freezer.thaw()
    assert runs(busy.pid)
    busy.kill()
    busy.wait()
    tree.remove(group)


def test_frozen_tree_dies_when_killed(tree, busy):
    group = tree.make()
    cgroups.Freezer(group.folders[0]).freeze(family(busy))
    time.sleep(0.1)
    busy.kill()
    assert busy.wait(5) == -signal.SIGKILL
    tree.remove(group)


def test_freezer_below_run_group_goes_with_it(tree, busy):
    group = tree.make()
    assert group.unified == group.folders[0]
    freezer = cgroups.Freezer(f"{group.unified}/frozen")
    freezer.freeze(family(busy))
    time.sleep(0.1)
    assert not runs(busy.pid)
    assert not group.renew(set())  # somebody is in it
    os.killpg(busy.pid, signal.SIGKILL)  # what it had just forked too
    busy.wait()
    deadline = time.monotonic() + 5
    while not group.renew(set()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not Path(f"{group.unified}/frozen").exists()
    cgroups.Freezer(f"{group.unified}/frozen")
    tree.remove(group)
    assert not Path(group.folders[0]).exists()


def test_hierarchy_without_freezer_is_reported(tmp_path):
    with pytest.raises(OSError, match="cannot freeze control groups"):
        cgroups.Freezer(str(tmp_path / "group"))
    assert not (tmp_path / "group").exists()


def test_tree_with_unreturned_group_is_removed():
    tree = cgroups.Tree(bare(), os.urandom(8).hex())
    group = tree.make()
    group.close()
    tree.close()
    assert not Path(group.folders[0]).parent.exists()
