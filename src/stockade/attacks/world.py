"""What attacks need around them, made afresh for each trial: canaries, listeners, victims, and who saw what.

A stage is a function of a ``World`` that yields once; what it puts into ``environment``, ``policy`` and
``fresh_warden`` goes to the program, to the policy and to the driver, and what it puts into ``seen`` is a question
to ask when the trial is over.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support import host

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_SYSCALLS = {"x86_64": (248, 250, 303), "aarch64": (217, 219, 264)}
_ADD_KEY, _KEYCTL, _NAME_TO_HANDLE = _SYSCALLS.get(os.uname().machine, (0, 0, 0))
_SESSION_KEYRING, _JOIN, _REVOKE = -3, 1, 3
_IPC_CREAT, _IPC_EXCL, _IPC_RMID = 0o1000, 0o2000, 0


class World:
    """One trial's surroundings."""

    def __init__(self, *, confined: bool, folder: Path) -> None:
        self.confined = confined
        self.folder = folder
        self.secret = f"CANARY-{secrets.token_hex(16)}"
        self.marker = f"stk{secrets.token_hex(5)}"
        self.environment: dict[str, str] = {"ATTACK_MARKER": self.marker}
        self.read: list[str] = []
        self.filesystem: dict[str, Any] = {}
        self.pass_fds: list[int] = []
        self.fresh_warden = False
        self.seen: dict[str, Callable[[], bool]] = {"survivors": lambda: bool(host.named(self.marker))}


@contextmanager
def staged(names: tuple[str, ...], *, confined: bool) -> Iterator[World]:
    """Yield a world in which the stages ``names`` are set."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="stockade-test-"))
        folder.chmod(0o755)  # nothing but the sandbox stands between a guest and what lies here
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        world = World(confined=confined, folder=folder)
        for name in names:
            stack.enter_context(contextmanager(_STAGES[name])(world))
        yield world


def _canary(world: World) -> Iterator[None]:
    """A file that anyone could read and write who could reach it."""
    folder = world.folder / "outside"
    folder.mkdir()
    folder.chmod(0o777)
    file = folder / "canary"
    file.write_text(world.secret + "\n", encoding="utf-8")
    file.chmod(0o666)
    world.environment["ATTACK_CANARY"] = str(file)
    before = _digest(folder)
    world.seen["changed"] = lambda: _digest(folder) != before
    yield


def _readonly(world: World) -> Iterator[None]:
    """A folder bound read-only, whose files would let anyone write."""
    folder = world.folder / "readonly"
    folder.mkdir()
    (folder / "file").write_text("untouched\n", encoding="utf-8")
    shutil.copy("/bin/sleep", folder / "program")
    for path, mode in ((folder, 0o777), (folder / "file", 0o666), (folder / "program", 0o777)):
        path.chmod(mode)
    world.read.append(str(folder))
    world.environment["ATTACK_READONLY"] = str(folder)
    before = _digest(folder)
    world.seen["changed"] = lambda: _digest(folder) != before
    yield


def _project(**filesystem: Any) -> Callable[[World], Iterator[None]]:
    """A project with a secret, hooks and a file in it, bound as the workspace."""

    def stage(world: World) -> Iterator[None]:
        folder = world.folder / "project"
        (folder / ".git" / "hooks").mkdir(parents=True)
        (folder / "sub").mkdir()
        (folder / "file").write_text("untouched\n", encoding="utf-8")
        for name in (".env", "sub/.env"):
            (folder / name).write_text(f"PASSWORD={world.secret}\n", encoding="utf-8")
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        world.filesystem = {"workspace": str(folder), **filesystem}
        (world.folder / "kit").mkdir()  # nothing is laid into a folder of the host
        shutil.copy(Path(__file__).with_name("kit.py"), world.folder / "kit")
        world.read.append(str(world.folder / "kit"))
        world.environment["PYTHONPATH"] = str(world.folder / "kit")
        world.environment["ATTACK_PROJECT"] = str(folder)
        before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        world.seen["touched"] = lambda: (
            before != {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        )
        world.seen["hooked"] = lambda: (folder / ".git" / "hooks" / "pre-commit").exists()
        yield

    return stage


def _setuid(world: World) -> Iterator[None]:
    """A set-user-id program of a third user, bound read-only; it prints its effective uid."""
    folder = world.folder / "setuid"
    folder.mkdir()
    source, program = folder / "euid.c", folder / "euid"
    text = '#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("%d\\n", (int)geteuid()); return 0; }\n'
    source.write_text(text, encoding="utf-8")
    subprocess.run(["gcc", "-static", "-o", program, source], check=True)
    os.chown(program, 4242, 4242)
    program.chmod(0o6755)
    folder.chmod(0o755)
    world.read.append(str(folder))
    world.environment["ATTACK_SETUID"] = str(program)
    yield


def _listener(family: int, kind: int, address: Any) -> Callable[[World], Iterator[None]]:
    def stage(world: World) -> Iterator[None]:
        place = address(world) if callable(address) else address
        heard = threading.Event()
        with socket.socket(family, kind) as server:
            server.bind(place)
            server.settimeout(0.1)
            if kind == socket.SOCK_STREAM:
                server.listen(8)
            if isinstance(place, tuple):
                world.environment["ATTACK_PORT"] = str(server.getsockname()[1])
            else:
                world.environment["ATTACK_SOCKET"] = place.replace("\0", "@")
                if not place.startswith("\0"):
                    Path(place).chmod(0o777)
            stop = threading.Event()
            thread = threading.Thread(target=_answer, args=(server, heard, stop))
            thread.start()
            world.seen["heard"] = heard.is_set
            try:
                yield
            finally:
                stop.set()
                thread.join()

    return stage


def _answer(server: socket.socket, heard: threading.Event, stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(TimeoutError, ConnectionError):
            if server.type == socket.SOCK_STREAM:
                connection, _ = server.accept()
                heard.set()
                with connection:
                    connection.sendall(b"heard")
            else:
                _, sender = server.recvfrom(100)
                heard.set()
                server.sendto(b"heard", sender)


def _vsock(world: World) -> Iterator[None]:
    """A listening VM socket: its family knows no network namespaces."""
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as server:
        server.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY))
        server.listen(1)
        world.environment["ATTACK_PORT"] = str(server.getsockname()[1])
        yield


def _interface(world: World) -> Iterator[None]:
    """The name of an interface of the host."""
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    world.environment["ATTACK_INTERFACES"] = ",".join(names)
    yield


def _victim(world: World) -> Iterator[None]:
    """A process of the caller's own, with a secret in its environment and a canary open."""
    file = world.folder / "held"
    file.write_text(world.secret + "\n", encoding="utf-8")
    script = f"import sys, time; held = open({str(file)!r}); print('ready', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", script, world.marker + "-victim"],
        env={**os.environ, "VICTIM_SECRET": world.secret},
        stdout=subprocess.PIPE,
        cwd=world.folder,
    )
    assert process.stdout is not None
    process.stdout.readline()
    world.environment["ATTACK_VICTIM"] = str(process.pid)
    world.seen["killed"] = lambda: process.poll() is not None or host.state(process.pid) in {"T", "t"}
    nice = os.getpriority(os.PRIO_PROCESS, process.pid)
    world.seen["reniced"] = lambda: os.getpriority(os.PRIO_PROCESS, process.pid) != nice
    world.seen.pop("survivors")  # the victim bears the marker
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        process.stdout.close()


