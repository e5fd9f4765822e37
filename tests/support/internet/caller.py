"""The caller in the small internet: builds the networks, and runs what the tests ask for."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.support.internet import CALLER, OTHER, PRIVATE, RESOLVER, VALUE, WEB

_FAR = (
    WEB, OTHER, RESOLVER, "93.184.216.3", PRIVATE, "169.254.169.254", "100.64.0.1", "192.168.7.7", "203.0.113.7",
    "168.63.129.16",
)  # fmt: skip
_FAR6 = ("2606:2800:220:1::1", "fd00:ec2::254", "2002:a00:5::1", "64:ff9b::a00:5", "2001:db8::7")
_NEAR6 = "2606:2800:220:1::fe"


def main(folder: str) -> None:
    """Build everything, then answer requests line by line."""
    os.chdir(folder)
    os.environ["SSL_CERT_FILE"] = f"{folder}/ca.pem"
    servers = subprocess.Popen(
        ["unshare", "--net", sys.executable, str(Path(__file__).with_name("servers.py")), RESOLVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    while Path(f"/proc/{servers.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
        time.sleep(0.01)
    Path("names.json").write_text("{}")
    _connect(servers.pid)
    _cover("/etc/resolv.conf", f"nameserver {RESOLVER}\n")
    _cover("/etc/hosts", "127.0.0.1 localhost\n")
    _cover("/etc/nsswitch.conf", "hosts: files dns\n")
    assert servers.stdin is not None and servers.stdout is not None
    servers.stdin.write(b"\n")
    servers.stdin.flush()
    servers.stdout.readline()
    _serve_here()
    if os.geteuid() != 0:
        _drop_capabilities()
    _say("ready")
    for line in sys.stdin:
        kind, fields = json.loads(line)
        try:
            _say(globals()[f"do_{kind}"](**fields))
        except Exception as error:  # the test shows it
            _say({"error": repr(error)})


def do_run(
    code: str, network: Any, secrets: dict[str, list[str]] | None = None, yes: list[str] | None = None, **options: Any
) -> Any:
    """Run ``code``; return the result as data, with what the servers have noted meanwhile.

    ``secrets`` are the hosts of each secret, whose value is ``VALUE``; ``yes`` are the answers of ``on_ask``.
    """
    import stockade

    os.environ["REAL_VALUE"] = VALUE
    if secrets:
        made = {name: stockade.Secret.from_env("REAL_VALUE", hosts=hosts) for name, hosts in secrets.items()}
        options["secrets"] = made
    asked: list[str] = []
    if yes is not None:
        options["on_ask"] = lambda target: asked.append(target) or target in yes
    policy = stockade.Policy(network=network, **options.pop("policy", {}))
    seen = Path("notes").stat().st_size
    result = stockade.run(code, policy=policy, backend="native", **options)
    return {"result": result.to_dict(), "notes": _notes(seen), "asked": asked}


def do_direct(code: str) -> Any:
    """Run ``code`` without a sandbox, in the caller's network: the control of an attack."""
    seen = Path("notes").stat().st_size
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, text=True)
    return {"stdout": done.stdout, "stderr": done.stderr, "notes": _notes(seen)}


def do_command(argv: list[str], seconds: float = 60.0, environment: dict[str, str] | None = None) -> Any:
    """Run a command in the caller's network."""
    seen = Path("notes").stat().st_size
    done = subprocess.run(
        argv, capture_output=True, timeout=seconds, text=True, env={**os.environ, **(environment or {})}
    )
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr, "notes": _notes(seen)}


def do_names(**names: Any) -> str:
    """Set the answers of the resolver."""
    Path("names.json").write_text(json.dumps(names))
    return "set"


def _notes(since: int) -> list[Any]:
    """Return the notes from byte ``since`` on, as soon as no more of them come."""
    size = -1
    while size != Path("notes").stat().st_size:
        size = Path("notes").stat().st_size
        time.sleep(0.15)
    with Path("notes").open(encoding="utf-8") as file:
        file.seek(since)
        return [json.loads(line) for line in file]


def _say(data: Any) -> None:
    print(json.dumps(data), flush=True)


def _ip(*words: str) -> None:
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    subprocess.run(["ip", *words], check=True, env={**os.environ, "PATH": path})


def _connect(servers: int) -> None:
    """Join both networks, and give the far one all its addresses."""
    _ip("link", "set", "lo", "up")
    _ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(servers))
    _ip("address", "add", f"{CALLER}/32", "dev", "near")
    _ip("-6", "address", "add", f"{_NEAR6}/128", "dev", "near", "nodad")
    _ip("link", "set", "near", "up")
    inside = ["nsenter", f"--net=/proc/{servers}/ns/net", "ip"]
    commands = [
        ["link", "set", "lo", "up"],
        ["link", "set", "far", "up"],
        *(["address", "add", f"{each}/32", "dev", "far"] for each in _FAR),
        *(["-6", "address", "add", f"{each}/128", "dev", "far", "nodad"] for each in _FAR6),
        ["route", "add", f"{CALLER}/32", "dev", "far"],
        ["-6", "route", "add", f"{_NEAR6}/128", "dev", "far"],
    ]
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    for command in commands:
        subprocess.run([*inside, *command], check=True, env={**os.environ, "PATH": path})
    _ip("route", "add", "default", "dev", "near")
    _ip("-6", "route", "add", "default", "dev", "near")


def _cover(path: str, content: str) -> None:
    """Bind a file of the tests' own over ``path``, in this mount namespace."""
    own = Path(path.replace("/", "_")).absolute()
    own.write_text(content)
    subprocess.run(["mount", "--bind", str(own), os.path.realpath(path)], check=True)


def _serve_here() -> None:
    """Serve port 80 of the caller's own host, at every address."""
    listener = socket.create_server(("0.0.0.0", 80))
    reply = b"HTTP/1.0 200 OK\r\n\r\nthe caller's own service"

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(reply)

    threading.Thread(target=serve, daemon=True).start()


def _drop_capabilities() -> None:
    """Become an ordinary user again, whose programs get no capability."""
    libc = ctypes.CDLL(None)
    libc.prctl(47, 4, 0, 0, 0)  # PR_CAP_AMBIENT_CLEAR_ALL
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capset(header, none)


if __name__ == "__main__":
    main(sys.argv[1])
