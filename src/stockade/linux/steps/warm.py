"""The steps of copies of a warm interpreter: its root is theirs, and each lays over it what is to be its own."""

from __future__ import annotations

import os

from stockade.linux import libc, mounts, processes
from stockade.linux.steps.base import Steps, write_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class WarmSteps(Steps):
    """What a keeper does once, and what each of its guests does."""

    def supervised_by(self, supervise: Callable[[int], None], hand_out: Callable[[Sequence[int]], None]) -> None:
        """Name who answers for this copy of the process; see ``__init__``."""
        self._supervise, self._hand_out = supervise, hand_out

    @property
    def scratch(self) -> int:
        """A descriptor of the space that the guest may fill."""
        return self._scratch

    def forget_pids(self) -> None:
        """Have the next process of this PID namespace numbered as the first one beside its init was (proc(5),
        ns_last_pid): a number would tell how many there have been."""
        try:
            write_below(self._proc, "sys/kernel/ns_last_pid", b"1")
        except OSError:
            pass  # a kernel without it: the numbers go on

    def do_own_proc(self) -> None:
        """Mount a fresh /proc that no guest will see, with nothing laid over it: in a user namespace below, another
        one can be mounted only if this one is there, whole (mount_namespaces(7))."""
        os.mkdir("/proc")
        mounts.proc("/proc")
        self._proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)

    def do_own_users(self, ids: Sequence[int]) -> None:
        """Give up the host's root for that of a user namespace, in which ``ids`` of the host are 0, 1, ..., and have
        mounts that belong to it."""
        processes.enter_users(self._proc, ids)
        processes.set_dumpable(True)
        libc.unshare(processes.NEW_NS)

    def do_proc_again(self) -> None:
        """Lay the /proc of a PID namespace just entered over the one that is there, as ``proc`` does."""
        mounts.proc("/proc")
        self._proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        place = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        mounts.bind(self._proc, place, "/proc", mounts.ATTR_RDONLY)
        os.close(place)

    def do_view(self) -> None:
        """Have mounts and System V IPC of its own from now on: a copy of the root, which is read-only, to lay over it
        what is to be the guest's own. It is made the first to go when memory runs out."""
        processes.set_dumpable(True)
        libc.unshare(processes.NEW_NS | processes.NEW_IPC)
        os.chdir("/")
        self._root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        write_below(self._proc, "self/oom_score_adj", b"1000")

    def do_job_room(self, path: str, size: int, inodes: int) -> None:
        """Lay a fresh folder of the job's own files over ``path``, which is there; else as ``job_folder``."""
        mounts.tmpfs(path, size, inodes, 0o755)
        self._settle(path, 0o755, owned=True)
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self._job = mounts.copy(place)
        mounts.restrict(place, path, mounts.ATTR_RDONLY)
        os.close(place)
