"""Hostile files that a guest leaves in a writable folder: stockade neither follows them nor blocks on them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stockade

HOSTILE = r"""
import os, stat, sys
here, canary = sys.argv[1], sys.argv[2]
os.chdir(here)
os.symlink(canary, "link")
os.symlink("/etc", "folder-link")
os.mkfifo("pipe")
os.mknod("socket", stat.S_IFSOCK | 0o666)
open(b"new\nline", "w").close()
open(b"\xff\xfe", "w").close()
os.makedirs("/".join(["deep"] * 200))
with open("program", "w") as file:
    file.write("#!/bin/sh\nid\n")
try:
    os.chmod("program", 0o4755)
except PermissionError:
    pass
os.rename("input", "was")
os.symlink(os.path.dirname(canary), "input")
"""


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """Make a folder that a guest may write to, with a folder in it that a later run shows read-only."""
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        if parent.stat().st_uid == os.geteuid():
            parent.chmod(0o755)
    folder = tmp_path / "shared"
    (folder / "input").mkdir(parents=True)
    folder.chmod(0o777)
    (folder / "input").chmod(0o777)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("untouched")
    (outside / "canary").chmod(0o644)
    yield folder


def policy(**filesystem: object) -> stockade.Policy:
    return stockade.Policy(filesystem=filesystem, accept={"disk": "absent"})


def test_hostile_files_disturb_no_run(shared: Path) -> None:
    canary = shared.parent / "outside" / "canary"
    before = canary.stat()
    begin = time.monotonic()
    first = stockade.run(HOSTILE, policy=policy(write=[str(shared)]), arguments=[str(shared), str(canary)])
    assert first.ok, first.error
    second = stockade.run("import os; print(len(os.listdir()))", policy=policy(workspace=str(shared)))
    assert second.ok and int(second.stdout) >= 8, second
    assert time.monotonic() - begin < 5
    after = canary.stat()
    assert (after.st_mtime_ns, after.st_mode, after.st_nlink) == (before.st_mtime_ns, before.st_mode, before.st_nlink)
    assert canary.read_text() == "untouched"
    # With a leased uid, the set-user-id file belongs to no account; a user's own stays the user's.
    if os.geteuid() == 0:
        assert all(path.lstat().st_uid != 0 for path in shared.iterdir() if path.name != "was")


def test_planted_link_is_not_followed_later(shared: Path) -> None:
    """The guest of one run replaces a folder by a link, and the next run's policy names that folder."""
    canary = shared.parent / "outside" / "canary"
    code = "import os, sys; os.rename(sys.argv[1], sys.argv[1] + '-was'); os.symlink(sys.argv[2], sys.argv[1])"
    names = [str(shared / "input"), str(canary.parent)]
    if not stockade.run(code, policy=policy(write=[str(shared)]), arguments=names).ok:
        pytest.exit("the link could not be planted")
    shown = policy(read=[str(shared / "input")])
    try:
        result = stockade.run(f"print(open({str(shared / 'input' / 'canary')!r}).read())", policy=shown)
    except stockade.StockadeError:
        return  # refused before anything started
    assert "untouched" not in result.stdout


def test_device_node_on_host_cannot_be_made(shared: Path) -> None:
    code = "import os, stat, sys; os.mknod(sys.argv[1] + '/disk', 0o666 | stat.S_IFBLK, os.makedev(254, 0))"
    result = stockade.run(code, policy=policy(write=[str(shared)]), arguments=[str(shared)])
    assert result.error is not None and result.error.type == "PermissionError"
    assert not any(stat.S_ISBLK(path.lstat().st_mode) for path in shared.iterdir())