_NEIGHBOUR = """
import os, socket, sys, time
marker = os.environ["ATTACK_MARKER"]
server = socket.socket(socket.AF_UNIX); server.bind("\\0" + marker); server.listen(1)
open("/tmp/" + marker, "w").write(os.environ["ATTACK_HIDDEN"])
open("/dev/shm/" + marker, "w").write(os.environ["ATTACK_HIDDEN"])
try:
    print("ready", flush=True)
    sys.stdin.read()
finally:
    os.unlink("/tmp/" + marker); os.unlink("/dev/shm/" + marker)
"""


def _neighbour(world: World) -> Iterator[None]:
    """Another run at the same time: a sandbox beside the confined one, an ordinary process beside the control."""
    environment = {"ATTACK_MARKER": world.marker, "ATTACK_HIDDEN": world.secret}
    if world.confined:
        yield from _neighbour_sandbox(environment)
        return
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _NEIGHBOUR, world.marker],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _neighbour_sandbox(environment: dict[str, str]) -> Iterator[None]:
    import stockade

    read, write = os.pipe()
    results: list[Any] = []
    with os.fdopen(read, "rb", buffering=0) as stdin:
        policy = stockade.Policy(limits={"wall_time": 30})
        thread = threading.Thread(
            target=lambda: results.append(stockade.run(_NEIGHBOUR, policy=policy, stdin=stdin, environment=environment))
        )
        thread.start()
        time.sleep(0.5)
        try:
            yield
        finally:
            os.close(write)
            thread.join()
    assert results[0].ok and "ready" in results[0].stdout, results[0]


def _leak(world: World) -> Iterator[None]:
    """Descriptors that the caller has open and inheritable: a folder of the host, and a file with a secret."""
    file = world.folder / "leaked"
    file.write_text(world.secret + "\n", encoding="utf-8")
    fds = [os.open("/", os.O_RDONLY), os.open(world.folder, os.O_RDONLY), os.open(file, os.O_RDONLY)]
    fds = [_moved(fd) for fd in fds]
    for fd in fds:
        os.set_inheritable(fd, True)
    world.environment["ATTACK_LEAKED"] = str(file)
    world.pass_fds += fds
    world.fresh_warden = True
    try:
        yield
    finally:
        for fd in fds:
            os.close(fd)


