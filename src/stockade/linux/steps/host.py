"""Steps of an instance without namespaces, and of one whose sandbox an engine builds."""

from __future__ import annotations

import os

from stockade.linux import files, libc, mounts, processes, users
from stockade.linux import limits as rlimits
from stockade.linux.steps.base import STAGING, Steps, write_all
from stockade.linux.waiting_engine import WaitingEngine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES_BYTES, _NOTES_BYTES, _NOTES = 1 << 16, 1 << 24, 4096


class HostSteps(Steps):
    """Steps for the guest's folder on the host, its identity there, and its engine."""

    engine: WaitingEngine | None = None
    """The engine in whose sandbox the guest runs, if this process does not become that engine."""

    def do_session(self) -> None:
        """Leave the caller's session and keyring, and become the first process that the kernel kills when memory runs
        out.
        """
        os.setsid()
        os.umask(0o022)
        processes.new_session_keyring()
        files.write("/proc/self/oom_score_adj", "1000")

    def do_place(self, path: str) -> None:
        """Make a folder of the host for this run. The reaper, which removes it, learns its name first."""
        os.write(self._place_note, os.fsencode(path))
        os.mkdir(path, 0o700)
        if self._privileged:  # the guest may enter by its group; no other user may
            os.chown(path, -1, self._gid)
            os.chmod(path, 0o710)

    def do_become(self) -> None:
        """Take on the run's uid, and permanently give up every capability and every way to gain one."""
        if self._privileged:
            processes.empty_bounding_set()
            processes.become(self._uid, self._gid)
        processes.no_new_privileges()
        processes.drop_capabilities()
        self._is_guest = True

    def do_account(self, notes: str) -> None:
        """Enter a mount namespace in which the run's uid has an account, for an engine that insists on one.

        The account's home is the root folder, which always exists (passwd(5)). The engine's own folder ``notes`` is
        empty here. Files that a killed engine leaves there vanish with the namespace.
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
        """Mount a separate file system over the run's folder, so that one size bounds all files there."""
        mounts.tmpfs(path, size, inodes, 0o710)
        os.chown(path, -1, self._gid)

    def do_become_for_engine(self) -> None:
        """Take on the run's uid, but leave the way to new privileges open. A set-user-id engine needs it, and closes
        it.
        """
        if self._privileged:
            processes.become(self._uid, self._gid)
        self._is_guest = True

    def do_engine_mounts(self, folder: str, size: int, inodes: int) -> None:
        """Become root of a user and a mount namespace, where an empty tmpfs covers ``folder``.

        An engine that has no helper with privileges can mount there. Its mounts and files end with the namespace. The
        engine can create one user namespace for its guest, and the guest can create none.
        """
        processes.set_dumpable(True)  # otherwise /proc/self belongs to root, and no id can be mapped
        proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        libc.unshare(processes.NEW_USER | processes.NEW_NS)
        users.map_identity(proc, 0, self._uid, 0, self._gid)
        users.bound_namespace(proc, below=1)
        os.close(proc)
        self._uid = self._gid = 0
        mounts.make_private()
        mounts.tmpfs(folder, size, inodes, 0o755)

    def do_engine(self, pipe: str, argv: tuple[str, ...], environment: Mapping[str, str], ahead: bool) -> None:
        """Take the last limits for an engine whose sandbox waits for a job; see ``WaitingEngine``.

        ``ahead`` starts it now, before there is a job. Otherwise it starts after the last step.
        """
        self.engine = WaitingEngine(pipe, argv, environment, self._limits)
        self._limits = []
        if ahead:
            self.engine.start()

    def do_engine_job(self, job: bytes) -> None:
        """Keep what the first process in the engine's sandbox reads, once the run begins."""
        assert self.engine is not None
        self.engine.job = job

    def do_data(self, number: int, content: bytes) -> None:
        """Provide ``content`` for reading at the descriptor ``number``."""
        fd = os.memfd_create("stockade", os.MFD_CLOEXEC)
        write_all(os.dup(fd), content)
        os.lseek(fd, 0, os.SEEK_SET)
        _hand_on(fd, number)

    def do_status(self, number: int, by_path: bool = False) -> None:
        """Provide the descriptor ``number``, on which the engine reports its status.

        ``by_path`` gives the pipe to the run's uid, so that an engine that writes to files can open it in /proc.
        """
        if by_path and self._privileged:
            os.fchown(self._status, self._uid, self._gid)
        _hand_on(os.dup(self._status), number)

    def do_task_limit(self, count: int) -> None:
        """Limit processes if nothing counts those of this run alone: ``count`` more than the user has now."""
        task_limit = processes.tasks_of(self._uid) - 1 + count  # the calling process becomes the guest's first
        self._limits += rlimits.prepare({"nproc": (task_limit, task_limit)})


def _hand_on(fd: int, number: int) -> None:
    os.dup2(fd, number, inheritable=True)
    os.close(fd)
