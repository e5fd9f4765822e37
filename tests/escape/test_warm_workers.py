"""A worker serves many runs: one run leaves nothing for the next, and two runs at once share nothing.

As the control, the run that leaves a trace looks for it too, and must find it.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
from pathlib import Path

import pytest

import stockade
from stockade import Policy, Result
from tests.support import host

pytestmark = pytest.mark.needs("native")

_WORKER = "import os as _os; print('worker', _os.readlink('/proc/self/ns/pid'))\n"
_RUNS = 6
_MOST_RUNS = 300  # about four are needed for each of _RUNS

_MEMORY = """
def has(first, second):
    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:
        for line in maps:
            place, modes, *_ = line.split()
            begin, end = (int(each, 16) for each in place.split('-'))
            if modes.startswith('rw'):
                try:
                    memory.seek(begin)
                    if any(each.startswith(second) for each in memory.read(end - begin).split(first)[1:]): return True
                except (OSError, OverflowError, ValueError):
                    pass
    return False
"""
_LABEL = """
import socket, struct
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
wanted = socket.inet_pton(socket.AF_INET6, '::1') + struct.pack('!I', 0x12345)
s.setsockopt(41, 32, wanted + struct.pack('=BBHHHI', 0, 255, 1, 0, 60, 0))
"""
_BOUND = "import socket; bound = socket.socket(socket.AF_UNIX); bound.bind('\\0left'); bound.listen()"
_IN_FLIGHT = f"""{_BOUND}
import array
a, b = socket.socketpair()
a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [a.fileno(), b.fileno(), bound.fileno()]))])
"""
_CLIENT = (
    "import socket\nc = socket.socket(socket.AF_UNIX)\ntry: c.connect('\\0left'); print('FOUND')\nexcept OSError: pass"
)
_C = "import ctypes; c = ctypes.CDLL(None)\n"
_NAMELESS = "os.fstat(os.open('/tmp', os.O_TMPFILE | os.O_RDWR)).st_ino"
_ACL = "<I" + "HHI" * 3
_ENTRIES = (2, *(1, 7, 0xFFFFFFFF), *(4, 7, 0xFFFFFFFF), *(32, 7, 0xFFFFFFFF))
_FLAGS = "import fcntl, os, struct; fd = os.open('/tmp', os.O_RDONLY)\n"
TRACES = {
    "file in /tmp": ("open('/tmp/left', 'w')", "import os; os.path.exists('/tmp/left') and print('FOUND')"),
    "file in /dev/shm": ("open('/dev/shm/left', 'w')", "import os; os.path.exists('/dev/shm/left') and print('FOUND')"),
    "file in the workspace": ("open('left', 'w')", "import os; os.path.exists('left') and print('FOUND')"),
    "mode of a folder": ("import os; os.chmod('/tmp', 0o700)", "import os; os.stat('/tmp').st_mode & 7 or print('FOUND')"),
    "times of a folder": ("import os; os.utime('/tmp', (1, 1))", "import os; os.stat('/tmp').st_mtime == 1 and print('FOUND')"),
    "time at which a folder was read": (
        "import os, time; time.sleep(0.02); os.listdir('/dev/shm')",
        "import os; seen = os.stat('/dev/shm'); seen.st_atime_ns > seen.st_mtime_ns and print('FOUND')",
    ),
    "file that is gone": (
        "import os, time; time.sleep(0.02); open('/tmp/left', 'w'); os.unlink('/tmp/left')",
        "import os; seen = os.stat('/tmp'); seen.st_mtime_ns > seen.st_atime_ns and print('FOUND')",
    ),
    "file without a name": (f"import os; [{_NAMELESS} for _ in range(9)]", f"import os; {_NAMELESS} > 9 and print('FOUND')"),
    "extended attribute": (
        "import os; os.setxattr('/tmp', 'user.left', b'1')",
        "import os; 'user.left' in os.listxattr('/tmp') and print('FOUND')",
    ),
    "access control list": (
        f"import os, struct; os.setxattr('/tmp', 'system.posix_acl_default', struct.pack('{_ACL}', *{_ENTRIES}))",
        "import os; os.listxattr('/tmp') and print('FOUND')",
    ),
    "flag of a folder": (
        _FLAGS + "fcntl.ioctl(fd, 0x40086602, struct.pack('l', 0x40))",
        _FLAGS + "struct.unpack('l', fcntl.ioctl(fd, 0x80086601, bytes(8)))[0] & 0x40 and print('FOUND')",
    ),
    "segment": (_C + "c.shmget(77, 4096, 0o1666)", _C + "c.shmget(77, 0, 0) >= 0 and print('FOUND')"),
    "semaphore": (_C + "c.semget(77, 1, 0o1666)", _C + "c.semget(77, 0, 0) >= 0 and print('FOUND')"),
    "message queue": (_C + "c.msgget(77, 0o1666)", _C + "c.msgget(77, 0) >= 0 and print('FOUND')"),
    "flow label": (_LABEL, "print('FOUND' if '12345' in open('/proc/net/ip6_flowlabel').read() else '')"),
    "listening socket": (_BOUND, _CLIENT),
    "socket in flight": (_IN_FLIGHT, _CLIENT),
    "connection that lingers": (
        "import socket\ns = socket.create_server(('127.0.0.1', 4321)); c = socket.create_connection(('127.0.0.1', 4321))\n"
        "p, _ = s.accept(); p.close(); c.close(); s.close()",
        "print('FOUND' if len(open('/proc/net/tcp').read().splitlines()) > 1 else '')",
    ),
    "taken port": (
        "import socket\ns = socket.create_server(('127.0.0.1', 4321)); c = socket.create_connection(('127.0.0.1', 4321))\n"
        "p, _ = s.accept(); p.close(); c.close(); s.close()",
        "import socket\ns = socket.socket()\ntry: s.bind(('127.0.0.1', 4321))\nexcept OSError: print('FOUND')",
    ),
    "counted packet": (
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        "print('FOUND' if [l.split()[4] for l in open('/proc/net/snmp') if l.startswith('Udp:')][1] != '0' else '')",
    ),
    **{
        f"what netstat counts of {name}": (
            f"import socket as s\ntry:\n    {deed}\nexcept OSError: pass",
            "print('FOUND' if any(n != '0' for l in open('/proc/net/netstat') for n in l.split()[1:] if n.isdigit()) else '')",
        )
        for name, deed in {
            "a datagram": "s.socket(2, 2).sendto(b'x', ('127.0.0.1', 9))",
            "a refusal": "s.create_connection(('127.0.0.1', 1))",
            "a fast opening": "s.socket().sendto(b'x', s.MSG_FASTOPEN, ('127.0.0.1', 1))",
            "a connection": "l = s.create_server(('127.0.0.1', 0)); c = s.create_connection(l.getsockname()); l.accept()",
        }.items()
    },
    "numbers of processes": (
        "import os\nfor _ in range(5):\n    if os.fork() == 0: os._exit(0)\n    os.wait()",
        "import os\nchild = os.fork()\nif child == 0: os._exit(0)\nos.wait(); child > 3 and print('FOUND')",
    ),
    "process": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)\nos.wait()",
        "import os; print('FOUND' if len([n for n in os.listdir('/proc') if n.isdigit()]) > 2 else '')",
    ),
    "variable": ("import os; os.environ['LEFT'] = '1'", "import os; os.getenv('LEFT') and print('FOUND')"),
    "module": ("import sys; sys.modules['left'] = sys", "import sys; 'left' in sys.modules and print('FOUND')"),
    "builtin": ("import builtins; builtins.left = 1", "import builtins; hasattr(builtins, 'left') and print('FOUND')"),
    "limit": (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))",
        "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[1] == 20 and print('FOUND')",
    ),
    "priority": ("import os; os.nice(7)", "import os; os.nice(0) >= 7 and print('FOUND')"),
    "memory": (
        "secret = 'left of a job' + ' that was there'",
        _MEMORY + "has(b'left of a job', b' that was there') and print('FOUND')",
    ),
}  # fmt: skip


def pairs(of: dict[str, tuple[str, str]]) -> list[object]:
    """Return the parameters. Without a group that counts segments they are refused, so that case needs root."""
    needs = {"segment": [pytest.mark.needs("root")]}
    return [pytest.param(*codes, id=name, marks=needs.get(name, ())) for name, codes in of.items()]


@pytest.fixture(scope="module")
def box() -> stockade.Runner:
    return stockade.Runner(backend="native", warm=True)


def on_one_worker(box: stockade.Runner, first: str, second: str) -> list[Result]:
    """Return some runs of ``second``, each directly after a run of ``first`` on the same worker."""
    found: list[Result] = []
    last: dict[str, str] = {}
    chance = random.Random(0)  # workers take turns in varying order, so a fixed order of programs could miss every pair
    for _ in range(_MOST_RUNS):
        code = chance.choice((first, second))
        result = box.run(_WORKER + code)
        assert result.ok, result.summary() + result.stderr
        worker = result.stdout.splitlines()[0]
        if last.get(worker) == first and code == second:
            found.append(result)
            if len(found) == _RUNS:
                return found
        last[worker] = code
    raise AssertionError(f"of {_MOST_RUNS} runs, only {len(found)} came after the other program on one worker")


@pytest.mark.parametrize(("leave", "find"), pairs(TRACES))
def test_next_run_finds_no_trace(box: stockade.Runner, leave: str, find: str) -> None:
    control = box.run(f"{leave}\n{find}")
    assert "FOUND" in control.stdout, control.summary() + control.stderr
    for result in on_one_worker(box, leave, find):
        assert result.ok, result.summary() + result.stderr
        assert "FOUND" not in result.stdout


def test_usage_of_earlier_runs_is_not_visible(box: stockade.Runner) -> None:
    """The worker's times include those of all guests that it reaped, with their copied pages (proc_pid_stat(5)).

    Its list of mounts is the guest's own list, which is new for each guest.
    """
    spend = "sum(range(10**6)); held = bytearray(20 << 20); print(0)"
    look = """
