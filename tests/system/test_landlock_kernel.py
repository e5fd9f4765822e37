"""Landlock on the real kernel: each attack works unconfined first, then meets the exact errno confined.

Every attempt runs in a forked child on a fresh tree. Rights are the same for root and for anyone else.
"""
# The system call itself is the attack, so no pathlib:
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH115, PTH116, PTH208, PTH211

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import shutil
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stockade.linux import landlock
from stockade.linux.landlock import NEWEST_ABI, Ruleset

pytestmark = pytest.mark.needs("landlock")

SYSTEM = tuple(path for path in ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", "/dev") if Path(path).exists())
PROGRAM = str(Path("/bin/true").resolve())
LOADER = next((str(p.resolve()) for p in Path("/lib64").glob("ld-linux*") if p.exists()), None)
RNDGETENTCNT = 0x80045200
libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class World:
    """A tree with a read-only, two writable, a programs' and an outside folder, and listeners outside."""

    root: Path
    port: int = 0
    name: str = ""
    sent: socket.socket | None = None

    def __truediv__(self, path: str) -> str:
        return f"{self.root}/{path}"

    def rules(self, connect: tuple[int, ...] = ()) -> Ruleset:
        return Ruleset(
            read=(self / "ro", *SYSTEM),
            read_write=(self / "rw", self / "rw2", self / "bin", "/dev/null"),
            execute=(self / "bin", *(path for path in SYSTEM if path not in {"/proc", "/dev"})),
            tcp_connect=connect,
        )


Action = Callable[[World], object]
Listeners = tuple[socket.socket, socket.socket, socket.socket]


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[Listeners]:
    """Return a TCP, an abstract and a named Unix listener, all outside."""
    with (
        socket.socket() as tcp,
        socket.socket(socket.AF_UNIX) as hidden,
        socket.socket(socket.AF_UNIX) as named,
    ):
        tcp.bind(("127.0.0.1", 0))
        hidden.bind(f"\0stockade-{os.getpid()}-{id(tcp)}")
        named.bind(str(tmp_path / "s"))
        for listener in (tcp, hidden, named):
            listener.listen()
            listener.setblocking(False)
        yield tcp, hidden, named


@pytest.fixture
def world(tmp_path: Path, listeners: Listeners) -> Iterator[Callable[[], World]]:
    """Make worlds; in each, descriptors of an outside directory and file are waiting."""
    need(1)
    ends: list[socket.socket] = []

    def make() -> World:
        root = tmp_path / f"w{len(ends)}"
        for place in ("ro/dir", "rw/dir", "rw2", "bin", "outside"):
            (root / place).mkdir(parents=True)
        for place in ("ro", "rw", "bin", "outside"):
            (root / place / "file").write_text("content")
            shutil.copy(PROGRAM, root / place / "program")
        (root / "rw/link").symlink_to(root / "outside/file")
        near, far = socket.socketpair()
        ends.extend((near, far))
        opened = [os.open(root / "outside", os.O_PATH), os.open(root / "outside/file", os.O_RDONLY)]
        socket.send_fds(far, [b"x"], opened)
        for descriptor in opened:
            os.close(descriptor)
        return World(root, listeners[0].getsockname()[1], listeners[1].getsockname().decode(), near)

    yield make
    for end in ends:
        end.close()


def attempt(action: Action, world: World, rules: Ruleset | None = None, at_most: int = NEWEST_ABI) -> str:
    """Run ``action`` in a child, under ``rules`` if given; return "done" or the name of its errno."""
    near, far = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(far, _outcome(action, world, rules, at_most).encode())
        os._exit(0)
    os.close(far)
    with os.fdopen(near) as report:
        said = report.read()
    status = os.waitpid(pid, 0)[1]
    return said or ("done" if status == 0 else f"status {status}")  # silent: another program took over


def _outcome(action: Action, world: World, rules: Ruleset | None, at_most: int) -> str:
    try:
        if rules is not None:
            landlock.restrict(rules, at_most=at_most)
    except BaseException as error:
        return f"not restricted: {error!r}"
    try:
        action(world)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    except BaseException as error:
        return repr(error)
    return "done"


def need(abi: int) -> None:
    if landlock.abi() < abi:
        pytest.skip(f"needs Landlock ABI {abi}, this kernel has {landlock.abi()}")


def touch(path: str, flags: int = os.O_RDONLY, directory: int | None = None) -> None:
    os.close(os.open(path, flags, 0o600, dir_fd=directory))


def received(world: World) -> list[int]:
    assert world.sent is not None
    return list(socket.recv_fds(world.sent, 1, 2)[1])


def reopened(path: str, first: int, then: int) -> None:
    touch(f"/proc/self/fd/{os.open(path, first)}", then)


def from_inside(directory: str, name: str) -> None:
    os.chdir(directory)
    touch(name)


def own_link(world: World) -> None:
    os.symlink(world / "outside", world / "rw/mine")
    touch(world / "rw/mine/file")


def unix_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)


