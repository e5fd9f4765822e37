"""The filters on the real kernel: every number swept, refusals, notifications, programs.

The sweep runs no call at all. Two filters are loaded: a guard that answers every call whose sixth argument
is MAGIC with an errno of its own, and over it the filter under test with distinctive errnos in place of its
refusals. The stricter answer wins, and among errnos the newer filter's; so a probe meets the guard's errno
exactly where the filter allows the call. Nothing can pause, exit, fork or reboot, and no errno is the kernel's.
"""

import ctypes
import errno
import json
import mmap
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from stockade.linux import seccomp
from stockade.linux.seccomp.filters import build, table_of
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.install import install, install_with_listener
from stockade.linux.seccomp.notify import is_waiting, receive, refuse
from stockade.linux.seccomp.syscalls import Arch, numbers
from stockade.linux.seccomp.table import ALL_BITS, ALLOW, Clause, Condition, Op, Rule, Table, always, answer
from stockade.linux.seccomp.tree import compile_table

MACHINE = os.uname().machine
pytestmark = pytest.mark.skipif(MACHINE not in list(Arch), reason=f"no system-call table for {MACHINE}")
ARCH = Arch(MACHINE) if MACHINE in list(Arch) else Arch.X86_64
NR = numbers(ARCH)
X32 = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
MAGIC = 0x53746F636B616465
ALLOWED = 4001  # the guard's errno
CODES = {action: 4002 + i for i, action in enumerate([answer(0), answer(1), answer(38), answer(97), 0x80000000])}


def call(nr: int, *args: int) -> int:
    """Make a system call; return its errno, or 0."""
    LIBC.syscall.restype = ctypes.c_long
    result = LIBC.syscall(ctypes.c_long(nr), *(ctypes.c_ulong(arg) for arg in args))
    return ctypes.get_errno() if result == -1 else 0


def in_child(body: Callable[[], object]) -> Any:
    """Run `body` in a forked child with two seconds; return its result, or the signal that ended it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            report_from_child(writer, body)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        report = pipe.read()
    _, status = os.waitpid(child, 0)
    assert report or os.WIFSIGNALED(status), "the child failed without a word"
    return json.loads(report) if report else signal.Signals(os.WTERMSIG(status)).name


def report_from_child(writer: int, body: Callable[[], object]) -> None:
    signal.alarm(2)
    for fault in (signal.SIGILL, signal.SIGSEGV):
        signal.signal(fault, signal.SIG_DFL)
    report = json.dumps(body()).encode()
    buffer = ctypes.create_string_buffer(report)
    call(NR["write"], writer, ctypes.addressof(buffer), len(report), 0, 0, 0)


def confined(body: Callable[[], object], which: Filter = Filter.STANDARD, **options: bool) -> Any:
    program = build(which, ARCH, **options)

    def run() -> object:
        install(program)
        return body()

    return in_child(run)


def probes(rule: Rule) -> Iterator[tuple[int, ...]]:
    yield (0,) * 5
    yield (ALL_BITS,) * 5
    for clause in rule.clauses:
        base = [0] * 5
        for condition in clause.conditions:
            base[condition.arg] = condition.value or (condition.mask if condition.op is Op.NE else 0)
        yield tuple(base)
        for arg in range(4):
            yield tuple(value | (1 << 32) * (i == arg) for i, value in enumerate(base))
            yield tuple(value + (i == arg) for i, value in enumerate(base))


def sweep(table: Table) -> dict[str, int]:
    """Return each probe of each number, with the kernel's errno."""
    caught = Rule((Clause((Condition(5, Op.EQ, MAGIC),), answer(ALLOWED)),), ALLOW)
    guard = compile_table(Table(ARCH, dict.fromkeys(range(700), caught), ALLOW, ALLOW))
    tested = compile_table(table.map(lambda action: answer(CODES[action]) if action != ALLOW else ALLOW))
    wanted = [(nr, args) for nr in swept_numbers() for args in probes(table.rules.get(nr, always(0)))]

    def body() -> dict[str, int]:
        install(guard)
        install(tested)
        return {str((nr, args)): call(nr, *args, MAGIC) for nr, args in wanted}

    found: dict[str, int] = in_child(body)
    return found


def swept_numbers() -> list[int]:
    """Return all numbers except the kernel's own tracing trampolines, which pass every filter on newer kernels."""
    trampolines = {NR.get("uretprobe"), NR.get("uprobe")}
    return [*(set(range(600)) - trampolines), *(X32 + nr for nr in range(600)), 2**31 - 1]


@pytest.mark.skipif(MACHINE != "x86_64", reason="only x86 has calls for its trampolines")
@pytest.mark.parametrize("name", ["uretprobe", "uprobe"])
def test_trampolines_called_by_hand_only_fault(name: str) -> None:
    assert confined(lambda: call(NR[name]), Filter.TIGHT) in {"SIGILL", "SIGSEGV", errno.ENXIO, errno.ENOSYS}


@pytest.mark.parametrize("refuse_shared_memory", [False, True])
@pytest.mark.parametrize("which", Filter)
def test_kernel_decides_every_number_as_table(which: Filter, refuse_shared_memory: bool) -> None:
    table = table_of(which, ARCH, refuse_shared_memory=refuse_shared_memory)
    meant = {ALLOW: ALLOWED} | CODES
    expected = {
        str((nr, args)): meant[table.decide(nr, (*args, MAGIC))]
        for nr in swept_numbers()
        for args in probes(table.rules.get(nr, always(0)))
    }
    assert sweep(table) == expected


