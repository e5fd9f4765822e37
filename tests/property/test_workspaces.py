"""Properties of any archive, any tree and any change."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stockade
from stockade.runs.job import Job
from stockade.workspace import archives, commit, diff, scan
from stockade.workspace import changes as _changes
from stockade.workspace.artifacts import Refused
from tests.support.examples import examples

NAME = st.text(st.sampled_from("ab./\\\0-:é\n*"), min_size=0, max_size=8)
KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
CONTENT = st.binary(max_size=12)


def _tar(entries: list[Any]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, kind, content in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            info.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def _zip(entries: list[Any]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for name, _, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content)
    return raw.getvalue()


def _checked(packed: bytes) -> None:
    try:
        files = archives.unpack(packed)
    except stockade.JobError:
        return
    Job(argv=("true",), files=files)  # whose own rules refuse a name that leads out
    with tempfile.TemporaryDirectory() as top:
        inside = Path(top, "inside")
        inside.mkdir()
        for name, content in files.items():
            (inside / name).parent.mkdir(parents=True, exist_ok=True)
            (inside / name).write_bytes(content)
        assert [path.name for path in Path(top).iterdir()] == ["inside"]
        found = {str(path.relative_to(inside)) for path in inside.rglob("*") if path.is_file()}
        assert found == set(files)


@given(st.lists(st.tuples(NAME, KINDS, CONTENT), max_size=4))
def test_archive_unpacks_inside_or_is_refused(entries: list[Any]) -> None:
    _checked(_tar(entries))
    try:
        packed = _zip(entries)
    except (ValueError, IndexError, UserWarning):
        return
    _checked(packed)


@given(st.lists(st.tuples(NAME, KINDS, CONTENT), max_size=3), st.data())
def test_damaged_archive_unpacks_inside_or_is_refused(entries: list[Any], data: st.DataObject) -> None:
    packed = bytearray(_tar(entries))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, min(len(packed), 2048) - 1))] = data.draw(st.integers(0, 255))
    _checked(bytes(packed))


@given(st.binary(max_size=600))
def test_any_bytes_are_an_archive_or_refused(raw: bytes) -> None:
    for mark in (b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00"):
        _checked(mark + raw)


# -- what a guest does to a project, and what is made of it ------------------------------------------------------

PATHS = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "x y"]
PATH = st.sampled_from(PATHS)
STEP = st.one_of(
    st.tuples(st.just("write"), PATH, CONTENT),
    st.tuples(st.just("folder"), PATH, st.just(b"")),
    st.tuples(st.just("link"), PATH, st.sampled_from([b"a", b"d/a", b"b"])),
    st.tuples(st.just("delete"), PATH, st.just(b"")),
    st.tuples(st.just("rename"), PATH, PATH.map(str.encode)),
    st.tuples(st.just("mode"), PATH, st.sampled_from([b"600", b"644", b"755"])),
)
STEPS = st.lists(STEP, max_size=7)
DO = """
import os, shutil
def do(kind, path, what):
    try:
        if kind == "write":
            with open(path, "wb") as file: file.write(what)
        elif kind == "folder": os.mkdir(path)
        elif kind == "link": os.symlink(what.decode(), path)
        elif kind == "delete": shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        elif kind == "rename":
            try: os.rename(path, what.decode())
            except OSError as error:
                if error.errno != 18: raise
                shutil.copytree(path, what.decode(), symlinks=True, copy_function=shutil.copy2); shutil.rmtree(path)
        elif kind == "mode" and not os.path.islink(path) and not os.path.isdir(path): os.chmod(path, int(what, 8))
    except OSError: pass
