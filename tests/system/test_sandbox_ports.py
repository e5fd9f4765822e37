"""Connections to servers in a living sandbox: what they carry, what bounds them, and that nothing leads outside."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.support import host

import stockade
from stockade import Sandbox, SandboxClosed
from stockade.api import ports
from stockade.client import warden_process

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]
ECHO = """
import socket, sys, threading
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=getattr(socket, sys.argv[3]))
print("ready", flush=True)
def serve(client):
    while data := client.recv(1 << 16): client.sendall(data)
    client.close()
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that a second after each test nothing is left of it."""
    with host.as_before():
        yield


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Start a sandbox, and close it after the test."""
    with Sandbox.create(timeout=20) as made:
        yield made


def echo(sandbox: Sandbox, port: int, address: str = "127.0.0.1", family: str = "AF_INET") -> stockade.Process:
    server = sandbox.start_command(["python3", "-c", ECHO, address, str(port), family])
    assert server.stdout.readline(timeout=10) == b"ready\n"
    return server


@pytest.mark.parametrize(("address", "family"), [("127.0.0.1", "AF_INET"), ("::1", "AF_INET6"), ("0.0.0.0", "AF_INET")])
def test_connection_carries_bytes_both_ways_to_their_end(sandbox: Sandbox, address: str, family: str) -> None:
    echo(sandbox, 8000, address, family)
    sent = os.urandom(1 << 20)
    with sandbox.connect(8000) as stream:
        writer = threading.Thread(target=lambda: (stream.sendall(sent), stream.shutdown(socket.SHUT_WR)))
        writer.start()
        with stream.makefile("rb") as file:
            assert file.read() == sent
        writer.join()


def test_ports_where_nothing_listens_are_named(sandbox: Sandbox) -> None:
    with pytest.raises(ConnectionRefusedError, match="port 8000 of the sandbox: nothing in the sandbox listens there"):
        sandbox.connect(8000)
    for port in (0, 65536, "80", True):
        with pytest.raises(stockade.JobError, match="port"):
            sandbox.connect(port)


def test_connection_to_a_full_backlog_times_out(sandbox: Sandbox) -> None:
    code = "import socket, time; s = socket.socket(); s.bind(('', 8000)); s.listen(0); print(1, flush=True); time.sleep(60)"
    sandbox.start_command(["python3", "-c", code]).stdout.readline(timeout=10)
    with ExitStack() as held, pytest.raises(TimeoutError, match=r"no connection in 0\.5 s"):
        for _ in range(4):
            held.enter_context(sandbox.connect(8000, timeout=0.5))


def test_traffic_of_a_connection_keeps_an_idle_sandbox() -> None:
    with Sandbox.create(idle_timeout=1.5) as sandbox:
        server = echo(sandbox, 8000)
        with sandbox.connect(8000) as stream:
            for _ in range(6):
                stream.sendall(b"x")
                assert stream.recv(1) == b"x"
                time.sleep(0.5)
            assert server.poll() is None
            time.sleep(2.6)
            with pytest.raises(SandboxClosed, match="idle_timeout"):
                sandbox.start_command(["true"])


