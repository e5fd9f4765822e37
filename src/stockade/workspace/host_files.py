"""Open every path on the host that stockade writes to.

A guest may write to folders of the host. There it can place a link, or a file of its own, where stockade writes next.
So a path is refused if a guest can write anywhere on the way to it. Otherwise its folder is opened once, without
following a link (openat2(2)), and the file is written by its name in that folder.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from stockade.core.errors import JobError
from stockade.linux import beneath

_NEW = os.O_CREAT | os.O_EXCL
_ALWAYS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_REPLACED = (stat.S_IFREG, stat.S_IFLNK)
_MOST_LINKS = 40
_OWN = ("/dev/", "/proc/")
"""The caller's own streams and devices (``/dev/stdout``, ``/dev/fd/63``). No guest ever sees these folders."""
_SHARED = "/dev/shm/"


class HostFile:
    """A path to write to. Its folder is open, and no guest of the run can write anywhere on the way to it."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        what: str,
        writable: Sequence[str] = (),
        *,
        follow: bool = True,
        makes: bool = False,
    ) -> None:
        """``what`` names the path in an error, such as ``--report``; a guest may write to the host paths ``writable``.

        Links are followed unless ``follow`` is false. ``makes`` creates missing folders. Raises ``JobError`` with the
        path, the folder that a guest may write to, and the remedy.
        """
        self.shown, self._what = os.fspath(path), what
        self._folder = -1
        given = str(Path(self.shown).absolute())
        is_own = _is_own(given)
        self.path = given if is_own or not follow else _resolved(given, f"{what} {self.shown}", writable)
        """The real path."""
        outer, self.name = os.path.split(self.path)
        if not self.name or self.shown.endswith("/"):
            raise JobError(f"{what} {self.shown}: is a folder")
        if not is_own:
            self._folder = _opened(outer, f"{what} {self.shown}", writable, makes=makes)

    def __enter__(self) -> HostFile:
        """Return this object."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the folder."""
        self.close()

    def close(self) -> None:
        """Close the folder."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @property
    def is_stream(self) -> bool:
        """Return whether the path is one of the caller's own streams or devices, without an open folder."""
        return self._folder < 0

    def beside(self, ending: str) -> HostFile:
        """Return the file in the same folder whose name is this one's followed by ``ending``."""
        other = HostFile.__new__(HostFile)
        other.shown, other.path, other.name = f"{self.shown}{ending}", f"{self.path}{ending}", f"{self.name}{ending}"
        other._what, other._folder = self._what, os.dup(self._folder)
        return other

    def require_writable(self) -> None:
        """Raise ``JobError`` if the path is a folder, or if its folder is not writable."""
        status = self._status()
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise self._problem("is a folder")
        if self._folder >= 0 and not os.access(f"/proc/self/fd/{self._folder}", os.W_OK):
            raise self._problem(f"nothing can be written to {Path(self.path).parent}")

    def open(self, flags: int, mode: int = 0o666) -> int:
        """Open the file itself, whatever it contains; raise ``JobError`` for a link or a file with a second name."""
        if self._folder < 0:
            return os.open(self.path, flags | os.O_CLOEXEC)
        cut = flags & os.O_TRUNC
        try:
            fd = os.open(self.name, flags & ~cut | _ALWAYS, mode, dir_fd=self._folder)
        except OSError as error:
            raise self._problem(_reason(error)) from None
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            os.close(fd)
            raise self._problem("has a second name (a hard link), whose content would be overwritten; remove one")
        if cut and stat.S_ISREG(status.st_mode):
            os.ftruncate(fd, 0)
        os.set_blocking(fd, True)
        return fd

    def read(self, most: int) -> bytes:
        """Return the content of the regular file, at most ``most`` bytes; raise ``OSError`` or ``ValueError``."""
        fd = os.open(self.name, os.O_RDONLY | _ALWAYS, dir_fd=self._folder)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ValueError("is not a regular file")
            content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(f"has more than {most} bytes")
        return content

    @contextmanager
    def replaced(self, *, mode: int | None = None, lasting: bool = False) -> Iterator[IO[bytes]]:
        """Yield a new file that replaces the old one as a whole at the end; an error leaves the old one.

        ``mode`` defaults to the old file's mode. ``lasting`` waits until the new file is on the disk. A path that is
        not a regular file, such as a terminal or pipe, is written directly. Raises ``OSError``.
        """
        status = self._status()
        if self._folder < 0 or (status is not None and stat.S_IFMT(status.st_mode) not in _REPLACED):
            with os.fdopen(self.open(os.O_WRONLY | os.O_CREAT), "wb") as file:
                yield file
            return
        draft = f".{self.name[:200]}.{secrets.token_hex(8)}.draft"
        fd = os.open(draft, os.O_RDWR | _NEW | _ALWAYS, 0o666, dir_fd=self._folder)
        try:
            with os.fdopen(fd, "wb") as file:
                if mode is None and status is not None and stat.S_ISREG(status.st_mode):
                    mode = stat.S_IMODE(status.st_mode) & 0o777
                if mode is not None:
                    os.fchmod(fd, mode)
                yield file
                file.flush()
                if lasting:
                    os.fsync(fd)
            os.rename(draft, self.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            if lasting:
                self.sync_folder()
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=self._folder)
            raise

    def write(self, content: bytes, *, lasting: bool = False) -> None:
        """Replace the file's content, as a whole or not at all. Raises ``OSError`` that names the file."""
        try:
            with self.replaced(lasting=lasting) as file:
                file.write(content)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.shown) from None

    def deliver(self, content: bytes) -> None:
        """Replace the file's content as ``write`` does, but raise ``JobError`` on failure."""
        try:
            self.write(content)
        except OSError as error:
            raise self._problem(_reason(error)) from None

    def is_there(self, fd: int) -> bool:
        """Return whether ``fd`` is the file of this name now."""
        status = self._status()
        return status is not None and _inode(status) == _inode(os.fstat(fd))

    def parts(self) -> list[int]:
        """Return the numbers of the files beside this one whose names are this one's with a number, in order."""
        ends = (name.removeprefix(f"{self.name}.") for name in os.listdir(f"/proc/self/fd/{self._folder}"))  # noqa: PTH208
        return sorted(int(end) for end in ends if end.isdecimal() and end.isascii() and str(int(end)) == end)

    def move_aside(self) -> None:
        """Rename the file to the next number of ``parts``."""
        number = max(self.parts(), default=0) + 1
        os.rename(self.name, f"{self.name}.{number}", src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def opened_part(self, number: int) -> IO[bytes]:
        """Open one of ``parts`` to read. Raises ``OSError``."""
        return os.fdopen(os.open(f"{self.name}.{number}", os.O_RDONLY | _ALWAYS, dir_fd=self._folder), "rb")

    def sync_folder(self) -> None:
        """Write the folder's names to the disk."""
        os.fsync(self._folder)

    def _status(self) -> os.stat_result | None:
        try:
            return Path(self.path).stat() if self._folder < 0 else os.lstat(self.name, dir_fd=self._folder)
        except FileNotFoundError:
            return None

    def _problem(self, reason: str) -> JobError:
        return JobError(f"{self._what} {self.shown}: {reason}")


def open_folder(path: str | os.PathLike[str], what: str, writable: Sequence[str] = ()) -> int:
    """Return a descriptor of the folder ``path``, under the same rules. Missing folders on the way are created."""
    named = f"{what} {os.fspath(path)}"
    return _opened(_resolved(str(Path(path).absolute()), named, writable), named, writable, makes=True)


def _resolved(path: str, named: str, writable: Iterable[str]) -> str:
    """Return the real path of ``path``. Raise ``JobError`` if a guest may write to it, or to a link on the way."""
    reach = {os.path.realpath(folder): folder for folder in writable}
    waiting, here, links = path.split("/")[::-1], "", 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            here = here.rpartition("/")[0]
        if part in ("", ".", ".."):
            continue
        step = f"{here}/{part}"
        for real, folder in reach.items():
            if step == real or step.startswith(f"{real}/"):
                raise _within_reach(named, folder)
        try:
            target = str(Path(step).readlink())
        except OSError:  # not a link, or nothing there yet
            here = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise JobError(f"{named}: too many symbolic links lead there")
        here = "" if target.startswith("/") else here
        waiting += target.split("/")[::-1]
    return here or "/"


def _within_reach(named: str, folder: str) -> JobError:
    return JobError(
        f"{named}: lies in {folder}, where the guest may write: it could place a link or a file of its own there; "
        f"name a path outside of the folders that the policy opens for writing"
    )


def _opened(path: str, named: str, writable: Sequence[str], *, makes: bool = False) -> int:
    """Open the folder ``path``, which contains no link any more. Its inode identifies a folder mounted twice."""
    try:
        if makes:
            _make(path)
        folder = beneath.open_folder(path)
    except OSError as error:
        raise JobError(f"{named}: {_reason(error)}: {path}") from None
    try:
        _require_no_writable_above(folder, named, writable)
    except BaseException:
        os.close(folder)
        raise
    return folder


def _make(path: str) -> None:
    """Create the folder ``path`` and its missing parents."""
    folder = os.open("/", _FOLDER)
    for part in path.strip("/").split("/"):
        outer = folder
        try:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=outer)
            folder = beneath.open_at(outer, part, _FOLDER, across=True)
        finally:
            os.close(outer)
    os.close(folder)


def _require_no_writable_above(folder: int, named: str, writable: Sequence[str]) -> None:
    reach = {}
    for each in writable:
        with suppress(OSError):
            reach[_inode(Path(each).stat())] = each
    here = os.dup(folder) if reach else -1
    while here >= 0:
        inode = _inode(os.fstat(here))
        outer = os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
        is_top = _inode(os.fstat(outer)) == inode
        os.close(here)
        here = outer
        if inode in reach:
            os.close(here)
            raise _within_reach(named, reach[inode])
        if is_top:
            os.close(here)
            return


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_own(path: str) -> bool:
    return path.startswith(_OWN) and not path.startswith(_SHARED) and ".." not in path.split("/")


def _reason(error: OSError) -> str:
    return os.strerror(error.errno or 0)