import os
fields = open('/proc/1/stat').read().rpartition(')')[2].split()
print(sum(map(int, (fields[8], *fields[13:15]))))  # cminflt, cutime, cstime
for folder, _, names in os.walk('/proc/1'):
    for name in sorted(names) if '/net' not in folder else ():
        if name == 'mountinfo': continue
        try: print(folder, name, open(f'{folder}/{name}').read().encode().hex())
        except (OSError, UnicodeError): pass
"""
    visible: dict[str, set[str]] = {}
    for result in on_one_worker(box, spend, look):
        worker, spent, *rest = result.stdout.splitlines()
        assert spent == "0"
        visible.setdefault(worker, set()).add("\n".join(rest))
    assert all(len(each) == 1 for each in visible.values()), [sorted(each) for each in visible.values()]


@pytest.mark.needs("root")
def test_memory_left_charged_counts_for_no_run() -> None:
    """The kernel frees a segment some time after its namespace. Until then its memory counted for the next run."""
    box = stockade.Runner(Policy(limits={"memory": "96MiB"}), backend="native", warm=True)
    leave = (
        _C
        + "c.shmat.restype = ctypes.c_void_p\nat = c.shmat(c.shmget(77, 80 << 20, 0o1600), None, 0)\nctypes.memset(at, 1, 80 << 20)"
    )
    for _ in range(_RUNS):
        assert box.run(leave).ok
        for code in ("held = bytearray(1 << 20)", "held = bytearray(50 << 20)"):
            result = box.run(code)
            assert result.ok, result.summary()
            assert result.usage.peak_memory < 70 << 20


@pytest.mark.needs("root")
def test_limit_lifted_to_end_a_run_holds_again() -> None:
    """A killed guest may exceed a limit to die, but the next guest of its worker may not."""
    spin = "import time\nbegin = time.monotonic()\nwhile time.monotonic() - begin < 0.4: pass"
    box, ended = (
        stockade.Runner(Policy(limits={"cpu_rate": 0.25, "wall_time": wall}), backend="native", warm=True)
        for wall in (10, 0.3)
    )
    assert [ended.run("while True: pass").limit for _ in range(4)] == ["wall_time"] * 4
    for _ in range(4):
        result = box.run(spin)
        assert result.usage.cpu_seconds < 0.5 * result.usage.wall_seconds


@pytest.mark.needs("root")
def test_tasks_of_one_run_count_for_no_other() -> None:
    box = stockade.Runner(backend="native", warm=True)
    assert box.run("1").usage.processes in (1, None)
    fork = "import os\nif os.fork() == 0: os._exit(0)\nos.wait()"
    assert box.run(fork).usage.processes in (2, None)
    assert {result.usage.processes for result in on_one_worker(box, fork, "0")} <= {1, None}


_KEYS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
USER, SEARCH = ctypes.c_long(-4), 10  # the key ring of the user, in this user namespace (keyctl(2))
numbers = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
leave = lambda: libc.syscall(ctypes.c_long(numbers[0]), b"user", b"left", b"there", ctypes.c_size_t(5), USER)
find = lambda: libc.syscall(ctypes.c_long(numbers[1]), ctypes.c_long(SEARCH), USER, b"user", b"left", ctypes.c_long(0))
"""


