"""The folder of one run in a container: the files that the container sees, and named pipes for its streams.

The container gets parts of the folder as read-only mounts. A pipe can be written through such a mount, because its
bytes never reach a file system. Nobody else can enter: the folder itself is closed to all but its owner. As soon as the
first process of the container has opened the pipes, their names are removed, so a guest finds no way to open one again.
"""

from __future__ import annotations

import os

from stockade.core.launch import CHANNELS, PIPES
from stockade.linux import places
from stockade.warden.containers import ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.launch import Launch

_STDIN, _ORDERS = "stdin", "orders"
STDIN_FILE = "stdin_file"
"""The step of a launch that gives the guest a file as its standard input."""


class RunFolder:
    """The warden's ends of the pipes. ``stdout``, ``stderr`` and ``channel`` are read, ``orders`` is written to."""

    def __init__(self, launch: Launch, owner: str) -> None:
        """Make the folder and open the pipes. Raises ``OSError``, and then leaves nothing.

        ``owner`` is the process that will remove the container: see ``ledger.identity``.
        """
        assert launch.container is not None
        self.token = os.urandom(16).hex()
        self.path = path = ledger.folder_of(self.token)
        self.stdin = self.stdout = self.stderr = self.channel = self.orders = self.reports = -1
        self._kept: list[int] = []
        """The other ends. They keep a pipe from ending before the container has opened it."""
        os.mkdir(path, 0o700)
        try:
            ledger.write(self.token, launch.container.socket, owner)
            self._write_files(launch)
            self._open(launch)
        except OSError:
            self.close()
            places.remove(path)
            raise

    def _write_files(self, launch: Launch) -> None:
        assert launch.container is not None
        os.mkdir(f"{self.path}/{CHANNELS}", 0o755)
        os.chmod(f"{self.path}/{CHANNELS}", 0o755)  # whatever the umask
        for name, (content, mode) in launch.container.files.items():
            self._make_folders(name)
            self._write(name, content, mode)
        for step in launch.steps:
            if step[0] == STDIN_FILE:
                self._write(f"{CHANNELS}/{_STDIN}", step[1], 0o444)

    def _make_folders(self, name: str) -> None:
        folder = self.path
        for part in name.split("/")[:-1]:
            folder = f"{folder}/{part}"
            if not os.path.isdir(folder):
                os.mkdir(folder)
                os.chmod(folder, 0o755)

    def _write(self, name: str, content: bytes, mode: int) -> None:
        fd = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        with open(fd, "wb", buffering=0) as file:
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
            os.fchmod(fd, mode)

    def _open(self, launch: Launch) -> None:
        for name in PIPES:
            path = f"{self.path}/{CHANNELS}/{name}"
            if name == _STDIN and any(step[0] == STDIN_FILE for step in launch.steps):
                read, self.stdin = os.pipe2(os.O_CLOEXEC)  # nobody reads it: the guest has the file
                self._kept.append(read)
                continue
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