def test_forward_serves_many_clients_and_ends_with_the_sandbox() -> None:
    with Sandbox.create(timeout=20) as sandbox:
        sandbox.files.write("page.txt", "hello")
        sandbox.start_command(["python3", "-m", "http.server", "8000"], stdout="/tmp/log", stderr="/tmp/log")
        forward = sandbox.forward(8000)
        found: list[bytes] = []

        def fetch() -> None:
            found.append(urllib.request.urlopen(f"{forward.url}page.txt", timeout=10).read())

        assert host.eventually(lambda: _listens(sandbox, 8000), 10)
        clients = [threading.Thread(target=fetch) for _ in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert found == [b"hello"] * 4
        with socket.create_connection(("127.0.0.1", forward.port)) as open_one:
            sandbox.close()
            assert open_one.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", forward.port))


def _listens(sandbox: Sandbox, port: int) -> bool:
    try:
        sandbox.connect(port).close()
    except ConnectionRefusedError:
        return False
    return True


def test_forward_bounds_its_connections_and_buffers(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that reads nothing makes its client wait, and the fourth connection waits for one of three."""
    monkeypatch.setattr(ports, "_MOST_CONNECTIONS", 3)
    code = (
        "import socket\nserver = socket.create_server(('', 8000)); print(1, flush=True); held = []\n"
        "while True: held.append(server.accept()[0]); print(len(held), flush=True)"
    )
    server = sandbox.start_command(["python3", "-c", code])
    server.stdout.readline(timeout=10)
    with sandbox.forward(8000) as forward, ExitStack() as held:
        client = held.enter_context(socket.create_connection(("127.0.0.1", forward.port)))
        client.settimeout(1.0)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 64 << 20:
                sent += client.send(bytes(1 << 20))
        assert 0 < sent < 32 << 20
        for _ in range(4):
            held.enter_context(socket.create_connection(("127.0.0.1", forward.port)))
        for number in (b"1", b"2", b"3"):
            assert server.stdout.readline(timeout=10) == number + b"\n"
        with pytest.raises(TimeoutError):
            server.stdout.readline(timeout=1)


def test_guest_reaches_no_port_of_the_host_through_a_connection(sandbox: Sandbox) -> None:
    """The guest sees the host neither at the forwarded number, nor at the listener's, nor by the peer's address."""
    secret = socket.create_server(("127.0.0.1", 0))
    port = secret.getsockname()[1]
    code = f"import socket; s = socket.create_connection(('127.0.0.1', {port}), 3); print('in')"
    subprocess.run([sys.executable, "-c", code], check=True)  # the control: without a sandbox, it reaches it
    echo(sandbox, 8000)
    with sandbox.forward(8000) as forward, sandbox.connect(8000) as stream:
        stream.sendall(b"x")
        for number in (port, forward.port):
            guest = sandbox.run_command(["python3", "-c", code.replace(str(port), str(number))])
            assert "ConnectionRefusedError" in guest.stderr
        peer = "import socket, sys; s = socket.create_server(('', 9000)); print(1, flush=True)\n"
        peer += "c, a = s.accept(); n = socket.socket(); print(a[0], n.connect_ex((a[0], a[1])), flush=True)"
        server = sandbox.start_command(["python3", "-c", peer])
        server.stdout.readline(timeout=10)
        with sandbox.connect(9000):
            assert server.stdout.readline(timeout=10) == b"127.0.0.1 %d\n" % errno.ECONNREFUSED
    secret.close()


def test_number_of_a_port_of_the_host_leads_into_the_sandbox(sandbox: Sandbox) -> None:
    """A caller that names a port on which the host listens must not reach the host."""
    listener = socket.create_server(("127.0.0.1", 0))
    with pytest.raises(ConnectionRefusedError):
        sandbox.connect(listener.getsockname()[1])
    listener.close()


def test_sandbox_with_the_hosts_network_is_refused() -> None:
    with Sandbox.create(network="host") as sandbox:
        for call in (sandbox.connect, sandbox.forward):
            with pytest.raises(stockade.JobError, match="the host's network"):
                call(8000)


def test_process_that_connects_is_out_of_reach_for_the_guest(sandbox: Sandbox) -> None:
    """A guest that stops every process that it sees delays its own connections, and takes nothing from them."""
    code = (
        "import os, signal\nprint(1, flush=True)\n"
        "while True:\n"
        "  for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    if int(pid) in (1, os.getpid()): continue\n"
        "    try:\n"
        "      os.kill(int(pid), signal.SIGKILL)\n"
        "      os.listdir(f'/proc/{pid}/fd'); print('open', pid, flush=True)\n"
        "    except OSError: pass\n"
    )
    killer = sandbox.start_command(["python3", "-c", code])
    killer.stdout.readline(timeout=10)
    for _ in range(20):
        with pytest.raises((OSError, stockade.SetupError)):
            sandbox.connect(8000, timeout=2)
    killer.kill()
    assert killer.stdout.read() == b""
    with pytest.raises(ConnectionRefusedError):
        sandbox.connect(8000)


@pytest.mark.parametrize("victim", ["warden", "init"])
def test_lost_sandbox_ends_its_connections(victim: str) -> None:
    with Sandbox.create(timeout=20) as sandbox:
        server = echo(sandbox, 8000)
        forward = sandbox.forward(8000)
        stream = sandbox.connect(8000)
        client = socket.create_connection(("127.0.0.1", forward.port))
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        pid = warden_process.current().pid if victim == "warden" else _init(sandbox)
        os.kill(pid, signal.SIGKILL)
        server.wait(10)
        for each in (stream, client):
            each.settimeout(10)
            assert _rest(each) == b""
            each.close()
        with pytest.raises(SandboxClosed):
            sandbox.connect(8000)
    with Sandbox.create() as other:  # its warden removes the groups of the dead one
        other.run_command(["true"]).check()


def _rest(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1)
    except ConnectionResetError:
        return b""


def _init(sandbox: Sandbox) -> int:
    """Return the host's pid of the sandbox's init."""
    sandbox.start_command(["sleep", "86394.75"])
    found = [0]

    def look() -> bool:
        pids = [pid for pid in host.descendants(os.getpid()) if "86394.75" in host.read(f"/proc/{pid}/cmdline")]
        if pids:
            found[0] = int(host.read(f"/proc/{pids[0]}/stat").rpartition(") ")[2].split()[1])
        return bool(pids)

    assert host.eventually(look, 10)
    return found[0]


def test_dead_caller_leaves_no_listener() -> None:
    script = (
        "import stockade, sys\n"
        "sandbox = stockade.Sandbox.create()\n"
        "forward = sandbox.forward(8000)\n"
        "sandbox.start_command(['sleep', '86394.5'])\n"
        "print(forward.port, flush=True); sys.stdin.read()"
    )
    caller = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    port = int(caller.stdout.readline())
    socket.create_connection(("127.0.0.1", port)).close()
    caller.kill()
    caller.communicate()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