def device_ioctl(_: World) -> None:
    fcntl.ioctl(os.open("/dev/urandom", os.O_RDONLY), RNDGETENTCNT, bytes(4))


def node(world: World) -> None:
    os.mknod(world / "rw/node", stat.S_IFCHR | 0o600, os.makedev(0, 0))  # a whiteout: nobody may make it


def block_node(world: World) -> None:
    os.mknod(world / "rw/node", stat.S_IFBLK | 0o600, os.makedev(7, 0))


def run(path: str) -> None:
    os.execv(path, [path])


FILE_ATTACKS: dict[str, tuple[int, str, Action]] = {
    "read outside": (1, "EACCES", lambda w: touch(w / "outside/file")),
    "list outside": (1, "EACCES", lambda w: os.listdir(w / "outside")),
    "read by dot-dot": (1, "EACCES", lambda w: touch(w / "ro/dir/../../outside/file")),
    "read by a link": (1, "EACCES", lambda w: touch(w / "rw/link")),
    "read by a link of its own": (1, "EACCES", own_link),
    "read by /proc/self/root": (1, "EACCES", lambda w: touch("/proc/self/root" + w / "outside/file")),
    "read by chdir": (1, "EACCES", lambda w: from_inside(w / "outside", "file")),
    "read by reopening O_PATH": (1, "EACCES", lambda w: reopened(w / "outside/file", os.O_PATH, os.O_RDONLY)),
    "read by a sent directory": (1, "EACCES", lambda w: touch("file", directory=received(w)[0])),
    "write by a sent file": (1, "EACCES", lambda w: touch(f"/proc/self/fd/{received(w)[1]}", os.O_WRONLY)),
    "write read-only": (1, "EACCES", lambda w: touch(w / "ro/file", os.O_WRONLY)),
    "write by reopening": (1, "EACCES", lambda w: reopened(w / "ro/file", os.O_RDONLY, os.O_RDWR)),
    "create in read-only": (1, "EACCES", lambda w: touch(w / "ro/new", os.O_WRONLY | os.O_CREAT)),
    "mkdir in read-only": (1, "EACCES", lambda w: os.mkdir(w / "ro/new")),
    "rmdir in read-only": (1, "EACCES", lambda w: os.rmdir(w / "ro/dir")),
    "unlink in read-only": (1, "EACCES", lambda w: os.unlink(w / "ro/file")),
    "symlink in read-only": (1, "EACCES", lambda w: os.symlink("file", w / "ro/new")),
    "fifo in read-only": (1, "EACCES", lambda w: os.mkfifo(w / "ro/new")),
    "unix socket in read-only": (1, "EACCES", lambda w: unix_socket(w / "ro/new")),
    "character device in writable": (1, "EACCES", node),
    "truncate read-only": (3, "EACCES", lambda w: os.truncate(w / "ro/file", 0)),
    "truncate outside": (3, "EACCES", lambda w: os.truncate(w / "outside/file", 0)),
    "move in from outside": (2, "EACCES", lambda w: os.rename(w / "outside/file", w / "rw/new")),
    "move out": (2, "EACCES", lambda w: os.rename(w / "rw/file", w / "outside/new")),
    "link in from outside": (2, "EXDEV", lambda w: os.link(w / "outside/file", w / "rw/new")),
    "link read-only to gain writing": (2, "EXDEV", lambda w: os.link(w / "ro/file", w / "rw/new")),
    "move to gain execution": (2, "EXDEV", lambda w: os.rename(w / "rw/program", w / "bin/new")),
    "link to gain execution": (2, "EXDEV", lambda w: os.link(w / "rw/program", w / "bin/new")),
    "execute writable": (1, "EACCES", lambda w: run(w / "rw/program")),
    "execute read-only": (1, "EACCES", lambda w: run(w / "ro/program")),
    "execute outside": (1, "EACCES", lambda w: run(w / "outside/program")),
    "device ioctl": (5, "EACCES", device_ioctl),
}
if os.geteuid() == 0:
    FILE_ATTACKS["block device in writable"] = (1, "EACCES", block_node)


