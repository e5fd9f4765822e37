"""Attacks from inside the process of a service that faces the network: each succeeds without its confinement."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.service import served

import stockade
from stockade.linux import landlock

PROGRAM = """
import _thread as thread, json, mmap, os, socket, sys
from pathlib import Path
from stockade.linux import uids
from stockade.linux.seccomp import install
from stockade.service import confine
from stockade.service.database import Database
from stockade.service.keys import Keys

folder, how, tcp, unix = sys.argv[1:]
database, listener = Database(Path(folder), 2), socket.create_server(("127.0.0.1", 0))
Keys(database).find("e2b_" + 40 * "0")
if how == "without filter":
    install.install = lambda program: None
if how != "free":
    confine.confine(uids.first_uid() if os.geteuid() == 0 else None, os.pidfd_open(os.getppid()))

def child():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)

def connect():
    with socket.socket() as opened:
        opened.connect(("127.0.0.1", int(tcp)))

def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.sendto(b"x", ("127.0.0.1", int(tcp)))

def local():
    with socket.socket(socket.AF_UNIX) as opened:
        opened.connect(unix)

def pair():
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", unix + ".datagram")

ATTACKS = {
    "read": lambda: open("/etc/hostname" if os.path.exists("/etc/hostname") else "/etc/passwd").close(),
    "read database": lambda: open(f"{folder}/service.db", "rb").close(),
    "list": lambda: os.listdir("/etc"),
    "write": lambda: open(f"{folder}/new", "w").close(),
    "link": lambda: os.symlink("/etc/passwd", f"{folder}/link"),
    "environment": lambda: open("/proc/self/environ").close(),
    "connect": connect, "udp": udp, "unix": local, "pair": pair,
    "fork": child, "thread": lambda: thread.start_new_thread(int, ()),
    "spawn": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
    "memory file": lambda: os.close(os.memfd_create("x")),
    "code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close(),
    "signal": lambda: os.kill(os.getppid(), 0),
    "trace": lambda: open(f"/proc/{os.getppid()}/mem", "rb").close(),
    "remove": lambda: os.unlink(f"{folder}/service.db"),
    "exec": lambda: os.execv("/bin/sh", ["sh", "-c", f"echo '{json.dumps(found | {'exec': ''})}'"]),
}
found = {}
with database.writing() as db:
    db.exec_driver_sql("UPDATE keys SET turn = 7")
print(listener.getsockname()[1], flush=True)
listener.accept()[0].sendall(b"served")
for name, attack in ATTACKS.items():
    try:
        attack()
        found[name] = ""
    except (OSError, RuntimeError) as error:
        found[name] = type(error).__name__
print(json.dumps(found), flush=True)
os._exit(0)
"""
LEFT_TO_THE_FILTER = {"udp", "unix", "pair", "fork", "thread", "memory file", "code"}
"""Attacks that no right of Landlock covers."""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("front") / "data")


@pytest.mark.parametrize("how", ["free", "confined", "without filter"])
def test_attacks_from_the_front_are_refused(tmp_path, how):
    (tmp_path / "data").mkdir()
    unix = str(tmp_path / "socket")
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as stream,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        stream.bind(unix)
        stream.listen()
        datagram.bind(f"{unix}.datagram")
        tmp_path.chmod(0o777)
        arguments = [str(tmp_path / "data"), how, str(tcp.getsockname()[1]), unix]
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            assert client.recv(9) == b"served"
        found = json.loads(process.communicate(timeout=60)[0])
    passed = {name for name, error in found.items() if not error}
    assert passed == {"free": {*found}, "confined": set()}.get(how, passed), found
    if how == "without filter" and landlock.abi() >= landlock.SCOPED_SINCE:
        assert passed <= LEFT_TO_THE_FILTER, found


def test_the_process_that_answers_is_confined(service):
    status = dict(line.split(":\t") for line in Path(f"/proc/{service.front}/status").read_text().splitlines())
    assert (status["NoNewPrivs"], status["Seccomp"], int(status["CapEff"], 16)) == ("1", "2", 0)
    uids = {int(uid) for uid in status["Uid"].split()}
    assert len(uids) == 1
    assert (0 not in uids) if os.geteuid() == 0 else uids == {os.geteuid()}


def test_requests_are_answered_after_the_front_was_killed(service):
    client = stockade.Client(f"http://{service.address}", service.key)
    assert client.run("print(1)").stdout == "1\n"
    before = service.front
    found = []
    waiting = threading.Thread(target=lambda: found.append(client.run("import time; time.sleep(2); print(2)")))
    waiting.start()
    os.kill(before, 9)
    waiting.join(60)
    assert found[0].stdout == "2\n"
    assert service.front != before
