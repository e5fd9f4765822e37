"""Runs one program without the protection under attack, and reports how it went. Control runs use it.

``python enclosure.py JSON``: the program has the caller's rights, with three exceptions. Root's program gets its own
mount namespace; others get only the namespaces that the order names. Time and memory are bounded. At the end, the
processes that the program left are reported and killed; the same happens if the caller dies or sends SIGTERM.
"""
# This process runs beside hostile programs, so it needs few modules: no pathlib.
# ruff: noqa: PTH101, PTH123, PTH208

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any, NoReturn

NEW = {
    "mount": 0x20000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000,
    "uts": 0x04000000, "cgroup": 0x02000000,
}  # fmt: skip
MS_LOCKED = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC  # the same bits as those of mount(2)
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 0x1000, 0x4000, 1 << 18
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KEPT = 1 << 16
TAKING_SECONDS = 5.0
BOUNDS = (  # soft limits: programs that attack a limit can still raise them
    (resource.RLIMIT_CORE, 1),  # 0 would let a crash start a core handler of the host (core(5))
    (resource.RLIMIT_CPU, 30),
    (resource.RLIMIT_DATA, 1 << 30),
    (resource.RLIMIT_FSIZE, 512 << 20),
)

libc = ctypes.CDLL(None, use_errno=True)


