"""The parent of new groups under cgroup v2, on a tree of plain files with two rules of the kernel."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from stockade.linux import files
from stockade.linux.cgroups import places

WANTED = ["memory", "pids", "cpu"]
CALLER = os.getpid()
STRANGER = 1 << 30


class Kernel:
    """A fake kernel with the "No Internal Process Constraint" and "Top-down Constraint" of cgroup-v2.rst."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.top = top
        self.handed_over: set[str] = set()
        top.mkdir()
        self._fill(top, WANTED)
        (top / "cgroup.type").unlink()  # the root of the hierarchy has none
        monkeypatch.setattr(files, "write", self.write)
        monkeypatch.setattr(places, "_is_top", lambda path: path == str(top))
        monkeypatch.setattr(places, "_is_handed_over", lambda path: path in self.handed_over)

    def group(self, path: str, *pids: int, down: bool = False, **settings: str) -> str:
        """Make a group with processes; ``down`` makes it hand its controllers down."""
        folder = self.top / path
        for each in reversed([folder, *folder.parents]):
            if each.is_relative_to(self.top) and not each.exists():
                each.mkdir()
                self._fill(each, None)
                (each.parent / "cgroup.subtree_control").write_text(" ".join(WANTED))
                (each / "cgroup.controllers").write_text(" ".join(WANTED))
        (folder / "cgroup.procs").write_text("\n".join(map(str, pids)))
        for name, value in settings.items():
            (folder / name.replace("_", ".", 1)).write_text(value)
        if down:
            (folder / "cgroup.subtree_control").write_text(" ".join(WANTED))
        return str(folder)

    def write(self, path: str, text: str) -> None:
        """Imitate the kernel's reaction to a write to one of a group's files."""
        file = Path(path)
        if file.name == "cgroup.subtree_control" and text:
            # The kernel grants controllers for threads anyway, and then processes cannot use the group ("Threads").
            if text == "+memory" and file.parent != self.top and (file.parent / "cgroup.procs").read_text().split():
                raise OSError(errno.EBUSY, "processes in the group")
            file.write_text(" ".join({*file.read_text().split(), text.removeprefix("+")}))
        elif file.name == "cgroup.procs" and text:
            file.touch()  # a group that was just made
            for other in self.top.rglob("cgroup.procs"):
                left = [pid for pid in other.read_text().split() if pid != text]
                other.write_text("\n".join([*left, text] if other == file else left))

    def _fill(self, folder: Path, controllers: list[str] | None) -> None:
        for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.controllers", "cgroup.type"):
            (folder / name).write_text("")
        (folder / "cgroup.controllers").write_text(" ".join(controllers or ()))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path / "groups", monkeypatch)


def find_parent(own: str) -> str:
    return places._find_parent(own, WANTED, CALLER)


def test_parent_of_root_caller_is_root(kernel):
    (kernel.top / "cgroup.procs").write_text(str(CALLER))
    assert find_parent(str(kernel.top)) == str(kernel.top)


def test_parent_delegated_group_is_used(kernel):
    own = kernel.group("user/program", CALLER)
    kernel.handed_over.add(str(kernel.top / "user"))
    assert find_parent(own) == str(kernel.top / "user")


@pytest.mark.parametrize("limit", [{"memory_max": "1000"}, {"pids_max": "9"}, {"cpu_max": "50000 100000"}])
def test_parent_limited_caller_stays_inside(kernel, limit):
    own = kernel.group("user/program", CALLER, **limit)
    kernel.handed_over.add(str(kernel.top / "user"))
    assert find_parent(own) == own
    assert Path(own, places._CALLERS, "cgroup.procs").read_text().split() == [str(CALLER)]


def test_parent_period_without_quota_is_unlimited(kernel):
    own = kernel.group("user/program", CALLER, cpu_max="max 100000", memory_max="max")
    kernel.handed_over.add(str(kernel.top / "user"))
    assert find_parent(own) == str(kernel.top / "user")


def test_parent_undelegated_group_is_not_used(kernel):
    own = kernel.group("system/program", CALLER)
    assert find_parent(own) == own


def test_parent_foreign_process_is_not_moved(kernel):
    own = kernel.group("system/program", CALLER, STRANGER)
    with pytest.raises(OSError, match="other processes than the caller's own"):
        find_parent(own)
    assert Path(own, "cgroup.procs").read_text().split() == [str(CALLER), str(STRANGER)]


def test_parent_delegated_foreign_process_is_moved(kernel):
    own = kernel.group("user/run.scope", CALLER, STRANGER)
    kernel.handed_over.add(own)
    assert find_parent(own) == own
    assert set(Path(own, places._CALLERS, "cgroup.procs").read_text().split()) == {str(CALLER), str(STRANGER)}


def test_parent_invisible_process_is_not_moved(kernel):
    own = kernel.group("user/run.scope", CALLER, 0)
    kernel.handed_over.add(own)
    with pytest.raises(OSError, match="other processes"):
        find_parent(own)


def test_parent_of_moved_caller_is_found_again(kernel):
    own = kernel.group(f"system/program/{places._CALLERS}", CALLER)
    assert find_parent(own) == str(kernel.top / "system/program")
