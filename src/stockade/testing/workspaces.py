"""Workspaces: their content, the guest's rights in them, and the files that come out."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import stockade
from stockade.testing.base import Expectations, Run

_WITHOUT_WORKSPACES = frozenset((
    "test_workspaces_not_kept_are_refused", "test_artifact_pattern_invalid_is_refused",
    "test_contradicting_access_modes_are_refused", "test_empty_workspace_ignores_access",
))  # fmt: skip
"""Tests of what a backend promises that keeps no workspaces."""
_EVERYWHERE = {"disk": "absent"}
_LEAVES = r"""
import os, socket
open("good.txt", "w").write("good")
os.makedirs("out/inner")
open("out/inner/deep.bin", "wb").write(bytes(range(256)))
os.symlink("/etc/passwd", "link.txt")
os.mkfifo("fifo.txt")
open("big.txt", "w").truncate(1 << 40 if BIG else 1 << 25)
open(b"\xff.txt", "w").close()
open("new\nline.txt", "w").write("odd")
open("one.txt", "w").close(); os.link("one.txt", "other.txt")
s = socket.socket(socket.AF_UNIX); s.bind("socket.txt")
"""


class WorkspacesContract(Expectations):
    """Only requested files reach the host, and they are the files that the guest left."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Iterator[Path]:
        """Make a host folder with an entry of each kind."""
        for parent in (tmp_path, *tmp_path.parents):
            if str(parent).startswith("/tmp/") and parent.stat().st_uid == os.geteuid():
                parent.chmod(0o755)
        folder = tmp_path / "project"
        (folder / "data").mkdir(parents=True)
        (folder / ".git" / "hooks").mkdir(parents=True)
        (folder / "keep.txt").write_text("one\ntwo\n")
        (folder / "gone.txt").write_text("gone\n")
        (folder / "data" / "numbers").write_text("1\n")
        (folder / "link").symlink_to("keep.txt")
        (folder / ".env").write_text("PASSWORD=1\n")
        (folder / "data" / "server.key").write_text("KEY\n")
        yield folder

    @pytest.fixture(autouse=True)
    def _kept(self, request: pytest.FixtureRequest) -> None:
        ours = request.function.__qualname__.startswith("WorkspacesContract.")
        if ours and not self.keeps_workspaces and request.function.__name__ not in _WITHOUT_WORKSPACES:
            self.switch_off("this backend keeps no workspaces, and refuses jobs that need one")

    def test_workspaces_not_kept_are_refused(self, run: Run, project: Path) -> None:
        if self.keeps_workspaces:
            return
        with pytest.raises(stockade.JobError, match="artifacts"):
            run("1", artifacts=["*"])
        for filesystem in (
            {"workspace": project},  # this project has files to hide
            {"workspace": project, "access": "overlay"},
            {"workspace": project, "access": "copy"},
            {"workspace": project, "hidden": [], "access": "read", "protected": ["x"]},
            {"access": "read"},
        ):
            with pytest.raises((stockade.JobError, stockade.PlanError), match="filesystem"):
                run("1", policy={"filesystem": filesystem})

    def _policy(self, project: Path, access: str, **filesystem: Any) -> Mapping[str, Any]:
        return {"filesystem": {"workspace": project, "access": access, **filesystem}, "accept": _EVERYWHERE}

    def test_artifacts_match_patterns_and_rules(self, run: Run) -> None:
        result = run(
            _LEAVES.replace("BIG", "False").replace("s = socket", "import sys; sys.exit(0) #"),
            artifacts=["*.txt", "out/**"],
            policy={"accept": _EVERYWHERE},
        )
        assert result.ok, result.stderr
        assert result.artifacts_error is None
        assert dict(result.artifacts) == {
            "good.txt": b"good",
            "new\nline.txt": b"odd",
            "out/inner/deep.bin": bytes(range(256)),
        }
        reasons = {item.path: item.reason for item in result.artifacts_refused}
        assert set(reasons) == {"link.txt", "fifo.txt", "big.txt", "\\xff.txt", "one.txt", "other.txt"}
        assert "symbolic link" in reasons["link.txt"] and "FIFO" in reasons["fifo.txt"]
        assert "33554432 bytes" in reasons["big.txt"] and "UTF-8" in reasons["\\xff.txt"]
        assert "hard link" in reasons["one.txt"]

    def test_artifacts_are_bounded_by_limits(self, run: Run) -> None:
        code = "for i in range(9): open(f'{i}.dat', 'w').write('x' * 1000)"
        policy = {"accept": _EVERYWHERE}
        few = run(code, artifacts=["*.dat"], caps=stockade.ArtifactLimits(files=4), policy=policy)
        assert (len(few.artifacts), len(few.artifacts_refused)) == (4, 5)
        small = run(code, artifacts=["*.dat"], caps=stockade.ArtifactLimits(total_bytes=3500), policy=policy)
        assert sorted(small.artifacts) == ["0.dat", "1.dat", "2.dat"]
        none = run(code, artifacts=["*.dat"], caps=stockade.ArtifactLimits(file_bytes=999), policy=policy)
        assert not none.artifacts and len(none.artifacts_refused) == 9

    def test_artifacts_of_ended_run_are_collected(self, run: Run) -> None:
        code = "import time; open('partial', 'w').write('so far'); time.sleep(60)"
        policy = {"limits": {"wall_time": 1}, "accept": _EVERYWHERE}
        result = run(code, artifacts=["partial"], policy=policy)
        assert result.limit == "wall_time"
        assert dict(result.artifacts) == {"partial": b"so far"}, result.artifacts_error

    def test_artifact_without_read_mode_is_collected(self, run: Run) -> None:
        code = (
            "import os; os.umask(0); os.mkdir('d'); os.close(os.open('d/f', os.O_CREAT | os.O_WRONLY, 0o000));"
            "os.mkdir('d/e', 0o000)"
        )
        result = run(code, artifacts=["**/f"], policy={"accept": _EVERYWHERE})
        assert dict(result.artifacts) == {"d/f": b""}, result

    @pytest.mark.parametrize("pattern", ["", "/x", "a/../b", "a//b", "x\0", 5])
    def test_artifact_pattern_invalid_is_refused(self, pattern: Any) -> None:
        with pytest.raises(stockade.JobError, match="artifacts"):
            self.run_source("1", artifacts=[pattern])

    def test_read_only_workspace_refuses_writes(self, run: Run) -> None:
        code = (
            "import os\nprint(open('a').read())\n"
            "for act in (lambda: open('a', 'w'), lambda: open('b', 'w'), lambda: os.unlink('a'), lambda: os.mkdir('d'),"
            " lambda: os.rename('a', 'c')):\n"
            "    try: act(); print('done')\n    except OSError: print('refused')"
        )
        result = run(code, files={"a": "laid in"}, policy={"filesystem": {"access": "read"}})
        assert result.stdout == "laid in\n" + "refused\n" * 5, result.stderr
        with pytest.raises(stockade.JobError, match="read-only"):
            self.run_source("1", artifacts=["*"], policy={"filesystem": {"access": "read"}})

    @pytest.mark.parametrize("access", ["overlay", "copy"])
    def test_writes_are_isolated_until_commit(self, run: Run, project: Path, access: str) -> None:
        before = _contents(project)
        code = (
            "import os, sys\nopen('keep.txt', 'a').write('three\\n')\nos.unlink('gone.txt')\nos.mkdir('made')\n"
            "fd = os.open('made/run', os.O_CREAT | os.O_WRONLY, 0o755); os.write(fd, b'#!'); os.close(fd)\n"
            "open('data/numbers').read(); os.symlink('made/run', 'alias')\n"
            "print(sorted(os.listdir('data')), os.readlink('link'))"
        )
        result = run(code, policy=self._policy(project, access))
        assert result.ok, result
        assert result.stdout.endswith("] keep.txt\n") and "numbers" in result.stdout
        assert _contents(project) == before, "something reached the host"
        assert [(item.path, item.kind, item.type) for item in result.changes] == [
            ("alias", "added", "link"),
            ("gone.txt", "deleted", "file"),
            ("keep.txt", "changed", "file"),
            ("made", "added", "folder"),
            ("made/run", "added", "file"),
        ]
        assert "+three\n" in result.changes.diff() and "-gone\n" in result.changes.diff()
        done = result.changes.commit()
        assert (len(done.applied), done.left_out) == (5, ())
        after = _contents(project)
        assert after.pop("alias") == "-> made/run" and after.pop("made/run") == b"#!" and after.pop("made") == "folder"
        assert after.pop("keep.txt") == b"one\ntwo\nthree\n"
        assert after == {name: what for name, what in before.items() if name not in ("gone.txt", "keep.txt")}
        assert stat.S_IMODE((project / "made" / "run").stat().st_mode) == 0o755

    @pytest.mark.parametrize("access", ["overlay", "copy"])
    def test_run_that_changes_nothing_has_no_changes(self, run: Run, project: Path, access: str) -> None:
        code = (
            "import os\nfor top, _, names in os.walk('.'): [open(f'{top}/{n}').close() for n in names if n != '.env']"
        )
        result = run(code.replace("!= '.env'", "not in ('.env', 'server.key')"), policy=self._policy(project, access))
        assert (result.ok, result.changes) == (True, stockade.ChangeSet()), result

    @pytest.mark.parametrize("access", ["overlay", "copy"])
    def test_commit_with_conflict_changes_nothing(self, run: Run, project: Path, access: str) -> None:
        result = run(
            "open('keep.txt', 'w').write('guest'); open('new', 'w').write('guest')",
            policy=self._policy(project, access),
        )
        (project / "keep.txt").write_text("host")
        before = _contents(project)
        with pytest.raises(stockade.CommitError, match=r"keep\.txt.* was changed on the host") as caught:
            result.changes.commit()
        assert [item.path for item in caught.value.conflicts] == ["keep.txt"]
        assert _contents(project) == before

    @pytest.mark.parametrize("access", ["overlay", "copy"])
    def test_commit_with_refused_item_changes_nothing(self, run: Run, project: Path, access: str) -> None:
        result = run("import os; os.mkfifo('pipe'); open('x', 'w')", policy=self._policy(project, access))
        before = _contents(project)
        assert [item.path for item in result.changes.refused] == ["pipe"]
        with pytest.raises(stockade.CommitError, match="FIFO"):
            result.changes.commit()
        assert _contents(project) == before

    @pytest.mark.parametrize("access", ["read", "overlay", "copy", "write"])
    def test_secrets_in_project_are_hidden(self, run: Run, project: Path, access: str) -> None:
        _everybodys(project)
        code = (
            "for name in ('.env', 'data/server.key'):\n"
            "    try: print(repr(open(name).read()))\n    except OSError: print('refused')"
        )
        policy = self._policy(project, access)
        if access in ("read", "write") and not self.hides[access]:
            with pytest.raises(stockade.JobError, match="hidden"):
                run(code, policy=policy)
            return
        printed = run(code, policy=policy)
        assert set(printed.stdout.splitlines()) <= {"''", "refused"}, printed
        assert (project / ".env").read_text() == "PASSWORD=1\n"

    def test_hidden_patterns_of_policy_replace_default(self, run: Run, project: Path) -> None:
        (project / "notes.txt").write_text("private")
        code = "print(open('.env').read()); print(open('notes.txt').read())"
        policy = self._policy(project, "copy", hidden=["notes.*"])
        result = run(code, policy=policy)
        assert result.stdout == "PASSWORD=1\n\n" and "notes.txt" in result.stderr

    @pytest.mark.parametrize("access", ["overlay", "copy"])
    def test_commit_skips_hidden_and_protected_paths(self, run: Run, project: Path, access: str) -> None:
        code = (
            "import os\nfor act in (lambda: open('.git/hooks/pre-commit', 'w').write('evil'),"
            " lambda: os.rename('.git', 'away'), lambda: os.unlink('.env'), lambda: open('.env', 'w').write('evil')):\n"
            "    try: act()\n    except OSError: pass\n"
            "try: os.makedirs('.git/hooks', exist_ok=True); open('.git/hooks/pre-commit', 'w').write('evil')\n"
            "except OSError: pass\nopen('fine', 'w')"
        )
        result = run(code, policy=self._policy(project, access, protected=[".git/hooks"]))
        assert result.ok, result
        result.changes.commit()
        assert (project / "fine").exists()
        assert (project / ".env").read_text() == "PASSWORD=1\n"
        assert list((project / ".git" / "hooks").iterdir()) == []

    def test_protected_paths_in_writable_folder_hold(self, run: Run, project: Path) -> None:
        _everybodys(project)
        (project / ".env").unlink()
        (project / "data" / "server.key").unlink()
        policy = self._policy(project, "write", protected=[".git/hooks", ".git/config"])
        with pytest.raises(stockade.JobError, match="protected"):
            run("1", policy=policy)  # .git/config is missing, and a guest could create it
        (project / ".git" / "config").write_text("[core]\n")
        code = (
            "import os\nopen('made', 'w').write('by the guest')\n"
            "for act in (lambda: open('.git/hooks/pre-commit', 'w'), lambda: open('.git/config', 'a'),"
            " lambda: os.rename('.git', 'away'), lambda: os.rename('.git/hooks', '.git/h'),"
            " lambda: os.unlink('.git/config')):\n"
            "    try: act(); print('done')\n    except OSError: print('refused')"
        )
        if not self.hides["write"]:
            with pytest.raises(stockade.JobError, match="protected"):
                run(code, policy=policy)
            return
        result = run(code, policy=policy)
        assert result.stdout == "refused\n" * 5, result
        assert (project / "made").read_text() == "by the guest"
        assert result.enforcement[stockade.Guarantee.DISK].strength == "absent"

    def test_artifacts_of_writable_folder_are_collected(self, run: Run, project: Path) -> None:
        _everybodys(project)
        policy = self._policy(project, "write", hidden=["nothing"])
        result = run("open('data/result.txt', 'w').write('42')", policy=policy, artifacts=["data/*.txt"])
        assert dict(result.artifacts) == {"data/result.txt": b"42"}, result
        assert (project / "data" / "result.txt").exists()

    def test_contradicting_access_modes_are_refused(self, project: Path) -> None:
        for filesystem in (
            {"workspace": project, "write": [project], "access": "overlay"},
            {"workspace": project, "protected": ["../x"]},
        ):
            with pytest.raises(stockade.PolicyError):
                self.policy(filesystem=filesystem)

    @pytest.mark.parametrize("filesystem", [{"access": "overlay"}, {"access": "copy"}, {"protected": ["x"]}])
    def test_empty_workspace_ignores_access(self, run: Run, filesystem: dict[str, Any]) -> None:
        result = run("open('x', 'w').write('1')", policy={"filesystem": filesystem})
        assert (result.outcome, result.changes) == ("completed", stockade.ChangeSet())

    def test_project_larger_than_disk_cannot_be_copied(self, run: Run, project: Path) -> None:
        (project / "big").write_bytes(b"x" * (1 << 20))
        result = run("1", policy={**self._policy(project, "copy"), "limits": {"disk": "512KiB"}})
        assert result.outcome == "sandbox_failed"
        assert "limits.disk" in result.error.message  # type: ignore[union-attr]


def _contents(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = "folder" if path.is_dir() else path.read_bytes()
    return found


def _everybodys(folder: Path) -> None:
    """Open ``folder`` to all users, because a guest can have a uid of its own."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o777 if path.is_dir() else 0o666)
