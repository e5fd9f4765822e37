"""The first process of a machine: it starts stockade's warden there, and passes each launch on to it.

It is part of the machine's initial file system, which nothing outlives. It imports the standard library and the
warden's own code, and reads nothing that a guest has written except as bytes to pass on.
"""

import ctypes
import fcntl
import json
import marshal
import os
import select
import socket
import struct
import subprocess
import sys
import time
import traceback
import types
from collections.abc import Iterator
from typing import Any

PORTS, CODE, MODULES = "/sys/class/virtio-ports", "/opt/stockade", "/modules"
HELLO, LAUNCH, INPUT = b"HLI"
READY, STDOUT, STDERR, CHANNEL, END, TROUBLE = b"R12CET"
HEAD, CLOCK = struct.Struct(">BI"), struct.Struct(">Q")
PIECE, WINDOW = 1 << 16, 1 << 19
_FINIT_MODULE = 313  # x86-64
_MS_BIND, _MS_MOVE = 1 << 12, 1 << 13
_RNDADDENTROPY, _RNDRESEEDCRNG = 0x40085203, 0x5207  # random(4)
_PASSED_ON = (
    "status", "started", "peak_memory", "peak_sockets", "locks", "past_soft_memory", "peak_processes", "oom_kills",
    "oom_outside", "forks_refused", "disk_free", "inodes_free", "cause", "failure", "output", "channel_overflow",
    "denials", "denials_truncated",
)  # fmt: skip
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Set the machine up, and serve launches until the machine is switched off."""
    _mount("dev", "/dev", "devtmpfs")
    try:
        _serve(*_set_up())
    except Exception:
        with open("/dev/console", "w", encoding="utf-8") as console:
            console.write(traceback.format_exc())


def _set_up() -> tuple[int, socket.socket, dict[str, Any]]:
    _mount("proc", "/proc", "proc")
    _mount("sys", "/sys", "sysfs")
    with open(f"{MODULES}/order", encoding="ascii") as order:
        for name in order.read().split():
            _load(f"{MODULES}/{name}")
    _leave_first_root()
    for place, kind in (("/sys/fs/cgroup", "cgroup2"), ("/dev/shm", "tmpfs"), ("/tmp", "tmpfs"), ("/run", "tmpfs")):
        os.makedirs(place, exist_ok=True)
        _mount(kind, place, kind)
    os.makedirs("/dev/pts", exist_ok=True)
    port = os.open(f"/dev/{min(os.listdir(PORTS))}", os.O_RDWR)
    control, theirs = socket.socketpair()
    subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", f"{CODE}/warden/__main__.py", str(theirs.fileno()), str(os.getpid())],
        pass_fds=(theirs.fileno(),),
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin"},
    )
    theirs.close()
    package = types.ModuleType("stockade")
    package.__path__ = [CODE]
    sys.modules["stockade"] = package
    kind, fields = next(_messages(control))
    if kind != "hello":
        raise RuntimeError(fields)
    return port, control, fields["facts"]


def _serve(port: int, control: socket.socket, facts: dict[str, Any]) -> None:
    _send(port, READY, json.dumps({"facts": facts, "free": _available()}).encode())
    while True:
        kind, content = _frame(port)
        if kind == HELLO:
            _become_unique(content)
        elif kind == LAUNCH:
            try:
                _run(port, control, marshal.loads(content))
            except Exception as error:
                _send(port, TROUBLE, f"in the machine: {type(error).__name__}: {error}".encode())


def _run(port: int, control: socket.socket, fields: dict[str, Any]) -> None:
    """Have the warden run the launch; input goes to it as long as not too much of it waits for the guest."""
    from stockade.warden import protocol

    sock, theirs = socket.socketpair()
    with sock:
        socket.send_fds(control, [protocol.NEW_RUN], [theirs.fileno()])
        theirs.close()
        sock.sendall(protocol.encode("launch", **fields))
        sent, taken, is_open = 0, 0, True
        decoder, poll = protocol.Decoder(), select.poll()
        poll.register(sock, select.POLLIN)
        while True:
            if is_open and sent - taken < WINDOW:
                poll.register(port, select.POLLIN)
            found = dict(poll.poll())
            if found.get(port, 0) & select.POLLIN:
                poll.unregister(port)
                _, data = _frame(port)
                is_open, sent = bool(data), sent + len(data)
                sock.sendall(protocol.encode("stdin", data=data))
            if sock.fileno() not in found:
                continue
            data = sock.recv(PIECE)
            if not data:
                raise RuntimeError("the warden of the machine ended")
            for kind, message in decoder.feed(data):
                if kind == "fed":
                    taken = message["count"]
                elif kind == "output":
                    _send(port, STDOUT if message["stream"] == 1 else STDERR, message["data"])
                elif kind == "refused":
                    _send(port, TROUBLE, message["message"].encode())
                    return
                elif kind == "exited":
                    _answer(port, message["report"])
                    return


def _answer(port: int, report: dict[str, Any]) -> None:
    for kind, tail in zip((STDOUT, STDERR), report["tails"], strict=True):
        _send(port, kind, tail)
    _send(port, CHANNEL, report["channel"])
    _send(port, END, json.dumps({name: report[name] for name in _PASSED_ON}).encode())


def _become_unique(content: bytes) -> None:
    """Set the clock, and seed the kernel's random numbers: until then, all copies of the machine have the same."""
    time.clock_settime_ns(time.CLOCK_REALTIME, *CLOCK.unpack_from(content))
    entropy = content[CLOCK.size :]
    with open("/dev/urandom", "rb") as device:
        fcntl.ioctl(device, _RNDADDENTROPY, struct.pack("ii", 8 * len(entropy), len(entropy)) + entropy)
        fcntl.ioctl(device, _RNDRESEEDCRNG)


def _leave_first_root() -> None:
    """Make the root a mount that pivot_root(2) can replace, which the first one never is."""
    os.makedirs("/again", exist_ok=True)
    _mount("/", "/again", "", _MS_BIND)
    for name in ("dev", "proc", "sys"):
        _mount(f"/{name}", f"/again/{name}", "", _MS_MOVE)
    os.chdir("/again")
    _mount(".", "/", "", _MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def _mount(source: str, target: str, kind: str, flags: int = 0) -> None:
    if _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None):
        raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")


def _load(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    if _libc.syscall(_FINIT_MODULE, fd, b"", 0):
        raise OSError(ctypes.get_errno(), f"load {path}: {os.strerror(ctypes.get_errno())}")
    os.close(fd)


def _messages(sock: socket.socket) -> Iterator[tuple[str, dict[str, Any]]]:
    from stockade.warden import protocol

    decoder = protocol.Decoder()
    while data := sock.recv(PIECE):
        yield from decoder.feed(data)
    raise RuntimeError("the warden of the machine did not start")


def _frame(port: int) -> tuple[int, bytes]:
    kind, length = HEAD.unpack(_read(port, HEAD.size))
    return kind, _read(port, length)


def _read(port: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = os.read(port, count - len(data))
        if not piece:
            time.sleep(0.01)  # nobody holds the other end now
        data += piece
    return data


def _send(port: int, kind: int, content: bytes) -> None:
    data = HEAD.pack(kind, len(content)) + content
    while data:
        data = data[os.write(port, data) :]


def _available() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))


if __name__ == "__main__":
    main()
