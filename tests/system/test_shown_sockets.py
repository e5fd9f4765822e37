"""A folder of the host in the guest's view does not lead to a Unix socket of the host."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stockade

pytestmark = pytest.mark.needs("native")

CONNECT = """
import socket, sys
path = sys.argv[1]
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    for make in (lambda: socket.socket(socket.AF_UNIX, kind), lambda: socket.socketpair(socket.AF_UNIX, kind)[0]):
        try:
            found = make()
            found.connect(path)
            found.send(b"hi")
        except OSError as error:
            print(error.strerror)
"""
OWN = """
import socket
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/own")
server.listen()
client = socket.socket(socket.AF_UNIX)
client.connect("/tmp/own")
client.send(b"own")
print(server.accept()[0].recv(3))
"""


class Folder:
    """A folder of the host in which a service listens and keeps all data that it receives."""

    def __init__(self, path: Path) -> None:
        self.path, self.socket = path, str(path / "agent")
        self.heard: list[bytes] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.socket)
        Path(self.socket).chmod(0o666 if os.geteuid() == 0 else 0o600)
        self._server.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self.socket)
            last.send(b"end")
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        while True:
            with self._server.accept()[0] as connection:
                word = connection.recv(10)
            if word == b"end":
                return
            self.heard.append(word)


@pytest.fixture
def folder() -> Iterator[Folder]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="stockade-test-") as name:
        Path(name).chmod(0o777)
        shown = Folder(Path(name))
        yield shown
        shown.close()


def views(path: Path) -> dict[str, dict[str, Any]]:
    return {
        "read": {"read": [path]},
        "write": {"write": [path]},
        "workspace": {"workspace": path},
        "workspace-write": {"workspace": path, "access": "write"},
        "overlay": {"workspace": path, "access": "overlay"},
        "copy": {"workspace": path, "access": "copy"},
    }


BACKENDS = {"bubblewrap": "bwrap", "firejail": "firejail", "landlock": "landlock"}
ACCEPT = {"disk": "absent"}


@pytest.mark.parametrize("view", ["read", "write", "workspace", "workspace-write", "overlay", "copy"])
def test_host_socket_in_each_view_hears_nothing(view: str, folder: Folder) -> None:
    policy = stockade.Policy(filesystem=views(folder.path)[view], accept=ACCEPT)
    result = stockade.run(CONNECT, policy=policy, arguments=[folder.socket])
    assert result.ok and folder.heard == []
    closed = view not in ("overlay", "copy")
    assert ("no Unix socket except pairs" in result.enforcement["ipc"].note) == closed
    assert result.enforcement["ipc"].strength == "kernel"


def test_host_socket_is_heard_where_sockets_are_open(folder: Folder) -> None:
    files = {"read": [folder.path], "sockets": "open"}
    with pytest.raises(stockade.PlanError, match="sockets='open'"):
        stockade.run(CONNECT, policy=stockade.Policy(filesystem=files), arguments=[folder.socket])
    policy = stockade.Policy(filesystem=files, accept={"ipc": "absent"})
    result = stockade.run(CONNECT, policy=policy, arguments=[folder.socket])
    assert result.ok and folder.heard == [b"hi"], "the control of all others"


def test_packages_leave_own_sockets_and_hide_the_hosts(folder: Folder) -> None:
    venv.create(folder.path, symlinks=True)
    result = stockade.run(CONNECT, packages=folder.path, arguments=[folder.socket])
    assert result.ok and folder.heard == []
    assert stockade.run(OWN, packages=folder.path).stdout == "b'own'\n"


def test_own_sockets_work_without_a_live_folder(folder: Folder) -> None:
    assert stockade.run(OWN).stdout == "b'own'\n"
    policy = stockade.Policy(filesystem={"workspace": folder.path, "access": "overlay"})
    assert stockade.run(OWN, policy=policy).stdout == "b'own'\n"


def test_named_socket_is_refused_with_its_path(folder: Folder) -> None:
    for field in ("read", "write"):
        with pytest.raises(stockade.JobError, match=f"{folder.socket} is a Unix socket"):
            stockade.run("1", policy=stockade.Policy(filesystem={field: [folder.socket]}, accept=ACCEPT))


def test_refused_socket_is_explained_with_a_remedy(folder: Folder) -> None:
    policy = stockade.Policy(filesystem={"read": [folder.path]}, security={"explain_denials": True})
    (denial,) = stockade.run("import socket; socket.socket(socket.AF_UNIX)", policy=policy).denials
    assert denial.call == "socket" and "one of them may be a socket" in denial.explanation
    assert "filesystem.sockets='open'" in str(denial.allowed_by)


def test_warm_guest_is_refused_as_a_cold_one(folder: Folder) -> None:
    policy = stockade.Policy(filesystem={"read": [folder.path]})
    with stockade.Runner(policy, warm=True) as box:
        for _ in range(2):
            result = box.run(CONNECT.replace("sys.argv[1]", repr(folder.socket)))
            assert result.ok and "Permission denied" in result.stdout
    assert folder.heard == []


@pytest.mark.parametrize(
    "backend", [pytest.param(name, marks=pytest.mark.needs(need)) for name, need in BACKENDS.items()]
)
def test_other_backends_refuse_host_sockets_too(backend: str, folder: Folder) -> None:
    accept = dict.fromkeys(("disk", "process_view", "no_survivors", "filesystem_read", "filesystem_write"), "absent")
    policy = stockade.Policy(filesystem={"read": [folder.path]}, accept=accept)
    options = {"policy": policy, "backend": backend, "interpreter": "/usr/bin/python3", "arguments": [folder.socket]}
    result = stockade.run(CONNECT, **options)
    assert result.outcome == "completed" and folder.heard == [], result


@pytest.mark.parametrize("path", ["/tmp", "/run", "/run/stockade", "/tmp/stockade-1-2-abc/workspace"])
@pytest.mark.parametrize("field", ["read", "write", "workspace"])
def test_stockades_own_folders_are_never_shown(field: str, path: str) -> None:
    files = {field: path if field == "workspace" else [path], "access": "overlay" if field == "workspace" else None}
    with pytest.raises(stockade.JobError, match="stockade keeps the folders of other runs"):
        stockade.run("1", policy=stockade.Policy(filesystem=files, accept=ACCEPT))
