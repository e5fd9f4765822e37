"""What a copy of the keeper has to do to be a guest, worked out beforehand as a list of calls of the C library.

It does the same as the steps in ``linux/steps`` and for the reasons given there; but the guests of a keeper share the
user namespace that is made here for them (ADR 27). It is written out because each page
that a copy writes to must be copied by the kernel first, and to run Python code writes to the page of every object that
it touches: the steps themselves touched about twice as many pages as these calls do.
"""

from __future__ import annotations

import ctypes
import errno
import os

from stockade.linux import landlock, libc, mounts, processes, users
from stockade.linux.seccomp import install as seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Call = tuple[Callable[..., int], tuple[Any, ...], str, tuple[int, ...]]
    """A function, its arguments, what it is for, and errors that do not matter."""

_C = ctypes.CDLL(None, use_errno=True)
_ulong = ctypes.c_ulong
_prctl = _C["prctl"]  # a function object of our own that knows no types: small numbers are passed as they are
_HARMLESS = (errno.ENOSYS, errno.EPERM)
SCRATCH, JOB, LISTENER = "scratch", "job", "listener"


class Furnishing:
    """The calls for the guests of one keeper, and the descriptors that they leave."""

    def __init__(self, steps: Iterable[Sequence[Any]], *, uid: int, proc: int) -> None:
        """``uid`` is who the guests are to become, 0 for who they are; ``proc`` a descriptor of a writable /proc."""
        self._uid = uid
        self._proc = proc
        self._calls: list[Call] = []
        self._own: list[str] = []
        self.descriptors: dict[str, int] = {}
        for name, *arguments in steps:
            getattr(self, f"_plan_{name}")(*arguments)

    def carry_out(self) -> None:
        """Do it; an ``OSError`` says what failed."""
        for function, arguments, purpose, harmless in self._calls:
            if function(*arguments) < 0:
                code = ctypes.get_errno()
                if code not in harmless:
                    raise OSError(code, f"{purpose}: {os.strerror(code)}")

    def _add(self, purpose: str, function: Callable[..., int], *arguments: Any, harmless: tuple[int, ...] = ()) -> None:
        self._calls.append((function, arguments, purpose, harmless))

    def _prctl(self, purpose: str, option: int, *arguments: int) -> None:
        self._add(purpose, _prctl, option, *(*arguments, 0, 0, 0, 0)[:4])

    def _write(self, name: str, content: bytes) -> None:
        self._add(f"write /proc/{name}", self._put, name, content)

    def _put(self, name: str, content: bytes) -> int:
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._proc)
        os.write(fd, content)
        os.close(fd)
        return 0

    def _keep(self, name: str, function: Callable[..., int], *arguments: Any) -> None:
        def call() -> int:
            self.descriptors[name] = result = function(*arguments)
            return result

        self._add(name, call)

    # -- the steps -------------------------------------------------------------------------------------------------

    def _plan_view(self) -> None:
        self._prctl("be dumpable", processes.PR_SET_DUMPABLE, 1)
        self._add("new mounts", _C.unshare, processes.NEW_NS | processes.NEW_IPC)
        self._write("self/oom_score_adj", b"1000")

    def _plan_scratch(self, size: int, inodes: int, faces: Sequence[tuple[str, int]]) -> None:
        base = os.fsencode(faces[0][0])
        self._tmpfs(base, size, inodes)
        self._keep(SCRATCH, _C.open, base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for number, (target, mode) in reversed(list(enumerate(faces))):
            folder = b"%s/%d" % (base, number)
            self._add("make a folder", _C.mkdir, folder, 0o700)
            self._give(folder, mode)
            self._mount(folder, os.fsencode(target), mounts.MS_BIND)
            self._own.append(target)

    def _plan_job_room(self, path: str, size: int, inodes: int) -> None:
        place = os.fsencode(path)
        self._tmpfs(place, size, inodes)
        self._give(place, 0o755)
        self._keep(JOB, _C.open, place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # stays writable, below what is seen
        self._mount(place, place, mounts.MS_BIND)
        restricted = mounts.MS_REMOUNT | mounts.MS_BIND | mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV
        self._mount(None, place, restricted)
        self._own.append(path)

    def _plan_chdir(self, path: str) -> None:
        self._add(f"enter {path}", _C.chdir, os.fsencode(path))

    def _plan_identity(self, uid: int, gid: int) -> None:
        self._add("new session", _C.setsid)
        self._add("umask", _C.umask, 0o022)
        keyctl = ctypes.c_long(libc.NUMBERS["keyctl"])
        join = processes.KEYCTL_JOIN_SESSION_KEYRING
        self._add("new keyring", _C.syscall, keyctl, join, None, harmless=_HARMLESS)
        if self._uid:
            self._add("no groups", _C.setgroups, 0, None)
        namespace = users.nobodys(self._proc, (uid, gid), self._uid)
        self._add("the guests' user namespace", _C.setns, namespace, processes.NEW_USER)
        if self._uid:
            self._add("change gid", _C.setresgid, gid, gid, gid)
            self._add("change uid", _C.setresuid, uid, uid, uid)
        self._prctl("no new privileges", processes.PR_SET_NO_NEW_PRIVS, 1)
        for capability in range(processes.CAPABILITIES):
            self._prctl("empty the bounding set", processes.PR_CAPBSET_DROP, capability)
        self._prctl("clear ambient capabilities", processes.PR_CAP_AMBIENT, processes.PR_CAP_AMBIENT_CLEAR_ALL)
        capset = ctypes.c_long(libc.NUMBERS["capset"])
        self._add("no capability", _C.syscall, capset, processes.CAPABILITY_HEADER, processes.NO_CAPABILITIES)
        self._prctl("be dumpable", processes.PR_SET_DUMPABLE, 1)  # as what was executed

    def _plan_landlock(self, ruleset: dict[str, Any]) -> None:
        prepared = landlock.Prepared(landlock.Ruleset.from_json(ruleset), self._own)

        def enforce() -> int:
            prepared.enforce()
            return 0

        self._add("Landlock", enforce)

    def _plan_filter(self, program: bytes) -> None:
        self._add("system-call filter", _C.syscall, *seccomp.loading(program))

    def _plan_listening_filter(self, program: bytes) -> None:
        self._keep(LISTENER, _C.syscall, *seccomp.loading(program, listening=True))

    # -- their parts -----------------------------------------------------------------------------------------------

    def _tmpfs(self, target: bytes, size: int, inodes: int) -> None:
        options = b"size=%d,nr_inodes=%d,mode=755" % (size, inodes)
        self._mount(b"tmpfs", target, mounts.MS_NOSUID | mounts.MS_NODEV, b"tmpfs", options)

    def _mount(
        self, source: bytes | None, target: bytes, flags: int, kind: bytes | None = None, options: bytes | None = None
    ) -> None:
        self._add(f"mount {os.fsdecode(target)}", _C.mount, source, target, kind, _ulong(flags), options)

    def _give(self, path: bytes, mode: int) -> None:
        self._add("chmod", _C.chmod, path, mode)
        if self._uid:
            self._add("chown", _C.chown, path, self._uid, self._uid)
