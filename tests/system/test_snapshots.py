"""Snapshots and forks: what they hold, how they begin again, and that an end in the middle leaves nothing."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import host

import stockade
from stockade import Sandbox, SandboxClosed, Snapshot, SnapshotRefused
from stockade.client import warden_process

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]
MANY_KINDS = """
mkdir -p src/deep "sp ace" closed; echo one > src/deep/file; ln src/deep/file second; ln -s /etc/passwd link
printf 'x' > "sp ace/$(printf 'b\\377')"; chmod 4750 src/deep/file; echo hidden > closed/inside; chmod 000 closed
mkfifo fifo; python3 -c "import os; f = open('holes', 'wb'); f.seek(1 << 20); f.write(b'end')"
echo home > ~/dotfile; touch -d 2001-02-03T04:05:06Z src
"""
LOOK = """
import hashlib, os, stat
for top in ("/workspace", "/tmp"):
    os.chmod("/workspace/closed", 0o700)
    for place, folders, files in os.walk(top):
        folders.sort()
        for name in sorted(folders + files):
            path = os.path.join(place, name); found = os.lstat(path)
            if stat.S_ISFIFO(found.st_mode): continue
            data = open(path, "rb").read() if stat.S_ISREG(found.st_mode) else b""
            link = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""
            mode = oct(found.st_mode & ~0o6000)
            print(ascii(path), mode, hashlib.sha256(data).hexdigest()[:8], link, found.st_nlink * (not folders))
print(int(os.lstat("/workspace/src").st_mtime), os.lstat("/workspace/holes").st_blocks < 64)
"""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that a second after each test nothing is left of it."""
    with host.as_before():
        yield


def look(sandbox: Sandbox) -> str:
    return sandbox.run_command(["python3", "-c", LOOK]).check().stdout


def test_sandbox_begins_with_the_files_of_a_snapshot(tmp_path: Path) -> None:
    with Sandbox.create() as sandbox:
        sandbox.run_command(["bash", "-c", MANY_KINDS]).check()
        snapshot = sandbox.snapshot(folder=tmp_path)
        before = look(sandbox)
    assert (snapshot.skipped, snapshot.path.parent) == (1, tmp_path)
    assert stat.S_IMODE(snapshot.path.stat().st_mode) & 0o111 == 0
    for wanted in (snapshot, snapshot.path, str(snapshot.path)):
        with Sandbox.create(snapshot=wanted) as again:
            assert look(again) == before
            set_id = again.run_command(["find", "/workspace", "/tmp", "-perm", "/6000"]).check().stdout
            assert set_id == ""


def test_name_finds_a_snapshot_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with Sandbox.create() as sandbox:
        for text in ("first", "second"):
            sandbox.files.write("note", text)
            sandbox.snapshot("after-install")
    with Sandbox.create(snapshot="after-install") as again:
        assert again.files.read_text("note") == "second"
    with pytest.raises(SnapshotRefused, match="no such snapshot"):
        Sandbox.create(snapshot="never-made")


def test_snapshots_are_listed_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Snapshot.list() == ()
    with pytest.raises(FileNotFoundError):
        Snapshot.list(tmp_path / "mistyped")
    with Sandbox.create() as sandbox:
        sandbox.snapshot()
        sandbox.files.write("note", "another")
        for name in ("one", "again"):  # two names of the same files
            sandbox.snapshot(name)
    unnamed, again, one = Snapshot.list()
    assert (unnamed.name, again.name, one.name) == (None, "again", "one")
    assert unnamed.id != again.id == one.id
    (note := one.path.with_name("notes.name")).write_text("this leads to no snapshot")
    one.remove()
    assert Snapshot.list() == (unnamed,)
    for remove in (one.remove, again.remove, lambda: Sandbox.create(snapshot="again")):
        with pytest.raises(SnapshotRefused, match="no such snapshot"):
            remove()
    unnamed.remove()
    assert list(note.parent.iterdir()) == [note]


def test_policy_comes_from_who_opens_a_snapshot(tmp_path: Path) -> None:
    with Sandbox.create(environment={"SECRET_WORD": "hush"}) as sandbox:
        sandbox.files.write("big", bytes(8 << 20))
        snapshot = sandbox.snapshot(folder=tmp_path)
    assert b"hush" not in snapshot.path.read_bytes()
    small = stockade.Policy(limits={"disk": "4MiB"})
    with pytest.raises(SnapshotRefused, match="raise its limit on the disk"):
        Sandbox.create(small, snapshot=snapshot)


