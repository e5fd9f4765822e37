"""The folder of one container: the files that the container sees, and named pipes for the streams of its guest.

The container gets parts of the folder as read-only mounts. A pipe can be written through such a mount, because its
bytes never reach a file system. Nobody else can enter: the folder itself is closed to all but its owner. As soon as the
first process of the container has opened the pipes, their names are removed, so a guest finds no way to open one again.
The job's files come later, when a run takes the container.
"""

from __future__ import annotations

import os

from stockade.core.launch import CHANNELS, COMMAND, PIPES
from stockade.linux import places
from stockade.warden.containers import ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from stockade.core.launch import ContainerOrder, Launch

_STDIN, _ORDERS = "stdin", "orders"
_INPUT = f"{CHANNELS}/input"
STDIN_FILE = "stdin_file"
"""The step of a launch that gives the guest a file as its standard input."""


class RunFolder:
    """The warden's ends of the pipes. ``stdout``, ``stderr`` and ``channel`` are read, ``orders`` is written to."""

    def __init__(self, order: ContainerOrder, owner: str) -> None:
        """Make the folder and open the pipes. Raises ``OSError``, and then leaves nothing.

        ``owner`` is the process that will remove the container: see ``ledger.identity``.
        """
        self.token = os.urandom(16).hex()
        self.path = path = ledger.folder_of(self.token)
        self.stdin = self.stdout = self.stderr = self.channel = self.orders = self.reports = -1
        self._kept: list[int] = []
        """The other ends. They keep a pipe from ending before the container has opened it."""
        os.mkdir(path, 0o700)
        try:
            ledger.write(self.token, order.socket, owner)
            for name in (CHANNELS, *order.folders):
                self._make_folders(f"{name}/")
            self._write_all(order.files)
            self._open()
        except OSError:
            self.close()
            places.remove(path)
            raise

    def _make_folders(self, name: str) -> None:
        """Make the folders on the way to ``name``."""
        folder = self.path
        for part in name.split("/")[:-1]:
            folder = f"{folder}/{part}"
            if not os.path.isdir(folder):
                os.mkdir(folder)
                os.chmod(folder, 0o755)  # whatever the umask

    def _write_all(self, files: Mapping[str, tuple[bytes, int]]) -> None:
        for name, (content, mode) in files.items():
            self._make_folders(name)
            self._write(name, content, mode)

    def _write(self, name: str, content: bytes, mode: int) -> None:
        fd = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        with open(fd, "wb", buffering=0) as file:
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
            os.fchmod(fd, mode)

    def _open(self) -> None:
        for name in PIPES:
            path = f"{self.path}/{CHANNELS}/{name}"
            os.mkfifo(path)
            os.chmod(path, 0o666)
            if name in (_STDIN, _ORDERS):  # a pipe can be opened for writing only while somebody reads it
                self._kept.append(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
                setattr(self, name, os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            else:
                setattr(self, name, os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
                self._kept.append(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))

    def are_open_inside(self) -> None:
        """Remove the names of the pipes, and close the ends that kept them: the container has opened its own."""
        for name in PIPES:
            os.unlink(f"{self.path}/{CHANNELS}/{name}")
        self._close_kept()

    def write_job(self, launch: Launch) -> None:
        """Write the files of the job that the container gets next."""
        assert launch.container is not None
        self._write_all(launch.container.job)
        for step in launch.steps:
            if step[0] == STDIN_FILE:
                self._write(_INPUT, step[1], 0o444)

    def is_taken(self) -> None:
        """Remove what only the first process reads: it has taken the job."""
        for name in (COMMAND, _INPUT):
            try:
                os.unlink(f"{self.path}/{name}")
            except FileNotFoundError:
                pass  # few jobs have an input

    def _close_kept(self) -> None:
        kept, self._kept = self._kept, []
        for fd in kept:
            os.close(fd)

    def close(self) -> None:
        """Close every descriptor, except that of the standard input if somebody has taken it."""
        self._close_kept()
        for name in PIPES:
            fd = getattr(self, name)
            setattr(self, name, -1)
            if fd >= 0:
                os.close(fd)
