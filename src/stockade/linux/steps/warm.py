"""Steps of workers: each shares the root of its zygote, and mounts over it what must be its own."""

from __future__ import annotations

import os

from stockade.linux import files, libc, mounts, processes, users
from stockade.linux.steps.base import Steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FAR = 30_000
"""A pid that few runs reach, below the smallest possible pid_max (proc(5))."""

_MOVING = ("arch_status", "stat", "statm", "status", "sched", "schedstat")
"""Files of proc(5) that any process may read about another, and that keep changing; ``task`` holds them as well."""


class WarmSteps(Steps):
    """Steps that a zygote and each of its workers take once; the steps of their guests are in ``warden/warm``."""

    _last_pid = -1

    def enter_guest(
        self, scratch: int, job: int, source_file: tuple[str, int], hand_out: Callable[[Sequence[int]], None]
    ) -> None:
        """Continue as a guest, with the descriptors of its scratch space and of its job's folder.

        ``source_file`` is the name of an existing file and its descriptor; an empty name means that no such file
        exists.
        """
        self._scratch, self._job, self._source_file, self._hand_out = scratch, job, source_file, hand_out
        self._is_guest = True

    @property
    def proc(self) -> int:
        """Return the descriptor of a /proc that can be written."""
        return self._proc

    def forget_pids(self) -> None:
        """Give the next process of this PID namespace the first number after init's (proc(5), ns_last_pid).

        Otherwise the number would reveal how many processes there have been.
        """
        self._number_next(2)

    def _number_next(self, pid: int) -> None:
        try:
            if self._last_pid < 0:
                self._last_pid = os.open("sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._proc)
            os.pwrite(self._last_pid, b"%d" % (pid - 1), 0)
        except OSError:
            pass  # this kernel lacks the file, so the numbers continue

    def do_own_proc(self) -> None:
        """Mount a fresh /proc that no guest will see, with nothing mounted over it.

        A user namespace below can mount another /proc only if this one is completely visible (mount_namespaces(7)).
        """
        os.mkdir("/proc")
        mounts.proc("/proc")
        self._proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        self._number_next(_FAR)  # the zygote's one fork gets a pid that no worker's guest will have

    def do_own_users(self, ids: Sequence[int]) -> None:
        """Become root of a user namespace instead of the host's, and own the mounts of a new mount namespace.

        ``ids`` of the host are 0, 1, ... inside.
        """
        users.enter_users(self._proc, ids)
        processes.set_dumpable(True)
        libc.unshare(processes.NEW_NS)

    def do_proc_again(self) -> None:
        """Mount the /proc of the PID namespace just entered over the existing one, as ``proc`` does."""
        mounts.proc("/proc")
        self._proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        _mount_over("/proc", self._proc)

    def do_still(self, space: str) -> None:
        """Freeze what /proc shows of this process, a worker.

        Its times are those of all its guests, and its count of sleeps reveals their number. ``space`` is a folder that
        no guest will see.
        """
        for name in _MOVING:
            path = f"/proc/1/{name}"
            content = files.read(path)
            if content:  # not every kernel has all of them
                copy = f"{space}/{os.stat('/proc/1/ns/pid').st_ino}"  # a name that no other worker uses
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