def enter_32_bit(nr: int) -> int:
    """Execute ``int 0x80`` with zero arguments; return eax."""
    code = bytes.fromhex("53 89f8 31db 31c9 31d2 31f6 31ff cd80 5b c3")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return int(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)(nr))


@pytest.mark.skipif(MACHINE != "x86_64", reason="int 0x80 is of x86")
def test_32_bit_entry_kills_every_number() -> None:
    if in_child(lambda: enter_32_bit(20) > 0) is not True:
        pytest.skip("this kernel has no 32-bit entry")
    assert confined(lambda: enter_32_bit(20)) == "SIGSYS"
    table = table_of(Filter.PERMISSIVE, ARCH).map(lambda a: a if a == ALLOW else answer(CODES[a]))
    program = compile_table(table)

    def body() -> list[int]:
        install(program)
        return sorted({enter_32_bit(nr) for nr in range(480)})

    assert in_child(body) == [-CODES[0x80000000]]


def create_setuid_file() -> int:
    path = Path(gettempdir(), f"stockade-setuid-{os.getpid()}")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))
        assert path.stat().st_mode & 0o4000
        path.unlink()
    except OSError as error:
        return error.errno or 0
    return 0


REFUSALS: dict[str, tuple[Callable[[], int], int, int]] = {
    "unshare": (lambda: call(NR["unshare"], 0x400), 0, errno.EPERM),  # CLONE_FILES: harmless
    "setuid file by open": (create_setuid_file, 0, errno.EPERM),
    "TIOCSTI": (lambda: call(NR["ioctl"], 2**32 - 1, 0x5412, 0), errno.EBADF, errno.EPERM),
    "TIOCSTI with a high bit": (
        lambda: call(NR["ioctl"], 2**32 - 1, 1 << 40 | 0x5412, 0), errno.EBADF, errno.EPERM,
    ),
    "limits of the parent": (lambda: call(NR["prlimit64"], os.getppid(), 7, 0, 0), 0, errno.EPERM),
    "clone3": (lambda: call(NR["clone3"], 0, 0), errno.EINVAL, errno.ENOSYS),
    "clone with a namespace": (lambda: call(NR["clone"], 0x10010000), errno.EINVAL, errno.EPERM),
    "AF_NETLINK audit": (lambda: call(NR["socket"], 16, 3, 2), 0, errno.EAFNOSUPPORT),
    "personality": (lambda: call(NR["personality"], 0x400000), 0, errno.EPERM),
    "io_uring": (lambda: call(NR["io_uring_setup"], 1, 0), errno.EFAULT, errno.EPERM),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_attack_meets_exact_errno_under_filter(name: str) -> None:
    attack, unconfined, refused = REFUSALS[name]
    assert in_child(attack) == unconfined
    assert confined(attack) == refused


def test_shared_memory_refused_on_request() -> None:
    shared = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
    mapping = (NR["mmap"], 0, 4096, 3, shared, 2**64 - 1, 0)
    attacks = [mapping, (NR["memfd_create"], 0, 0), (NR["shmget"], 0x5AFE, 4096, 0)]  # no segment is made

    def body() -> list[int]:
        return [call(*attack) == errno.EPERM for attack in attacks]

    assert confined(body) == [False, False, False]
    assert confined(body, refuse_shared_memory=True) == [True, True, True]


def test_thread_started_before_filter_is_confined() -> None:
    go, done = threading.Event(), threading.Event()
    seen: list[int] = []

    def thread() -> None:
        go.wait()
        seen.append(call(NR["unshare"], 0x400))
        done.set()

    def body() -> list[int]:
        threading.Thread(target=thread, daemon=True).start()
        install(build(Filter.STANDARD, ARCH))
        go.set()
        done.wait()
        return seen

    assert in_child(body) == [errno.EPERM]


def test_invalid_filter_bytes_are_not_loaded() -> None:
    with pytest.raises(ValueError, match="7 bytes are not a seccomp program"):
        install(b"1234567")

    def body() -> str:
        with pytest.raises(OSError, match="seccomp: Invalid argument") as caught:
            install(bytes(8))
        return str(caught.value)

    assert in_child(body) == "[Errno 22] seccomp: Invalid argument"


def test_supervisor_learns_refused_call_and_answers() -> None:
    ours, theirs = socket.socketpair()
    program = build(Filter.STANDARD, ARCH, notify=True)
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(5)
            socket.send_fds(theirs, [b"x"], [install_with_listener(program)])
            os._exit(call(NR["mount"], 1, 2, 3, 4, 5))
        finally:
            os._exit(255)
    _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    assert select.select([listener], [], [], 5)[0]
    notification = receive(listener)
    assert notification is not None and is_waiting(listener, notification)
    assert (notification.pid, notification.nr, notification.audit) == (child, NR["mount"], ARCH.audit)
    assert notification.args[:5] == (1, 2, 3, 4, 5)
    assert seccomp.explain(notification.nr, ARCH).startswith("mount: attaches a file system; refused because")
    assert refuse(listener, notification, errno.EACCES)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.EACCES
    assert not is_waiting(listener, notification) and not refuse(listener, notification)
    for end in (ours, theirs):
        end.close()
    os.close(listener)
