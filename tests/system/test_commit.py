"""Commits into a real folder: conflicts are refused, and no commit stays half done."""

import os

import pytest

from stockade import CommitError, JobError
from stockade.linux import renames
from stockade.workspace import commit, scan
from stockade.workspace.changes import Change


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "d").mkdir(parents=True)
    for name in ("a", "b", "d/c"):
        (folder / name).write_text(name)
    return folder


def scan_project(project, **options):
    given = {"access": "overlay", "hidden": (), "protected": ()} | options
    return scan.scan_project(str(project), **given)


def file(path, kind="changed", content=b"new", mode=0o644):
    return Change(path, kind, "file", mode, content)


def contents(folder):
    return {str(path.relative_to(folder)): path.is_file() and path.read_text() for path in folder.rglob("*")}


def test_commit_failed_step_undoes_others(project, monkeypatch):
    found, before = scan_project(project), contents(project)
    modes = {path: path.stat().st_mode for path in project.rglob("*")}
    changes = [
        file("a"),
        Change("b", "deleted", "file", old_mode=0o100644),
        Change("d", "changed", "folder", 0o700, old_mode=0o40755),
        Change("e", "added", "folder", 0o755),
        file("e/new", "added"),
        file("z", "added"),
    ]
    really, count = renames.move, iter(range(100))

    def move(*names):
        if names[-1] == "z":
            raise OSError(28, "No space left on device", "z")
        next(count)
        really(*names)

    monkeypatch.setattr(renames, "move", move)
    with pytest.raises(CommitError, match="No space left"):
        commit.commit(found, changes, (), None)
    assert next(count) == 3, "two were done, and one of them moved back"
    assert contents(project) == before
    assert {path: path.stat().st_mode for path in project.rglob("*")} == modes


def test_commit_keeps_file_written_meanwhile(project, monkeypatch):
    found = scan_project(project)
    really = renames.exchange

    def exchange(*names):
        (project / "a").write_text("written by the host in the last moment")
        really(*names)
        monkeypatch.setattr(renames, "exchange", really)

    monkeypatch.setattr(renames, "exchange", exchange)
    with pytest.raises(CommitError, match="meanwhile"):
        commit.commit(found, [file("a")], (), None)
    assert (project / "a").read_text() == "written by the host in the last moment"


@pytest.mark.parametrize(
    ("happens", "change", "words"),
    [
        (lambda p: (p / "a").write_text("x"), file("a"), "was changed on the host"),
        (lambda p: os.utime(p / "a", (0, 0)), file("a"), "was changed on the host"),
        (lambda p: (p / "a").chmod(0o600), file("a"), "was changed on the host"),
        (lambda p: (p / "a").unlink(), file("a"), "was deleted on the host"),
        (lambda p: (p / "new").write_text("x"), file("new", "added"), "was made on the host"),
        (lambda p: (p / "new").symlink_to("/nowhere"), file("new", "added"), "was made on the host"),
        (lambda p: (p / "d").rename(p / "was"), file("d/new", "added"), "no longer exists"),
        (lambda p: (p / "b").unlink(), Change("b", "deleted", "file"), "was deleted on the host"),
    ],
)
def test_commit_conflict_is_refused(project, happens, change, words):
    found = scan_project(project)
    happens(project)
    before = contents(project)
    with pytest.raises(CommitError, match=words):
        commit.commit(found, [change], (), None)
    assert contents(project) == before


def test_commit_keeps_folder_with_new_host_file(project):
    found = scan_project(project)
    (project / "d" / "hosts").write_text("x")
    before = contents(project)
    gone = [Change("d", "deleted", "folder"), Change("d/c", "deleted", "file")]
    with pytest.raises(CommitError, match="not empty"):
        commit.commit(found, gone, (), None)
    assert contents(project) == before


def test_commit_swaps_folder_and_file(project):
    found = scan_project(project)
    changes = [
        Change("a", "changed", "folder", 0o755),
        file("a/inner", "added"),
        file("d", "changed"),
        Change("d/c", "deleted", "file"),
    ]
    commit.commit(found, changes, (), None)
    assert contents(project) == {"a": False, "a/inner": "new", "b": "b", "d": "new"}


def test_commit_leaves_out_hidden_and_protected(project):
    (project / ".env").write_text("secret")
    found = scan_project(project, hidden=(".env", "*.key"), protected=("d/c",))
    wanted = [file(".env"), file("d/c"), file("made.key", "added"), Change("d", "deleted", "folder"), file("a")]
    done = commit.commit(found, wanted, (), None)
    assert [change.path for change in done.applied] == ["a"]
    assert {item.path for item in done.left_out} == {".env", "d/c", "made.key", "d"}
    assert (project / ".env").read_text() == "secret" and not (project / "made.key").exists()


def test_commit_drops_set_user_id_bits(project):
    commit.commit(scan_project(project), [file("a", mode=0o6777), file("n", "added", mode=0o4755)], (), None)
    assert [(project / name).stat().st_mode & 0o7000 for name in "an"] == [0, 0]


def test_project_scan_is_bounded(project, monkeypatch):
    monkeypatch.setattr(scan, "MOST_NAMES", 3)
    with pytest.raises(JobError, match="more than 3 names"):
        scan_project(project)
    monkeypatch.setattr(scan, "MOST_NAMES", 100)
    monkeypatch.setattr(scan, "MOST_HIDDEN", 1)
    with pytest.raises(JobError, match="more than 1 names"):
        scan_project(project, hidden=("a", "b"))


def test_hidden_link_hides_its_target(project):
    (project / ".env").symlink_to("d/c")
    (project / "id_rsa").symlink_to("/etc/hostname")
    assert scan_project(project, hidden=(".env", "id_rsa*")).hidden == {"d/c": False}
