"""The steps of a cell without namespaces, and of one that an engine makes the sandbox of."""

from __future__ import annotations

import os

from stockade.linux import files, libc, mounts, processes
from stockade.linux import limits as rlimits
from stockade.linux.steps.base import STAGING, Steps, write_all

_NAMES_BYTES, _NOTES_BYTES, _NOTES = 1 << 16, 1 << 24, 4096


class HostSteps(Steps):
    """The guest's place on the host, its identity there, and what an engine is handed."""

    def do_session(self) -> None:
        """Leave the caller's session and keyring, and be the first to go when memory runs out."""
        os.setsid()
        os.umask(0o022)
        processes.new_session_keyring()
        files.write("/proc/self/oom_score_adj", "1000")

    def do_place(self, path: str) -> None:
        """Make a folder of the host for this run. The keeper, who removes it, is told first."""
        os.write(self._place_note, os.fsencode(path))
        os.mkdir(path, 0o700)
        if self._privileged:  # the guest may go in by its group, and nobody else
            os.chown(path, -1, self._gid)
            os.chmod(path, 0o710)

    def do_become(self) -> None:
        """Take on the run's uid and give up every capability and the way to new ones, for good."""
        if self._privileged:
            processes.empty_bounding_set()
            processes.become(self._uid, self._gid)
        processes.no_new_privileges()
        processes.drop_capabilities()
        self._is_guest = True

    def do_account(self, notes: str) -> None:
        """Enter a mount namespace in which the run's uid has an account, for an engine that serves nobody else.

        Its home is the root folder, which is always there (passwd(5)). The engine finds its own folder ``notes`` empty:
        what it leaves there when it is killed goes with the namespace.
        """
        libc.unshare(processes.NEW_NS)
        mounts.make_private()
        staging = next(place for place in STAGING if os.path.isdir(place))
        mounts.tmpfs(staging, _NAMES_BYTES, 8, 0o755)
        for name, text in (
            ("passwd", f"root:x:0:0:root:/:/bin/sh\nguest:x:{self._uid}:{self._gid}:guest:/:/bin/sh\n"),
            ("group", f"root:x:0:\nguest:x:{self._gid}:\n"),
        ):
            self.do_file(f"{staging}/{name}", text.encode(), 0o644, owned=False)
            made, place = (os.open(f"{folder}/{name}", os.O_PATH | os.O_CLOEXEC) for folder in (staging, "/etc"))
            mounts.bind(made, place, f"/etc/{name}", mounts.ATTR_RDONLY)
            os.close(made)
            os.close(place)
        mounts.detach(staging)
        os.makedirs(notes, 0o755, exist_ok=True)
        mounts.tmpfs(notes, _NOTES_BYTES, _NOTES, 0o755)

    def do_sized_folder(self, path: str, size: int, inodes: int) -> None:
        """Lay a file system of its own over the run's folder: one size bounds all that is written there."""
        mounts.tmpfs(path, size, inodes, 0o710)
        os.chown(path, -1, self._gid)

    def do_become_for_engine(self) -> None:
        """Take on the run's uid and leave open the way to new privileges: for a set-user-id engine, which closes it."""
        if self._privileged:
            processes.become(self._uid, self._gid)
        self._is_guest = True

    def do_data(self, number: int, content: bytes) -> None:
        """Leave ``content`` to be read at the descriptor ``number``."""
        fd = os.memfd_create("stockade", os.MFD_CLOEXEC)
        write_all(os.dup(fd), content)
        os.lseek(fd, 0, os.SEEK_SET)
        _hand_on(fd, number)

    def do_status(self, number: int) -> None:
        """Leave the engine's way to say how its sandbox fares at the descriptor ``number``."""
        _hand_on(os.dup(self._status), number)

    def do_task_limit(self, count: int) -> None:
        """Bound processes where nothing counts those of this run alone: that many beyond what the user has now."""
        task_limit = processes.tasks_of(self._uid) - 1 + count  # this one will be the guest's first
        self._limits += rlimits.prepare({"nproc": (task_limit, task_limit)})


def _hand_on(fd: int, number: int) -> None:
    os.dup2(fd, number, inheritable=True)
    os.close(fd)