@pytest.mark.parametrize("attack", FILE_ATTACKS)
def test_file_attack_is_refused(attack: str, world: Callable[[], World]) -> None:
    abi, refusal, action = FILE_ATTACKS[attack]
    need(abi)

    assert attempt(action, world()) == "done"
    target = world()
    assert attempt(action, target, target.rules()) == refusal


def connect(port: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> None:
    with socket.socket(socket.AF_INET, kind, protocol) as made:
        made.connect(("127.0.0.1", port))


def mapped(world: World) -> None:
    with socket.socket(socket.AF_INET6) as made:
        made.connect(("::ffff:127.0.0.1", world.port))


def bind(port: int) -> None:
    with socket.socket() as made:
        made.bind(("127.0.0.1", port))


def abstract(world: World) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(world.name)


def by_pidfd(_: World) -> None:
    signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGURG)


OUTSIDE_ATTACKS: dict[str, tuple[int, str, Action]] = {
    "TCP connect": (4, "EACCES", lambda w: connect(w.port)),
    "TCP connect by a mapped address": (4, "EACCES", mapped),
    "TCP bind": (4, "EACCES", lambda w: bind(0)),
    "abstract unix socket": (6, "EPERM", abstract),
    "probe a process": (6, "EPERM", lambda w: os.kill(os.getppid(), 0)),
    "signal a process": (6, "EPERM", lambda w: os.kill(os.getppid(), signal.SIGURG)),
    "continue a process": (6, "EPERM", lambda w: os.kill(os.getppid(), signal.SIGCONT)),
    "signal by pidfd": (6, "EPERM", by_pidfd),
}


def visitors(listeners: Listeners) -> int:
    """Accept and count the connections that wait at the listeners."""
    count = 0
    for listener in listeners:
        while True:
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                break
            count += 1
    return count


@pytest.mark.parametrize("attack", OUTSIDE_ATTACKS)
def test_listeners_outside_are_not_reached(attack: str, world: Callable[[], World], listeners: Listeners) -> None:
    abi, refusal, action = OUTSIDE_ATTACKS[attack]
    need(abi)

    target = world()
    assert attempt(action, target) == "done"
    assert visitors(listeners) == int(attack.startswith(("TCP connect", "abstract")))
    assert attempt(action, target, target.rules()) == refusal
    assert visitors(listeners) == 0


def test_other_process_cannot_be_traced(world: Callable[[], World]) -> None:
    victim = os.fork()
    if victim == 0:
        libc.prctl(0x59616D61, ctypes.c_ulong(-1 & 2**64 - 1), 0, 0, 0)  # where Yama asks for leave to trace
        signal.pause()

    def seize(_: World) -> None:
        if libc.ptrace(0x4206, victim, None, None) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    try:
        target = world()
        assert attempt(seize, target) == "done"
        assert attempt(seize, target, target.rules()) == "EPERM"
    finally:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)


def mount(world: World) -> None:
    for result in (
        libc.unshare(0x00020000 | (0x10000000 if os.geteuid() else 0)),
        libc.mount(b"none", os.fsencode(world / "rw/dir"), b"tmpfs", 0, None),
    ):
        if result < 0:
            raise OSError(ctypes.get_errno(), "mount")


def test_mount_is_refused(world: Callable[[], World]) -> None:
    target = world()
    if (unconfined := attempt(mount, target)) != "done":
        pytest.skip(f"no mount namespace to try it in: {unconfined}")

    assert attempt(mount, target, target.rules()) == "EPERM"


