"""The steps of copies of a warm interpreter: its root is theirs, and each lays over it what is to be its own."""

from __future__ import annotations

import os

from stockade.linux import files, libc, mounts, processes, users
from stockade.linux.steps.base import Steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FAR = 30_000
"""A process number that hardly any run gets to, below the least pid_max of all (proc(5))."""

_MOVING = ("arch_status", "stat", "statm", "status", "sched", "schedstat")
"""Files of proc(5) that anybody may read of a process, and that go on telling of it; ``task`` has them as well."""


class WarmSteps(Steps):
    """What a warm interpreter and each of its keepers do once; what their guests do is in ``warden/warm``."""

    _last_pid = -1

    def enter_guest(
        self, scratch: int, job: int, source_file: tuple[str, int], hand_out: Callable[[Sequence[int]], None]
    ) -> None:
        """Continue as a guest, with the descriptors of its scratch space and of its job's folder.

        ``source_file`` is the name of an existing file and a descriptor of it; the name is empty if there is none.
        """
        self._scratch, self._job, self._source_file, self._hand_out = scratch, job, source_file, hand_out
        self._is_guest = True

    @property
    def proc(self) -> int:
        """A descriptor of a /proc that can be written."""
        return self._proc

    def forget_pids(self) -> None:
        """Have the next process of this PID namespace numbered as the first one beside its init was (proc(5),
        ns_last_pid): a number would tell how many there have been."""
        self._number_next(2)

    def _number_next(self, pid: int) -> None:
        try:
            if self._last_pid < 0:
                self._last_pid = os.open("sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._proc)
            os.pwrite(self._last_pid, b"%d" % (pid - 1), 0)
        except OSError:
            pass  # a kernel without it: the numbers go on

    def do_own_proc(self) -> None:
        """Mount a fresh /proc that no guest will see, with nothing laid over it: in a user namespace below, another
        one can be mounted only if this one is there, whole (mount_namespaces(7))."""
        os.mkdir("/proc")
        mounts.proc("/proc")
        self._proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        self._number_next(_FAR)  # what waits to be copied forks once, and no copy may have its number

    def do_own_users(self, ids: Sequence[int]) -> None:
        """Give up the host's root for that of a user namespace, in which ``ids`` of the host are 0, 1, ..., and have
        mounts that belong to it."""
        users.enter_users(self._proc, ids)
        processes.set_dumpable(True)
        libc.unshare(processes.NEW_NS)

    def do_proc_again(self) -> None:
        """Lay the /proc of a PID namespace just entered over the one that is there, as ``proc`` does."""
        mounts.proc("/proc")
        self._proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        _mount_over("/proc", self._proc)

    def do_still(self, space: str) -> None:
        """Have what /proc tells of this process stand still: a keeper's times are those of all its guests, and how
        often it has slept is how many there were. ``space`` is a folder that no guest will see."""
        for name in _MOVING:
            path = f"/proc/1/{name}"
            content = files.read(path)
            if content:  # not every kernel has all of them
                copy = f"{space}/{os.stat('/proc/1/ns/pid').st_ino}"  # a name that no other keeper has
                fd = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
                os.write(fd, content.encode())
                _mount_over(path, fd)
                os.unlink(copy)
                os.close(fd)
        none = f"{space}/none"
        os.makedirs(none, exist_ok=True)
        folder = os.open(none, os.O_PATH | os.O_CLOEXEC)
        _mount_over("/proc/1/task", folder)
        os.close(folder)


def _mount_over(path: str, source: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    mounts.bind(source, place, path, mounts.ATTR_RDONLY)
    os.close(place)