def test_files_are_those_of_one_moment_and_processes_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program counts in two files, with much to read between them. The control: without a pause they differ."""
    code = (
        "import os\nopen('m', 'wb').write(os.urandom(8 << 20))\nn = 0\n"
        "files = [os.open(each, os.O_RDWR | os.O_CREAT) for each in 'az']\n"
        "while True:\n  n += 1\n  for fd in files: os.pwrite(fd, b'%20d' % n, 0)\n"
        "  if n == 1: print('ready', flush=True)"
    )

    def difference(sandbox: Sandbox) -> int:
        snapshot = sandbox.snapshot(folder=tmp_path)
        with Sandbox.create(snapshot=snapshot) as again:
            return abs(int(again.files.read_text("a")) - int(again.files.read_text("z")))

    with Sandbox.create() as sandbox:
        counter = sandbox.start_command(["python3", "-c", code])
        counter.stdout.readline(timeout=20)
        assert difference(sandbox) <= 1
        before = sandbox.files.read_text("z")
        assert host.eventually(lambda: sandbox.files.read_text("z") != before, 5)
        monkeypatch.setattr(Sandbox, "pause", lambda _self: None)
        monkeypatch.setattr(Sandbox, "resume", lambda _self: None)
        assert any(difference(sandbox) > 1 for _ in range(5))  # now and then the counter is not running


def test_forks_go_their_own_ways() -> None:
    with Sandbox.create() as sandbox:
        sandbox.files.write("note", "common")
        sandbox.pause()
        twins = sandbox.forks(2)
        assert sandbox.paused
        sandbox.resume()
        assert len({sandbox.id, *(twin.id for twin in twins)}) == 3
        drawn = set()
        for number, twin in enumerate(twins):
            with twin:
                assert twin.files.read_text("note") == "common"
                twin.files.write("note", f"of {number}")
                drawn.add(twin.run_command(["python3", "-c", "import random; print(random.random())"]).stdout)
                with twin.fork() as inner:
                    assert inner.files.read_text("note") == f"of {number}"
        assert len(drawn) == 2
        assert sandbox.files.read_text("note") == "common"


def test_refused_fork_leaves_the_origin_running() -> None:
    """The files are refused when a part of them is in the twin already."""
    deep = "import os\nopen('a', 'wb').write(bytes(1 << 20))\nfor _ in range(130): os.mkdir('z'); os.chdir('z')"
    with Sandbox.create() as sandbox:
        sandbox.run_command(["python3", "-c", deep]).check()
        with pytest.raises(SnapshotRefused, match="folders lie in each other"):
            sandbox.fork()
        assert not sandbox.paused
        sandbox.run_command(["rm", "-r", "z"]).check()
        with sandbox.fork() as twin:
            assert twin.files.stat("a").size == 1 << 20


def test_fork_of_overlay_has_changes_and_leaves_project(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name in ("kept", "changed", "removed"):
        (tmp_path / name).write_text(name)
    with Sandbox.create(workspace=tmp_path, access="overlay") as sandbox:
        sandbox.run_command(["sh", "-c", "echo new > changed; rm removed; echo more > added"]).check()
        with sandbox.fork() as twin:
            assert twin.run_command(["ls"]).stdout == "added\nchanged\nkept\n"
            assert twin.files.read_text("changed") == "new\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["changed", "kept", "removed"]
    assert (tmp_path / "changed").read_text() == "changed"


def test_workspace_of_the_host_is_no_part_of_a_snapshot(tmp_path: Path) -> None:
    project, folder = tmp_path / "project", tmp_path / "snapshots"
    for each in (tmp_path, project, folder):
        each.mkdir(exist_ok=True)
        each.chmod(0o755)
    (project / "mine").write_text("mine")
    with Sandbox.create(workspace=project, access="read") as sandbox:
        assert sandbox.snapshot(folder=folder).entries == 0
    with Sandbox.create() as sandbox:
        sandbox.files.write("note", "x")
        snapshot = sandbox.snapshot(folder=folder)
    with pytest.raises(SnapshotRefused, match="that of this sandbox is a folder of the host"):
        Sandbox.create(workspace=project, access="read", snapshot=snapshot)
    assert [each.name for each in project.iterdir()] == ["mine"]


@pytest.mark.parametrize("victim", ["warden", "init"])
def test_lost_sandbox_makes_no_snapshot(victim: str, tmp_path: Path) -> None:
    with Sandbox.create() as sandbox:
        sandbox.run_command(["sh", "-c", "head -c 60000000 /dev/urandom > big"]).check()
        sandbox.start_command(["sleep", "86396.25"])
        assert host.eventually(lambda: bool(_sleeping()), 10)
        init = int(host.read(f"/proc/{_sleeping()[0]}/stat").rpartition(") ")[2].split()[1])
        pid = warden_process.current().pid if victim == "warden" else init
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises((SandboxClosed, SnapshotRefused, stockade.SetupError)):
            while True:
                sandbox.snapshot(folder=tmp_path)
                for each in tmp_path.iterdir():
                    each.unlink()
        assert list(tmp_path.iterdir()) == []
        assert host.eventually(lambda: not _sleeping(), 10)
    with Sandbox.create() as other:  # its warden removes the groups of the dead one, and so does its freezer
        process = other.start_command(["sleep", "86396.25"])
        other.pause()
    assert process.returncode is not None


def _sleeping() -> list[int]:
    return [pid for pid in host.descendants(os.getpid()) if "86396.25" in host.read(f"/proc/{pid}/cmdline")]


def test_dead_caller_leaves_no_part_of_a_snapshot(tmp_path: Path) -> None:
    script = (
        "import stockade, sys\n"
        "sandbox = stockade.Sandbox.create()\n"
        "sandbox.run_command(['sh', '-c', 'head -c 60000000 /dev/urandom > big']).check()\n"
        "sandbox.start_command(['sleep', '86396.25'])\n"
        "print('ready', flush=True); sandbox.snapshot(folder=sys.argv[1]); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    caller = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    assert caller.stdout.readline() == "ready\n"
    time.sleep(0.2)
    caller.kill()
    caller.communicate()
    assert host.eventually(lambda: not _sleeping(), 10)
    assert list(tmp_path.iterdir()) == []