def inner_signal(_: World) -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def inner_abstract(_: World) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(f"\0stockade-inner-{os.getpid()}")
        server.listen()
        client.connect(server.getsockname())


ALLOWED: dict[str, Action] = {
    "read": lambda w: touch(w / "ro/file"),
    "list": lambda w: os.listdir(w / "ro"),
    "write": lambda w: touch(w / "rw/file", os.O_WRONLY | os.O_TRUNC),
    "write a single file": lambda w: touch("/dev/null", os.O_WRONLY | os.O_TRUNC),
    "create": lambda w: touch(w / "rw/dir/new", os.O_WRONLY | os.O_CREAT),
    "truncate": lambda w: os.truncate(w / "rw/file", 0),
    "move": lambda w: os.rename(w / "rw/file", w / "rw2/new"),
    "link": lambda w: os.link(w / "rw/file", w / "rw/dir/new"),
    "mkdir": lambda w: os.mkdir(w / "rw/new"),
    "unix socket": lambda w: unix_socket(w / "rw/new"),
    "execute": lambda w: run(w / "bin/program"),
    "execute a system program": lambda w: run(PROGRAM),
    "connect to a named port": lambda w: connect(w.port),
    "read a sent file": lambda w: os.read(received(w)[1], 1),
    "signal a child": inner_signal,
    "abstract socket of its own": inner_abstract,
}


@pytest.mark.parametrize("act", ALLOWED)
def test_named_paths_still_work(act: str, world: Callable[[], World]) -> None:
    need(2)
    target = world()

    assert attempt(ALLOWED[act], target, target.rules(connect=(target.port,))) == "done"


def with_fast_open(world: World) -> None:
    with socket.socket() as made:
        made.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", world.port))
        made.getpeername()


def listen_unbound(_: World) -> None:
    with socket.socket() as made:
        made.listen()
        assert made.getsockname()[1]


def named_unix(world: World) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(world.root.parent / "s"))