"""


def _tree(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = ("file", path.read_bytes(), path.stat().st_mode & 0o777)
    return found


@contextmanager
def _project(steps: list[Any]) -> Iterator[Path]:
    top = Path(tempfile.mkdtemp(prefix="stockade-test-", dir="/tmp"))
    top.chmod(0o755)
    try:
        folder = top / "project"
        folder.mkdir()
        _play(folder, steps)
        yield folder
    finally:
        shutil.rmtree(top)


def _play(folder: Path, steps: list[Any]) -> None:
    subprocess.run(
        ["/usr/bin/python3", "-Sc", f"{DO}\nfor step in {steps!r}: do(*step)"], cwd=folder, check=True, umask=0o022
    )


@pytest.mark.needs("native")
@pytest.mark.parametrize("access", ["overlay", "copy"])
@settings(max_examples=examples(12), deadline=None)
@given(before=STEPS, steps=STEPS)
def test_committed_changes_give_what_the_guest_saw(access: str, before: list[Any], steps: list[Any]) -> None:
    with _project(before) as project:
        was = _tree(project)
        policy = stockade.Policy(filesystem={"workspace": project, "access": access})
        look = (
            "import json\nseen = {}\n"
            "for top, folders, names in os.walk('.'):\n"
            "    for name in folders + names:\n"
            "        path = os.path.relpath(os.path.join(top, name))\n"
            "        if os.path.islink(path): seen[path] = ['link', os.readlink(path)]\n"
            "        elif os.path.isdir(path): seen[path] = 'folder'\n"
            "        else: seen[path] = ['file', open(path, 'rb').read().hex(), os.stat(path).st_mode & 0o777]\n"
            "print(json.dumps(seen))"
        )
        code = f"{DO}\nos.umask(0o022)\nfor step in {steps!r}: do(*step)\n{look}"
        result = stockade.run(code, policy=policy, backend="native")
        assert result.ok, result
        assert _tree(project) == was
        import json

        seen = {
            path: "folder" if what == "folder" else ("link", what[1]) if what[0] == "link"
            else ("file", bytes.fromhex(what[1]), what[2])
            for path, what in json.loads(result.stdout).items()
        }  # fmt: skip
        assert not result.changes.refused and result.changes.error is None, result
        assert bool(result.changes) == (seen != was)
        result.changes.diff()
        try:
            result.changes.commit()
        except stockade.CommitError as error:  # a link to a name that is not inside, such as d/b -> a
            assert all("leads out" in item.reason for item in error.conflicts), error
            assert _tree(project) == was
        else:
            assert _tree(project) == seen
        assert not list(project.glob(".stockade*"))


class Guest:
    """The result of a collector, taken from the tree that the guest left."""

    def __init__(self, folder: Path, was: dict[str, Any]) -> None:
        now = _tree(folder)
        self.files = {path: (what[2], what[1]) for path, what in now.items() if what[0] == "file"}
        self.links = {path: what[1] for path, what in now.items() if what[0] == "link"}
        self.folders = {path: (folder / path).stat().st_mode & 0o777 for path, what in now.items() if what == "folder"}
        self.fresh = {path for path in self.folders if was.get(path) != "folder"}
        self.deleted = set(was) - set(now)
        self.refused: list[Refused] = []


@settings(max_examples=examples(25), deadline=None)
@given(before=STEPS, steps=STEPS)
def test_applied_changes_reproduce_guest_tree(before: list[Any], steps: list[Any]) -> None:
    with _project(before) as project, _project([*before, *steps]) as after:
        was = _tree(project)
        found = scan.scan_project(str(project), "copy", (), ())
        changes = _changes.changes(found, Guest(after, was))
        diff.diff(changes)
        try:
            commit.commit(found, changes, (), None)
        except stockade.CommitError as error:
            assert all("leads out" in item.reason for item in error.conflicts), error
            assert _tree(project) == was
        else:
            assert _tree(project) == _tree(after)


@given(st.lists(st.sampled_from([".env", "x.pem", "sub", "a.txt", ".ssh", "deep/.env"]), unique=True))
def test_hidden_names_are_never_compared_or_written(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as top:
        for name in names:
            Path(top, name).parent.mkdir(exist_ok=True)
            Path(top, name).touch()
        found = scan.scan_project(top, "overlay", stockade.Policy().filesystem.hidden, ())
        hidden = {name for name in names if name in (".env", "x.pem", ".ssh", "deep/.env")}
        assert set(found.hidden) == hidden
        assert not hidden & set(found.entries)
        assert all(found.is_closed(name) and found.is_closed(f"{name}/x") for name in hidden)
        assert not found.is_closed("a.txt")
