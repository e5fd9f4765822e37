"""The system calls by which a fork of a worker becomes a guest, prepared as a list of calls of the C library.

The calls do the same as the steps in ``linux/steps``, for the reasons given there. One thing differs: the guests of a
worker share a user namespace that is made here for them (ADR 27). The list saves time in the guest. The kernel must
copy each page that a fork writes to, and Python code writes to the page of every object that it touches. The steps
themselves touched about twice as many pages as these calls.
"""

from __future__ import annotations

import ctypes
import errno
import os

from stockade.linux import landlock, libc, processes, users
from stockade.linux.seccomp import install as seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from stockade.warden.warm.guest_mounts import GuestMounts

    Call = tuple[Callable[..., int], tuple[Any, ...], str, tuple[int, ...]]
    """A function, its arguments, its purpose, and the error numbers to ignore."""

_C = ctypes.CDLL(None, use_errno=True)
_prctl = _C["prctl"]  # a function object of our own without argument types, so small numbers pass without conversion
_HARMLESS = (errno.ENOSYS, errno.EPERM)


class GuestSetup:
    """The prepared calls for the guests of one worker, and the listener that they may produce."""

    def __init__(self, steps: Iterable[Sequence[Any]], mounts: GuestMounts, *, uid: int, proc: int) -> None:
        """``mounts`` are the guests' mounts. ``uid`` is the guests' uid; 0 means the worker's.

        ``proc`` is a descriptor of a writable /proc.
        """
        self._mounts = mounts
        self._uid = uid
        self._proc = proc
        self._calls: list[Call] = []
        self.listener = -1
        """The descriptor on which a filter asks about refused calls; -1 without such a filter."""
        for name, *arguments in steps:
            getattr(self, f"_plan_{name}")(*arguments)

    def apply(self) -> None:
        """Make all calls. An ``OSError`` names the call that failed."""
        for function, arguments, purpose, harmless in self._calls:
            if function(*arguments) < 0:
                code = ctypes.get_errno()
                if code not in harmless:
                    raise OSError(code, f"{purpose}: {os.strerror(code)}")

    def _add(self, purpose: str, function: Callable[..., int], *arguments: Any, harmless: tuple[int, ...] = ()) -> None:
        self._calls.append((function, arguments, purpose, harmless))

    def _prctl(self, purpose: str, option: int, *arguments: int) -> None:
        self._add(purpose, _prctl, option, *(*arguments, 0, 0, 0, 0)[:4])

    # -- the steps -------------------------------------------------------------------------------------------------

    def _plan_own_ipc(self) -> None:
        self._add("own queues and segments", _C.unshare, processes.NEW_IPC)

    def _plan_identity(self, uid: int, gid: int) -> None:
        self._add("new session", _C.setsid)
        self._add("umask", _C.umask, 0o022)
        keyctl = ctypes.c_long(libc.NUMBERS["keyctl"])
        join = processes.KEYCTL_JOIN_SESSION_KEYRING
        self._add("new keyring", _C.syscall, keyctl, join, None, harmless=_HARMLESS)
        if self._uid:
            self._add("no groups", _C.setgroups, 0, None)
        namespace = users.empty_user_namespace(self._proc, (uid, gid), self._uid)
        self._add("the guests' user namespace", _C.setns, namespace, processes.NEW_USER)
        if self._uid:
            self._add("change gid", _C.setresgid, gid, gid, gid)
            self._add("change uid", _C.setresuid, uid, uid, uid)
        self._prctl("no new privileges", processes.PR_SET_NO_NEW_PRIVS, 1)
        for capability in range(processes.CAPABILITIES):
            self._add("empty the bounding set", _prctl, processes.PR_CAPBSET_DROP, capability)  # has no more arguments
        self._prctl("clear ambient capabilities", processes.PR_CAP_AMBIENT, processes.PR_CAP_AMBIENT_CLEAR_ALL)
        capset = ctypes.c_long(libc.NUMBERS["capset"])
        self._add("no capability", _C.syscall, capset, processes.CAPABILITY_HEADER, processes.NO_CAPABILITIES)
        self._prctl("be dumpable", processes.PR_SET_DUMPABLE, 1)  # as what was executed

    def _plan_landlock(self) -> None:
        self._add("Landlock", _C.syscall, *landlock.enforcing(self._mounts.ruleset))

    def _plan_filter(self, program: bytes) -> None:
        self._add("system-call filter", _C.syscall, *seccomp.loading(program))

    def _plan_listening_filter(self, program: bytes) -> None:
        arguments = seccomp.loading(program, listening=True)

        def load() -> int:
            self.listener = int(_C.syscall(*arguments))
            return self.listener

        self._add("listening system-call filter", load)
