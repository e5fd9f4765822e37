"""Builds the small internet in the namespaces of the calling process: addresses, names, certificates and servers."""

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

from stockade.attacks.internet import CALLER, LINK_LOCAL, NAMES, OTHER, PRIVATE, RESOLVER, WEB

_FAR = (
    WEB, OTHER, RESOLVER, "93.184.216.3", PRIVATE, "169.254.169.254", "100.64.0.1", "192.168.7.7", "203.0.113.7",
    "168.63.129.16", "192.0.0.8", "198.18.0.1", "240.0.0.1",
)  # fmt: skip
_FAR6 = (
    "2606:2800:220:1::1", "fd00:ec2::254", "2002:a00:5::1", "2001:0:a00:5::1", "64:ff9b::a00:5", "2001:db8::7",
    "::10.0.0.5",
)  # fmt: skip
_NEAR6 = "2606:2800:220:1::fe"
_START_SECONDS = 10.0
_OWN_PORTS = (80, 3128, 3129)
"""Ports of services on the caller's own host; the last two stand for proxies of others."""
_PATH = "/usr/sbin:/sbin"


def build(folder: Path) -> None:
    """Build everything, and start the servers. ``folder`` keeps the certificates, the names and the notes."""
    os.chdir(folder)
    os.environ["SSL_CERT_FILE"] = f"{folder}/ca.pem"
    os.environ["PATH"] += f":{_PATH}"
    Path("names.json").write_text(json.dumps(NAMES), encoding="utf-8")
    servers = subprocess.Popen(
        ["unshare", "--net", sys.executable, str(Path(__file__).with_name("servers.py")), RESOLVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    until = time.monotonic() + _START_SECONDS
    while Path(f"/proc/{servers.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
        if time.monotonic() > until:
            raise OSError("the servers have no network of their own")
        time.sleep(0.01)
    _connect(servers.pid)
    _cover("/etc/resolv.conf", f"nameserver {RESOLVER}\n")
    _cover("/etc/hosts", "127.0.0.1 localhost\n")
    _cover("/etc/nsswitch.conf", "hosts: files dns\n")
    assert servers.stdin is not None and servers.stdout is not None
    servers.stdin.write(b"\n")
    servers.stdin.flush()
    servers.stdout.readline()
    for port in _OWN_PORTS:
        _serve_here(port)
    if os.geteuid() != 0:
        _drop_capabilities()


def make_certificates(folder: Path) -> None:
    """Write an authority (``ca.pem``) and a server's key and certificate (``server.pem``)."""
    names = "DNS:example.org,DNS:*.example.org,DNS:evil.example.net"
    common = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650"]
    authority = ["-x509", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"]
    server = [
        "-subj",
        "/CN=server",
        "-addext",
        f"subjectAltName={names}",
        "-keyout",
        "server.key",
        "-out",
        "server.crt",
    ]
    for arguments in (
        [*authority, "-addext", "keyUsage=critical,keyCertSign"],
        [*server, "-x509", "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE"],
    ):
        subprocess.run(["openssl", "req", *common, *arguments], cwd=folder, check=True, capture_output=True)
    (folder / "server.pem").write_text((folder / "server.key").read_text() + (folder / "server.crt").read_text())


def _connect(servers: int) -> None:
    """Join both networks, and give the far one all its addresses."""
    there = ["nsenter", f"--net=/proc/{servers}/ns/net"]
    _ip([], "-4", "link set lo up", f"link add near type veth peer name far netns {servers}", "link set near up")
    _ip([], "-4", f"address add {CALLER}/32 dev near", "route add default dev near")
    _ip(there, "-4", "link set lo up", "link set far up", *(f"address add {each}/32 dev far" for each in _FAR))
    _ip(there, "-4", f"route add {CALLER}/32 dev far")
    _ip(there, "-6", *(f"address add {each}/128 dev far nodad" for each in _FAR6))
    _ip(there, "-6", f"address add {LINK_LOCAL}/64 dev far nodad", f"route add {_NEAR6}/128 dev far")
    _ip([], "-6", f"address add {_NEAR6}/128 dev near nodad", "address add fe80::1/64 dev near nodad")
    _ip([], "-6", "route add default dev near")


def _ip(prefix: list[str], family: str, *commands: str) -> None:
    subprocess.run([*prefix, "ip", family, "-batch", "-"], input="\n".join(commands), text=True, check=True)


def _cover(path: str, content: str) -> None:
    """Bind a file of our own over ``path``, in this mount namespace."""
    own = Path(path.replace("/", "_")).absolute()
    own.write_text(content, encoding="utf-8")
    subprocess.run(["mount", "--bind", str(own), os.path.realpath(path)], check=True)


def _serve_here(port: int) -> None:
    """Serve a port of the caller's own host, at every address."""
    listener = socket.create_server(("0.0.0.0", port))
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