def udp(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(b"x", ("127.0.0.1", world.port))


def from_memory(world: World) -> None:
    memory = os.memfd_create("program")
    os.write(memory, Path(PROGRAM).read_bytes())
    os.execve(memory, ["program"], {})


def by_the_loader(world: World) -> None:
    assert LOADER is not None
    os.execv(LOADER, [LOADER, world / "ro/program"])


def shared_memory(_: World) -> None:
    segment = libc.shmget(0, 4096, 0o1600)
    assert segment >= 0 and libc.shmctl(segment, 0, None) == 0


def limits_of_parent(_: World) -> None:
    resource.prlimit(os.getppid(), resource.RLIMIT_CORE, resource.prlimit(os.getppid(), resource.RLIMIT_CORE))


# Documented limits: a word of the sentence in left_open, and the act that shows it.
LIMITS: dict[str, tuple[str, Action]] = {
    "chmod": ("mode", lambda w: os.chmod(w / "outside/file", 0o777)),
    "chown": ("owner", lambda w: os.chown(w / "outside/file", os.getuid(), os.getgid())),
    "utime": ("times", lambda w: os.utime(w / "outside/file", (1, 1))),
    "setxattr": ("extended attributes", lambda w: os.setxattr(w / "outside/file", "user.x", b"x")),
    "stat": ("stat", lambda w: os.stat(w / "outside/file")),
    "readlink": ("readlink", lambda w: os.readlink(w / "rw/link")),
    "chdir": ("chdir", lambda w: os.chdir(w / "outside")),
    "UDP": ("UDP", udp),
    "MPTCP connect": ("MPTCP", lambda w: connect(w.port, protocol=262)),
    "fast open": ("MSG_FASTOPEN", with_fast_open),
    "listen unbound": ("listen() without bind()", listen_unbound),
    "named unix socket": ("named unix sockets", named_unix),
    "shared memory": ("System V IPC", shared_memory),
    "limits of another process": ("resource limits", limits_of_parent),
    "program in memory": ("memfd_create", from_memory),
    "program by the loader": ("loaded from any file", by_the_loader),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_documented_limit_stays_open(limit: str, world: Callable[[], World]) -> None:
    words, action = LIMITS[limit]
    target = world()
    if (unconfined := attempt(action, target)) != "done":
        pytest.skip(f"does not work here even unconfined: {unconfined}")

    assert any(words in gap for gap in landlock.left_open(landlock.abi()))
    assert attempt(action, target, target.rules()) == "done"


@pytest.mark.parametrize(
    ("abi", "attack"),
    [
        (2, "truncate outside"),
        (3, "TCP connect"),
        (3, "TCP bind"),
        (4, "device ioctl"),
        (5, "abstract unix socket"),
        (5, "signal a process"),
    ],
)
def test_older_abi_leaves_documented_gaps(abi: int, attack: str, world: Callable[[], World]) -> None:
    need(abi + 1)
    target = world()

    assert attempt((FILE_ATTACKS | OUTSIDE_ATTACKS)[attack][2], target, target.rules(), at_most=abi) == "done"


def test_abi_1_refuses_moves_across_directories(world: Callable[[], World]) -> None:
    target = world()

    assert attempt(ALLOWED["move"], target, target.rules(), at_most=1) == "EXDEV"


def test_ruleset_built_before_fork_holds_in_child(world: Callable[[], World]) -> None:
    target = world()
    descriptor = landlock.build(target.rules())

    def confined(action: Action) -> Action:
        def enforced(w: World) -> None:
            landlock.enforce(descriptor)
            action(w)

        return enforced

    try:
        assert not os.get_inheritable(descriptor)
        assert attempt(confined(ALLOWED["read"]), target) == "done"
        assert attempt(confined(FILE_ATTACKS["read outside"][2]), target) == "EACCES"
    finally:
        os.close(descriptor)


def test_only_calling_thread_is_restricted(world: Callable[[], World]) -> None:
    def two_threads(w: World) -> None:
        go, seen = threading.Event(), []

        def earlier() -> None:
            go.wait()
            touch(w / "outside/file")
            seen.append("outside")

        thread = threading.Thread(target=earlier)
        thread.start()
        landlock.restrict(w.rules())
        go.set()
        thread.join()
        assert seen == ["outside"]
        touch(w / "outside/file")

    assert attempt(two_threads, world()) == "EACCES"


def test_no_new_privs_is_always_set(world: Callable[[], World]) -> None:
    def check(_: World) -> None:
        assert libc.prctl(39, 0, 0, 0, 0) == 1

    assert attempt(check, world(), Ruleset()) == "done"


def test_restriction_leaves_no_descriptor(world: Callable[[], World]) -> None:
    def check(w: World) -> None:
        before = os.listdir("/proc/self/fd")
        with pytest.raises(FileNotFoundError):
            landlock.restrict(Ruleset(read=("/usr", w / "missing")))
        landlock.restrict(w.rules())
        assert os.listdir("/proc/self/fd") == before

    assert attempt(check, world()) == "done"


def test_missing_path_named_and_nothing_restricted(world: Callable[[], World]) -> None:
    def check(w: World) -> None:
        with pytest.raises(FileNotFoundError) as failure:
            landlock.restrict(Ruleset(read=(w / "missing",)))
        assert failure.value.filename == w / "missing"
        touch(w / "outside/file")

    assert attempt(check, world()) == "done"


def test_error_names_call_and_path(world: Callable[[], World]) -> None:
    def pipe(_: World) -> None:
        path = f"/proc/self/fd/{os.pipe()[0]}"
        with pytest.raises(OSError) as failure:
            landlock.restrict(Ruleset(read=(path,)))
        reason = "landlock_add_rule: Landlock cannot name this kind of file (pipe, socket or memfd)"
        assert str(failure.value) == f"[Errno {errno.EBADFD}] {reason}: '{path}'"

    def too_many(_: World) -> None:
        with pytest.raises(OSError) as failure:
            for _turn in range(100):
                landlock.restrict(Ruleset())
        reason = "landlock_restrict_self: this thread already has as many rulesets as Landlock allows"
        assert str(failure.value) == f"[Errno {errno.E2BIG}] {reason}"

    target = world()
    assert attempt(pipe, target) == "done"
    assert attempt(too_many, target) == "done"
    assert attempt(lambda w: landlock.restrict(w.rules(), at_most=0), target) == "ENOSYS"
