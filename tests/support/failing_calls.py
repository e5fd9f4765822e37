"""Make one system call of the warden or its helpers fail, by the kernel: nothing in stockade is replaced.

The caller loads a seccomp filter, which everything below it inherits. A supervisor process answers each call that the
filter reports: it lets the call continue, or makes it fail with an errno.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import Any, NoReturn

from stockade.linux.seccomp import install, notify
from stockade.linux.seccomp.bpf import IF_EQ, Graph
from stockade.linux.seccomp.syscalls import Arch, numbers
from stockade.linux.seccomp.table import ALLOW, NOTIFY
from tests.support import host

_ROLES = {1: "warden", 2: "spawner", 3: "init", 4: "first process", 5: "worker", 6: "warm guest"}
"""By generations below the caller."""
_CALLS = (
    "clone unshare setns mount umount2 pivot_root open_tree move_mount mount_setattr openat2 sethostname setgroups "
    "setresuid setresgid capset prctl seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self prlimit64 "
    "memfd_create pidfd_open fchown openat socket chdir fchdir mkdir mkdirat symlink symlinkat setsid socketpair pipe2 "
    "execve"
)
_NUMBERS = numbers(Arch(os.uname().machine))
_NAMES = {_NUMBERS[name]: name for name in _CALLS.split() if name in _NUMBERS}
_SEND, _CONTINUE = 0xC018_2101, 1
_REPLY = struct.Struct("<QqiI")


@dataclass(frozen=True)
class Call:
    """The ``nth`` call of ``name`` by each process of one role."""

    role: str
    name: str
    nth: int


class FailingCalls:
    """The caller's end of the supervisor. The process must have one thread, and stays filtered for good."""

    def __init__(self) -> None:
        """Fork the supervisor, and load the filter into this process."""
        self._control, theirs = socket.socketpair()
        caller = os.getpid()
        if os.fork() == 0:
            self._control.close()
            _Supervisor(theirs, caller).stay()
        theirs.close()
        graph = Graph()
        node = graph.returns(ALLOW)
        for number in _NAMES:
            node = graph.branch(IF_EQ, number, graph.returns(NOTIFY), node)
        listener = install.install_with_listener(graph.assemble(graph.load(0, node)))
        socket.send_fds(self._control, [b"x"], [listener])
        os.close(listener)

    def during(self, act: Callable[[], Any], call: Call | None = None, code: int = 0) -> tuple[Any, bool, list[Call]]:
        """Return the result of ``act``, whether ``call`` was made and failed with ``code``, and all calls made."""
        self._ask([[*astuple(call), code] if call else []])
        try:
            result = act()
        finally:
            hit, made = self._ask([])
        return result, hit, [Call(*each) for each in made]

    def _ask(self, what: list[Any]) -> Any:
        self._control.sendall(json.dumps(what).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            data += self._control.recv(1 << 16)
        return json.loads(data)


class _Supervisor:
    def __init__(self, control: socket.socket, caller: int) -> None:
        self._control, self._caller = control, caller
        self._armed: list[Any] | None = None
        self._hit = False
        self._made: set[tuple[str, str, int]] = set()
        self._counts: Counter[tuple[int, str]] = Counter()
        self._guests: set[int] = set()

    def stay(self) -> NoReturn:
        _, fds, _, _ = socket.recv_fds(self._control, 1, 1)
        poll = select.poll()
        for fd in (*fds, self._control.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == fds[0]:
                    self._answer(fd)
                else:
                    self._obey()

    def _obey(self) -> None:
        data = self._control.recv(1 << 16)
        if not data:
            os._exit(0)
        what = json.loads(data)
        answer = [self._hit, sorted(self._made)]
        self._armed, self._hit, self._made = (what[0] if what else None), False, set()
        self._counts.clear()
        self._guests.clear()
        self._control.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, listener: int) -> None:
        found = notify.receive(listener)
        if found is None:
            return
        code = 0 if self._armed is None else self._code(found.pid, _NAMES[found.nr], found.args)
        if code:
            self._hit = True
            notify.refuse(listener, found, code)
            return
        with suppress(FileNotFoundError):  # the caller of the call is gone
            fcntl.ioctl(listener, _SEND, _REPLY.pack(found.id, 0, 0, _CONTINUE))

    def _code(self, pid: int, name: str, args: tuple[int, ...]) -> int:
        role = self._role(pid)
        reads = (name == "prlimit64" and not args[2]) or (name == "openat" and role in ("warden", "spawner"))
        if not role or pid in self._guests or reads:
            return 0
        self._counts[pid, name] += 1
        if name == "execve" and self._counts[pid, name] > 1:  # the first execution is part of the set-up, and must fail
            self._guests.add(pid)
        key = role, name, self._counts[pid, name]
        self._made.add(key)
        return int(self._armed[3]) if self._armed and tuple(self._armed[:3]) == key else 0

    def _role(self, pid: int) -> str:
        depth = 0
        while pid not in (self._caller, 0, 1):
            fields = host.read(f"/proc/{pid}/stat").rpartition(") ")[2].split()
            pid, depth = int(fields[1]) if fields else 0, depth + 1
        return _ROLES.get(depth, "") if pid == self._caller else ""