def main(order: dict[str, Any]) -> None:
    """Run the program of the order and print the report."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, give_up)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    enter(order)
    for kind, most in BOUNDS:
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    victim = None
    order["nice"] = os.getpriority(os.PRIO_PROCESS, 0)
    if order["inside_victim"]:
        victim = subprocess.Popen(["/bin/sleep", "60"])
        order["environment"]["ATTACK_VICTIM"] = str(victim.pid)
    report = run(order)
    report |= collect(order["collector"], order["collected"])
    report["victim_killed"] = victim is not None and victim.poll() is not None
    alive = victim is not None and victim.poll() is None
    report["victim_reniced"] = (
        victim is not None and alive and os.getpriority(os.PRIO_PROCESS, victim.pid) != order["nice"]
    )
    # PID 1 of a PID namespace takes all of the namespace's processes along, and /proc is not that namespace's.
    report["survivors"] = end_all() if os.getpid() > 1 else []
    print(json.dumps(report, allow_nan=False))


def give_up(_number: int, _frame: object) -> NoReturn:
    """Kill everything that runs here and end, because the caller died or sent SIGTERM."""
    if os.getpid() > 1:  # PID 1 of a PID namespace takes all of the namespace's processes along
        end_all()
    os._exit(1)


def enter(order: dict[str, Any]) -> None:
    """Create and enter the namespaces of the order, and set them up."""
    names = order["namespaces"]
    if not names:
        return
    uid, gid = os.getuid(), os.getgid()
    flags = 0
    for name in names:
        flags |= NEW[name]
    check(libc.unshare(flags), "unshare")
    if "user" in names:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    if "mount" in names:
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        if order["readonly"]:
            mount(order["readonly"], order["readonly"], None, MS_BIND)
            kept = os.statvfs(order["readonly"]).f_flag & MS_LOCKED  # mount_namespaces(7)
            mount(None, order["readonly"], None, MS_BIND | MS_REMOUNT | MS_RDONLY | kept)
        if order["cover"]:
            mount("tmpfs", order["cover"], "tmpfs", 0)
    if "pid" in names:
        fork_into_pid_namespace()
    if order["address"]:
        answer_on(order["address"])


def fork_into_pid_namespace() -> None:
    """Continue as PID 1 of the new namespace, while the outer process waits."""
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def answer_on(address: str) -> None:
    """Give the loopback of the new network namespace ``address``, and answer on port 80 there."""
    control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS
    inner = struct.pack("H2x4s8x", socket.AF_INET, socket.inet_aton(address))
    fcntl.ioctl(control, 0x8916, struct.pack("16s16s8x", b"lo:1", inner))  # SIOCSIFADDR
    server = socket.create_server((address, 80))

    def serve() -> None:
        while True:
            # Accept(2) occupies a descriptor while it waits, and 3 must stay the channel's.
            select.select([server], [], [])
            connection, _ = server.accept()
            connection.sendall(b"heard")
            connection.close()

    threading.Thread(target=serve, daemon=True).start()


def run(order: dict[str, Any]) -> dict[str, Any]:
    """Run the program until it ends or its time is up."""
    channel_read, channel_write = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in os.pipe())
    os.dup2(channel_write, 3)
    os.close(channel_write)
    keep = {3, *order["pass_fds"]}
    begin = time.monotonic()
    process = subprocess.Popen(
        order["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=order["folder"], env=order["environment"], pass_fds=sorted(keep), start_new_session=True,
    )  # fmt: skip
    os.close(3)
    assert process.stdout is not None and process.stderr is not None
    streams = {"stdout": process.stdout.fileno(), "stderr": process.stderr.fileno(), "channel": channel_read}
    kept = {name: bytearray() for name in streams}
    counts = dict.fromkeys(streams, 0)
    readers = [
        threading.Thread(target=pump, args=(fd, name, kept, counts), daemon=True) for name, fd in streams.items()
    ]
    for reader in readers:
        reader.start()
    status = None
    with contextlib.suppress(subprocess.TimeoutExpired):
        status = process.wait(order["timeout"])
    for reader in readers[:2]:
        reader.join(max(0.0, order["timeout"] - (time.monotonic() - begin)))
    return {
        "status": status,
        "timed_out": status is None,
        "seconds": time.monotonic() - begin,
        "counts": counts,
        **{name: bytes(data).decode("utf-8", "replace") for name, data in kept.items()},
    }


def collect(how: str | None, folder: str) -> dict[str, Any]:
    """Process the program's files as a careless supervisor does.

    Return whether that takes too long, the size of each file that was taken, and the beginning of their text.
    """
    taken: dict[str, int] = {}
    text = bytearray()

    def careless() -> None:
        path = folder + "/answer"
        if how == "take":
            take_all(folder, taken, text)
        elif how == "chmod":
            os.chmod(path, 0o600)
        elif how is not None:
            with open(path, {"write": "a", "read": "r"}[how]) as file:
                file.write("collected") if how == "write" else file.read()

    thread = threading.Thread(target=careless, daemon=True)
    thread.start()
    thread.join(TAKING_SECONDS if how == "take" else 1.0)
    return {"blocked": thread.is_alive(), "taken": taken, "taken_text": text.decode("utf-8", "replace")}


def take_all(folder: str, taken: dict[str, int], text: bytearray) -> None:
    """Read every file below ``folder``, and follow every link."""
    for place, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118
            with open(path, "rb") as file:
                taken[path] = 0
                while data := file.read(1 << 20):
                    taken[path] += len(data)
                    text += data[: KEPT - len(text)]


def pump(fd: int, name: str, kept: dict[str, bytearray], counts: dict[str, int]) -> None:
    """Read a stream to its end, and keep its beginning."""
    while True:
        try:
            data = os.read(fd, 1 << 16)
        except OSError:
            return
        if not data:
            return
        counts[name] += len(data)
        kept[name] += data[: KEPT - len(kept[name])]


def end_all() -> list[str]:
    """Kill every descendant, and return the names of those that were still alive."""
    names: list[str] = []
    quiet = 0
    for _ in range(200):
        alive = [pid for pid in below(os.getpid()) if state(pid) not in "ZX"]
        quiet = 0 if alive else quiet + 1
        if quiet == 5:  # one look can miss a process that is just being forked
            break
        for pid in alive:
            try:
                with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/cmdline") as line:
                    names.append(comm.read() + line.read())
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        time.sleep(0.005)
    return names


def below(pid: int) -> list[int]:
    """Return every descendant of ``pid``."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child, *below(child)]
    except OSError:
        pass
    return found


def state(pid: int) -> str:
    """Return the state letter of a process (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(") ")[2][0]
    except OSError:
        return "X"


def mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    """Call mount(2)."""
    encoded = [None if part is None else part.encode() for part in (source, target, kind)]
    check(libc.mount(*encoded, ctypes.c_ulong(flags), None), f"mount on {target}")


def check(result: int, what: str) -> None:
    """Raise the errno of a C call that failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
