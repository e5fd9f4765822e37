"""The guest's first program: finishes the boot, then runs the jobs that the host sends, one after the other.

Host and guest exchange one JSON object per line over a virtio serial port. So no output of the kernel or of
anybody else on the console looks like an answer.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, "/project")
from tests.hosts.guest import kinds

_PORTS = Path("/sys/class/virtio-ports")
_PATH = "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"
_POWER_OFF = 0x4321FEDC
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Boot, serve in a child, and reap orphans meanwhile."""
    _mount_all()
    _loopback()
    server = os.fork()
    if server == 0:
        _serve(_open_port())
        os._exit(0)
    while os.wait()[0] != server:
        pass
    os.sync()
    _libc.reboot(_POWER_OFF)


def _mount_all() -> None:
    safe = _MS_NOSUID | _MS_NODEV
    for kind, target, flags, options in (
        ("devpts", "/dev/pts", _MS_NOSUID | _MS_NOEXEC, "mode=620,ptmxmode=666"),
        ("tmpfs", "/dev/shm", safe, "mode=1777"),
        ("tmpfs", "/run", safe, "mode=755"),
        ("tmpfs", "/tmp", safe, "mode=1777"),
        ("cgroup2", str(kinds.ROOT), safe | _MS_NOEXEC, "nsdelegate,memory_recursiveprot"),
    ):
        Path(target).mkdir(parents=True, exist_ok=True)
        if _libc.mount(kind.encode(), target.encode(), kind.encode(), flags, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), f"mount {kind} on {target}")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        Path(f"/dev/{name}").symlink_to(f"/proc/self/fd{target}")
    socket.sethostname("guest")


def _loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control.fileno(), _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))


def _open_port() -> int:
    for port in _PORTS.iterdir():
        if (port / "name").read_text().strip() == "talk":
            return os.open(f"/dev/{port.name}", os.O_RDWR | os.O_CLOEXEC)
    raise OSError("the host gave no port named talk")


def _serve(port: int) -> None:
    _send(port, kind="hello", kernel=os.uname().release, uptime=_uptime(), controllers=_controllers())
    pending = b""
    while True:
        data = os.read(port, 1 << 16)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            try:
                answer = _run(port, **json.loads(line))
            except Exception:
                _send(port, kind="broken", text=traceback.format_exc())
            else:
                _send(port, kind="exit", **answer)


def _run(port: int, *, caller: str, argv: list[str], environment: dict[str, str], seconds: float) -> dict[str, Any]:
    kind = kinds.KINDS[caller]
    begin = time.monotonic()
    own = kinds.prepare(kind)
    neighbour = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: kinds.join(kind)) if kind.neighbour else None
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/project",
        env={"HOME": "/home/user" if kind.uid else "/root", "PATH": _PATH, "LANG": "C.UTF-8", **environment},
        preexec_fn=lambda: kinds.enter(kind),
        start_new_session=True,
    )
    in_time = _follow(port, process, begin + seconds)
    stuck = [] if in_time else _processes()
    if not in_time:
        _end(kind.top, process.pid)
    status = process.wait()
    if neighbour is not None:
        neighbour.kill()
        neighbour.wait()
    _wait_for_clean_up(own)
    left = kinds.clear(kind)
    taken = time.monotonic() - begin
    return {"status": status, "timed_out": not in_time, "seconds": taken, "left": left, "stuck": stuck}


def _follow(port: int, process: subprocess.Popen[bytes], end: float) -> bool:
    """Pass on a process's output until it ends; return whether it ends before ``end``.

    A process that it leaves behind may hold the pipe open, so do not wait for the pipe's end.
    """
    assert process.stdout is not None
    fd = process.stdout.fileno()
    while time.monotonic() < end:
        ended = process.poll() is not None
        while select.select([fd], [], [], 0 if ended else 0.1)[0]:
            data = os.read(fd, 1 << 14)
            if not data:
                break
            _send(port, kind="output", text=data.decode("utf-8", "replace"))
        if ended:
            return True
    return False


def _processes() -> list[str]:
    """Return each process except kernel threads, and the call that it waits in."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if words:
                waits, group = (entry / "wchan").read_text(), (entry / "cgroup").read_text().strip()
                state = (entry / "stat").read_text().rpartition(") ")[2].split()[:2]
                found.append(f"{entry.name} {' '.join(state)} {waits} {group} {words[:100]}")
    return found


def _wait_for_clean_up(own: Path) -> None:
    """Wait until a warden that has just lost its caller has cleaned up."""
    end = time.monotonic() + 5
    while time.monotonic() < end and any(own.glob("stockade-*")):
        time.sleep(0.05)


def _end(top: Path, pid: int) -> None:
    if top == kinds.ROOT:
        os.killpg(pid, signal.SIGKILL)
    else:
        kinds.kill(top)


def _controllers() -> str:
    return (kinds.ROOT / "cgroup.controllers").read_text().strip()


def _uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def _send(port: int, **fields: Any) -> None:
    data = json.dumps(fields).encode() + b"\n"
    while data:
        data = data[os.write(port, data) :]


if __name__ == "__main__":
    main()