def _caller_secret(world: World) -> Iterator[None]:
    """A secret in the caller's own environment."""
    os.environ["STOCKADE_TEST_TOKEN"] = world.secret
    world.fresh_warden = True
    try:
        yield
    finally:
        del os.environ["STOCKADE_TEST_TOKEN"]


def _key(world: World) -> Iterator[None]:
    """A key in the caller's session keyring, joined before the warden starts."""
    _libc.syscall(_KEYCTL, _JOIN, 0)
    payload = world.secret.encode()
    serial = _libc.syscall(_ADD_KEY, b"user", world.marker.encode(), payload, len(payload), _SESSION_KEYRING)
    if serial < 0:
        raise OSError(ctypes.get_errno(), "add_key")
    world.environment["ATTACK_KEY"] = str(serial)
    world.fresh_warden = True
    try:
        yield
    finally:
        _libc.syscall(_KEYCTL, _REVOKE, serial)


def _segment(world: World) -> Iterator[None]:
    """A System V shared memory segment and a message queue of the host, open to all."""
    key = secrets.randbelow(1 << 30) + 1
    segment = _libc.shmget(key, 4096, _IPC_CREAT | _IPC_EXCL | 0o666)
    queue = _libc.msgget(key, _IPC_CREAT | _IPC_EXCL | 0o666)
    world.environment["ATTACK_IPC_KEY"] = str(key)
    world.environment["ATTACK_SEGMENT"] = str(segment)
    try:
        yield
    finally:
        _libc.shmctl(segment, _IPC_RMID, None)
        _libc.msgctl(queue, _IPC_RMID, None)


def _queue(world: World) -> Iterator[None]:
    """A POSIX message queue of the host."""
    name = f"/{world.marker}".encode()
    umask = os.umask(0)
    fd = _libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o666, None)
    os.umask(umask)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "mq_open")
    try:
        yield
    finally:
        os.close(fd)
        _libc.mq_unlink(name)


def _shared_file(world: World) -> Iterator[None]:
    """A file in the host's /dev/shm, as POSIX shared memory is."""
    path = Path("/dev/shm") / world.marker
    path.write_text(world.secret, encoding="utf-8")
    path.chmod(0o666)
    try:
        yield
    finally:
        path.unlink()


def _handle(world: World) -> Iterator[None]:
    """A file handle (open_by_handle_at(2)) of the canary, as if it had been guessed."""
    buffer = ctypes.create_string_buffer(8 + 128)
    ctypes.c_uint.from_buffer(buffer).value = 128
    mount = ctypes.c_int()
    path = world.environment["ATTACK_CANARY"].encode()
    if _libc.syscall(_NAME_TO_HANDLE, -100, path, buffer, ctypes.byref(mount), 0) < 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    world.environment["ATTACK_HANDLE"] = buffer.raw.hex()
    yield


def _device(world: World) -> Iterator[None]:
    """The number of the disk that the root file system lies on."""
    number = Path("/usr").stat().st_dev
    world.environment["ATTACK_DEVICE"] = f"{os.major(number)}:{os.minor(number)}"
    yield


def _device_times(world: World) -> Iterator[None]:
    before = Path("/dev/zero").stat().st_mtime_ns
    world.seen["changed"] = lambda: Path("/dev/zero").stat().st_mtime_ns != before
    yield


_STAGES: dict[str, Callable[[World], Iterator[None]]] = {
    "project": _project(access="read"),
    "project_overlay": _project(access="overlay"),
    "project_write": _project(access="write", hidden=["nothing"], protected=[".git/hooks"]),
    "canary": _canary,
    "readonly": _readonly,
    "setuid": _setuid,
    "tcp": _listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
    "tcp6": _listener(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
    "udp": _listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
    "unix": _listener(socket.AF_UNIX, socket.SOCK_STREAM, lambda world: str(world.folder / "s")),
    "abstract": _listener(socket.AF_UNIX, socket.SOCK_STREAM, lambda world: "\0" + world.marker),
    "vsock": _vsock,
    "interface": _interface,
    "victim": _victim,
    "neighbour": _neighbour,
    "leak": _leak,
    "caller_secret": _caller_secret,
    "key": _key,
    "segment": _segment,
    "queue": _queue,
    "shared_file": _shared_file,
    "handle": _handle,
    "device": _device,
    "device_times": _device_times,
}


def _moved(fd: int) -> int:
    """Move ``fd`` out of the way of those numbers that a program has of its own."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 50)
    finally:
        os.close(fd)


def _digest(folder: Path) -> str:
    """Return a digest of the names, contents, modes, links and times below ``folder``."""
    summary = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        facts = (path.name, status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns, status.st_size)
        summary.update(repr(facts).encode())
        if path.is_file():
            summary.update(path.read_bytes())
    return summary.hexdigest()