@pytest.mark.needs("root")
def test_keys_under_own_filter_are_not_shared(tmp_path: Path) -> None:
    """The guests of a worker share a user namespace, so they would share its key rings."""
    file = tmp_path / "filter.json"
    calls = [{"names": ["add_key", "keyctl"], "action": "SCMP_ACT_ALLOW"}]
    file.write_text(json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": calls}))
    box = stockade.Runner(Policy(security={"syscalls_file": str(file)}), backend="native")
    assert box.run(_KEYS + "leave() > 0 and find() > 0").value is True
    assert all(result.value == -1 for result in on_one_worker(box, _KEYS + "leave() > 0", _KEYS + "find()"))


def test_job_input_is_in_no_other_runs_memory(box: stockade.Runner) -> None:
    secret = os.urandom(16).hex()
    half, other = secret[:16], secret[16:]
    find = _MEMORY + f"print('FOUND' if has(b'{half}', b'{other}') else '')"
    given = {"environment": {"SECRET": secret}, "arguments": [secret], "stdin": secret}
    assert "FOUND" in box.run(find, **given).stdout
    assert not any("FOUND" in box.run(find).stdout for _ in range(_RUNS))


def test_run_has_only_its_streams_open(box: stockade.Runner) -> None:
    code = "import os\nfor n in range(100):\n    try: print(n, os.readlink(f'/proc/self/fd/{n}').split(':')[0])\n    except OSError: pass"
    for _ in range(_RUNS):
        assert box.run(code).stdout == "0 pipe\n1 pipe\n2 pipe\n3 pipe\n"


# -- two at once ---------------------------------------------------------------------------------------------------

_WAIT = "import sys, time; sys.stdin.read()"
SHARED = {
    "port": ("import socket\ns = socket.create_server(('127.0.0.1', 4321))", "import socket\ntry: socket.create_connection(('127.0.0.1', 4321)); print('FOUND')\nexcept OSError: pass"),
    "abstract socket": (_BOUND, _CLIENT),
    "segment": TRACES["segment"],
    "file": TRACES["file in /dev/shm"],
    "process": TRACES["process"],
}  # fmt: skip


@pytest.mark.parametrize(("leave", "find"), pairs(SHARED))
def test_runs_at_once_share_nothing(box: stockade.Runner, leave: str, find: str) -> None:
    control = box.run(f"{leave}\n{find}")
    assert "FOUND" in control.stdout, control.summary() + control.stderr
    with box.stream(f"{leave}\nprint('here', flush=True)\n{_WAIT}", interactive=True) as stream:
        for event in stream:
            if isinstance(event, stockade.Output):
                break
        found = [box.run(find) for _ in range(3)]
        stream.close_stdin()
        for _ in stream:
            pass
        other = stream.result
    assert other.ok, other.summary() + other.stderr
    assert all(result.ok and "FOUND" not in result.stdout for result in found)


@pytest.mark.needs("root")
def test_runs_at_once_have_different_uids(box: stockade.Runner) -> None:
    marker = f"m{os.urandom(8).hex()}"
    code = f"import ctypes, time; ctypes.CDLL(None).prctl(15, b'{marker[:15]}', 0, 0, 0); time.sleep(1)"
    threads = [threading.Thread(target=box.run, args=(code,)) for _ in range(6)]
    for each in threads:
        each.start()
    uids: dict[int, int] = {}

    def look() -> bool:
        for pid in host.descendants(os.getpid()):
            text = host.read(f"/proc/{pid}/status")
            if text.startswith(f"Name:\t{marker[:15]}\n"):
                uids[int(pid)] = int(re.search(r"Uid:\t(\d+)", text)[1])
        return len(uids) == 6

    assert host.eventually(look, seconds=5)
    for each in threads:
        each.join()
    assert len(set(uids.values())) == 6 and 0 not in uids.values() and os.getuid() not in uids.values()


# -- the worker ----------------------------------------------------------------------------------------------------

_OTHERS = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    if libc.syscall(*args) < 0:
        raise OSError(ctypes.get_errno(), '')
room = ctypes.create_string_buffer(64)
class Piece(ctypes.Structure):
    _fields_ = [('at', ctypes.c_void_p), ('size', ctypes.c_size_t)]
here, there = Piece(ctypes.addressof(room), 8), Piece(ctypes.addressof(room), 8)
def reading(pid): call(310, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
def writing(pid): call(311, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
ways = {
    'read memory': lambda pid: open(f'/proc/{pid}/mem', 'rb').close(),
    'write memory': lambda pid: open(f'/proc/{pid}/mem', 'r+b').close(),
    'maps': lambda pid: open(f'/proc/{pid}/maps').read(),
    'environ': lambda pid: open(f'/proc/{pid}/environ').read(),
    'root': lambda pid: os.listdir(f'/proc/{pid}/root/'),
    'namespaces': lambda pid: os.readlink(f'/proc/{pid}/ns/mnt'),
    'descriptor': lambda pid: os.readlink(f'/proc/{pid}/fd/0'),
    'process_vm_readv': reading,
    'process_vm_writev': writing,
    'pidfd_getfd': lambda pid: call(438, os.pidfd_open(pid), 0, 0),
    'limits': lambda pid: __import__('resource').prlimit(pid, 11, (99, 99)),
    'priority': lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
    'affinity': lambda pid: os.sched_setaffinity(pid, {0}),
    'policy': lambda pid: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
}
child = os.fork()
if child == 0:
    signal.pause()
for name, way in ways.items():
    for pid in (%s):
        try:
            way(pid); print(name, 'done')
        except OSError as error:
            print(name, 'refused', error.errno)
for number in set(signal.valid_signals()) - {signal.SIGCONT}:
    try: os.kill(1, number)
    except OSError: pass
print('alive', flush=True)
"""
_ACCEPTED = {"security": {"syscalls": "permissive"}}


def test_worker_is_out_of_reach_of_guest() -> None:
    """Under the filter that allows a debugger, a guest can act on its child but not on its worker."""
    box = stockade.Runner(Policy.parse(_ACCEPTED), backend="native", warm=True)
    done = {line.split(" done")[0] for line in box.run(_OTHERS % "child,").stdout.splitlines() if " done" in line}
    assert done >= {"read memory", "environ", "root", "pidfd_getfd", "priority", "affinity"}
    for _ in range(3):
        result = box.run(_OTHERS % "1,")
        assert result.ok and result.stdout.endswith("alive\n"), result.summary() + result.stderr
        assert " done" not in result.stdout, result.stdout
        assert result.stdout.count("refused") == 14
