"""``stockade sandbox``: sandboxes with a name live from one command line to the next, for their owner alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support import host

from stockade.cli import sandbox_socket

pytestmark = [pytest.mark.needs("native")]
COMMAND = [sys.executable, "-m", "stockade"]
ASK = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(20)
try:
    sock.connect(sys.argv[1])
    socket.send_fds(sock, [b"R"], [0, 1, 2])
    sock.sendall(b'{"operation": "show"}' + bytes([10]))
    print(sock.recv(1000).decode() or "no answer")
except OSError:
    print("no answer")
"""


@pytest.fixture
def name(stockade) -> Iterator[str]:
    """Return a name, and close what was created under it."""
    made = f"test-{os.getpid()}"
    yield made
    left = [each for each in sandbox_socket.names() if each.startswith(made)]
    if left:
        assert stockade("sandbox", "close", *left).returncode == 0


def holder_of(stockade: Callable, name: str) -> int:
    listed = json.loads(stockade("sandbox", "ls", "--json").stdout)["sandboxes"]
    return next((each["holder"] for each in listed if each["name"] == name), 0)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() or ") Z " in host.read(f"/proc/{pid}/stat")


def runs(word: str) -> list[str]:
    return [each for each in map(str, Path("/proc").glob("[0-9]*")) if word in host.read(f"{each}/cmdline")]


def test_sandbox_keeps_its_files_from_command_to_command(stockade, name, folder):
    created = stockade("sandbox", "create", name, "--limit", "memory=256MiB", "--env", "COLOUR=red")
    assert (created.returncode, created.stdout) == (0, b""), created.stderr
    holder = holder_of(stockade, name)
    assert (sandbox_socket.folder().stat().st_mode & 0o777, holder > 0) == (0o700, True)
    ran = stockade("sandbox", "run", name, "--", "sh", "-c", "echo $COLOUR > note; echo out; echo err >&2; exit 3")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, b"out\n", b"err\n")
    assert stockade("sandbox", "files", "write", name, "src/a", stdin=b"\x00\xff").returncode == 0
    assert stockade("sandbox", "files", "read", name, "src/a").stdout == b"\x00\xff"
    assert stockade("sandbox", "files", "list", name).stdout.split()[-3:] == [b"directory", b"60", b"src"]
    fed = stockade("sandbox", "run", "-i", "--env", "N=5", name, "sh", "-c", "cat; echo $N", stdin=b"in ")
    assert fed.stdout == b"in 5\n"
    taken = stockade("sandbox", "snapshot", name, "--folder", str(folder)).stdout.decode().strip()
    assert stockade("sandbox", "fork", name, f"{name}-2").returncode == 0
    assert stockade("sandbox", "close", name).returncode == 0
    assert stockade("sandbox", "run", f"{name}-2", "cat", "note").stdout == b"red\n"
    again = stockade("sandbox", "create", name, "--snapshot", taken)
    assert again.returncode == 0, again.stderr
    assert stockade("sandbox", "files", "read", name, "note").stdout == b"red\n"
    assert stockade("sandbox", "close", name, f"{name}-2").returncode == 0
    assert host.eventually(lambda: is_gone(holder), 10)


def test_sandbox_errors_name_the_cause_and_leave_nothing(stockade, name):
    for words, status, said in (
        (("create", "a/b"), 2, "'a/b': the name of a sandbox has letters"),
        (("create", name, "--limit", "memory=1"), 2, "memory"),
        (("create", name, "--snapshot", "no-such-one"), 125, "there is no such snapshot"),
        (("run", name, "true"), 2, f"there is no sandbox '{name}'; 'stockade sandbox ls' lists them"),
    ):
        found = stockade("sandbox", *words)
        assert (found.returncode, said in found.stderr.decode()) == (status, True), found.stderr
    assert name not in sandbox_socket.names()
    assert stockade("sandbox", "create", name).returncode == 0
    for words, status, said in (
        (("create", name), 2, f"there is a sandbox '{name}' already"),
        (("fork", name, name), 2, "already"),
        (("run", name, "--", "nothing"), 127, "nothing: command not found"),
        (("run", "--timeout", "0.5", name, "sleep", "60"), 124, "wall_time"),
        (("files", "read", name, "nothing"), 2, "nothing: No such file or directory"),
    ):
        found = stockade("sandbox", *words)
        assert (found.returncode, said in found.stderr.decode()) == (status, True), found.stderr


def test_kill_of_client_or_holder_leaves_nothing(stockade, start, name):
    assert stockade("sandbox", "create", name).returncode == 0
    client = start("sandbox", "run", name, "sh", "-c", "echo begun; exec sleep 86391.5")
    assert client.stdout.readline() == b"begun\n"
    client.kill()
    assert host.eventually(lambda: not runs("86391.5"), 20)
    assert stockade("sandbox", "run", name, "sh", "-c", "sleep 86392.5 >&2 & echo left").stdout == b"left\n"
    os.kill(holder_of(stockade, name), signal.SIGKILL)
    assert host.eventually(lambda: not runs("86392.5"), 20)
    assert stockade("sandbox", "run", name, "true").returncode == 2
    assert stockade("sandbox", "create", name).returncode == 0


def test_idle_sandbox_ends_with_its_holder(stockade, name):
    assert stockade("sandbox", "create", name, "--idle", "1").returncode == 0
    assert host.eventually(lambda: name not in sandbox_socket.names(), 30)


def test_folder_that_others_can_write_to_is_refused(stockade, name):
    assert stockade("sandbox", "create", name).returncode == 0
    place = sandbox_socket.folder()
    place.chmod(0o770)
    try:
        for words in (("run", name, "true"), ("create", f"{name}-2")):
            found = stockade("sandbox", *words)
            assert (found.returncode, b"others can write there" in found.stderr) == (2, True), found
    finally:
        place.chmod(0o700)


def test_guest_reaches_no_holder(stockade, name):
    """No sandbox shows the folder, and no process that is confined like a guest is served."""
    assert stockade("sandbox", "create", name).returncode == 0
    path = str(sandbox_socket.folder() / f"{name}.sock")
    ask = ["python3", "-c", ASK, path]
    for before, answered in (
        ([], True),
        (["unshare", "--user"], False),
        (["setpriv", "--no-new-privs"], False),
    ):
        asked = subprocess.run([*before, sys.executable, *ask[1:]], capture_output=True, text=True, timeout=60)
        assert ('"id"' in asked.stdout, asked.stdout == "no answer\n") == (answered, not answered), asked
    confined = [*COMMAND, "sandbox", "run", name, "true"]
    refused = subprocess.run(["setpriv", "--no-new-privs", *confined], capture_output=True, timeout=60)
    assert (refused.returncode, b"process is confined in another way" in refused.stderr) == (125, True), refused
    shown = stockade("run", "--read", str(sandbox_socket.folder()), "--", *ask)
    assert (shown.returncode, shown.stdout, b"cannot be shown" in shown.stderr) == (2, b"", True), shown
