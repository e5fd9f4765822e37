"""The files of a living sandbox, through an agent inside it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stockade.api.sessions.link import Link, SessionEnded
from stockade.api.sessions.records import decoded, number_of, text_of
from stockade.api.sessions.watch import MOST_FOLDERS, Watch
from stockade.core.errors import JobError, StockadeError
from stockade.core.hints import Hinting, known_options

if TYPE_CHECKING:
    from stockade.api.process import Process

_AGENT = "files_agent.py"
_PIECE = 256 * 1024
_LONGEST_FRAME = 1 << 20
_LONGEST_PATH = 4096
LONGEST_FILE = 64 << 20
MOST_ENTRIES = 10_000
SECONDS = 30.0
_Parts = list[bytes]
"""Frames of data. ``Files.list`` hides the built-in name in the class."""


class FileRefused(StockadeError):
    """A file of a sandbox is not what the operation needs: not a regular file, too long, or with too many entries."""


@dataclass(frozen=True)
class FileInfo:
    """The sandbox's description of one of its files. The guest chooses all of it."""

    path: str
    """As asked for; in a listing, the name in its folder, with bytes that are not UTF-8 as ``os.fsdecode`` has them."""
    kind: str
    """``file``, ``directory``, ``link`` or ``other``."""
    size: int
    mode: int
    """Permission bits."""
    modified: float
    """Seconds since 1970."""


class Files(Hinting):
    """Reads and writes files in a living sandbox, as its guest would: ``Sandbox.files``.

    A path is one of the sandbox; a relative one starts in the workspace. Operations raise the built-in errors
    (``FileNotFoundError``, ``PermissionError``, ``OSError`` for a full disk), ``FileRefused``, and ``TimeoutError``
    after ``timeout`` seconds. Any thread may use it; operations take turns.
    """

    def __init__(
        self,
        open_process: Callable[[], Process],
        *,
        timeout: float = SECONDS,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """``check`` raises if the sandbox is closed."""
        self._open, self._timeout, self._check = open_process, timeout, check
        self._link: Link | None = None
        self._turn = threading.Lock()

    @known_options
    def read_bytes(self, path: str | os.PathLike[str], *, max_bytes: int = LONGEST_FILE) -> bytes:
        """Return the content of a regular file. Raises ``FileRefused`` if it is longer than ``max_bytes``."""
        parts: _Parts = []
        self._ask("read", path, parts, max_bytes, longest=max_bytes)
        return b"".join(parts)

    @known_options
    def read_text(self, path: str | os.PathLike[str], *, max_bytes: int = LONGEST_FILE) -> str:
        """Return the content of a regular file as UTF-8. Raises ``UnicodeDecodeError`` if it is not."""
        return self.read_bytes(path, max_bytes=max_bytes).decode()

    @known_options
    def write(self, path: str | os.PathLike[str], data: str | bytes, *, parents: bool = True) -> None:
        """Write a file whole, or leave what was there. ``parents`` makes missing folders.

        A new file has mode 0644; an existing one keeps its mode, and gets a new inode.
        """
        content = data.encode() if isinstance(data, str) else data
        if not isinstance(content, bytes | bytearray | memoryview):
            raise JobError(f"data: expected text or bytes, not {type(data).__name__}")
        self._ask("write", path, [], 0, content=memoryview(content), parents=parents)

    @known_options
    def write_many(self, files: Mapping[str, str | bytes], *, parents: bool = True) -> None:
        """Write files by path, one after another, each as ``write`` does. An error leaves those before it written."""
        if not isinstance(files, Mapping):
            raise JobError(f"files: expected a mapping of paths to text or bytes, not {type(files).__name__}")
        for path, data in files.items():
            self.write(path, data, parents=parents)

    @known_options
    def list(self, path: str | os.PathLike[str] = ".", *, max_entries: int = MOST_ENTRIES) -> tuple[FileInfo, ...]:
        """Return the entries of a folder by name. Raises ``FileRefused`` if it has more than ``max_entries``."""
        parts: _Parts = []
        self._ask("list", path, parts, max_entries * 2 * _LONGEST_PATH, most=max_entries)
        if len(parts) > max_entries:
            raise self._broken("more entries than asked for")
        return tuple(sorted((self._info(decoded, part) for part in parts), key=lambda each: each.path))

    @known_options
    def stat(self, path: str | os.PathLike[str], *, follow_links: bool = True) -> FileInfo:
        """Return what the sandbox knows about a file."""
        return self._info(lambda found: found, self._ask("stat", path, [], 0, follow=follow_links))

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Return whether the guest sees anything at this path."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @known_options
    def make_dir(self, path: str | os.PathLike[str], *, exist_ok: bool = True) -> None:
        """Make a folder, and its parents."""
        self._ask("make_dir", path, [], 0, exist_ok=exist_ok)

    def rename(self, path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Move a file or folder; a file at ``target`` is replaced."""
        self._ask("rename", path, [], 0, target=_checked("target", target))

    @known_options
    def remove(self, path: str | os.PathLike[str], *, recursive: bool = False) -> None:
        """Remove a file, a link, or an empty folder; with ``recursive``, a folder with all that is in it."""
        self._ask("remove", path, [], 0, recursive=recursive)

    @known_options
    def watch(
        self, path: str | os.PathLike[str] = ".", *, recursive: bool = False, max_folders: int = MOST_FOLDERS
    ) -> Watch:
        """Return the changes in a folder from now on, as a ``Watch``. ``recursive`` watches the folders below it too.

        A tree with more than ``max_folders`` folders is watched in part: a change ``overflow`` names each folder that
        is left out. Raises as the other operations do.
        """
        name = _checked("path", path)
        return Watch(self._open(), name, recursive=recursive, max_folders=max_folders, timeout=self._timeout)

    def close(self) -> None:
        """End the agent; the next operation starts another."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _ask(
        self,
        operation: str,
        path: str | os.PathLike[str],
        parts: _Parts,
        limit: int,
        *,
        content: memoryview | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Carry out one operation. Put frames of data into ``parts``, ``limit`` bytes at most; return the answer."""
        name = _checked("path", path)
        self._check()
        with self._turn:
            try:
                link = self._link = self._link or Link(self._open(), _AGENT, longest=_LONGEST_FRAME)
                deadline = link.clock() + self._timeout
                link.send(b"Q", {"operation": operation, "path": name, **more}, seconds=_left(link, deadline))
                if content is not None:
                    for at in range(0, len(content), _PIECE):
                        link.send(b"b", bytes(content[at : at + _PIECE]), seconds=_left(link, deadline))
                    link.send(b"E", seconds=_left(link, deadline))
                kind, payload = self._answer(link, parts, limit, deadline)
                found = decoded(payload)
            except TimeoutError:
                self.close()
                raise TimeoutError(f"{operation} {name!r}: no answer in {self._timeout:g} s") from None
            except (OSError, EOFError) as error:
                self.close()
                raise SessionEnded(f"{operation} {name!r}: no answer: {error}") from error
            except ValueError as error:
                raise self._broken(str(error)) from error
            except BaseException:
                self.close()  # an answer may be half read
                raise
        if kind == b"x":
            raise error_of_answer(operation, name, found)
        return found

    @staticmethod
    def _answer(link: Link, parts: _Parts, limit: int, deadline: float) -> tuple[bytes, bytes]:
        total = 0
        while True:
            kind, payload = link.receive(deadline)
            if kind in (b"=", b"x"):
                return kind, payload
            total += len(payload)
            if kind != b"b" or not payload or total > limit:
                raise ValueError("more data than asked for")
            parts.append(payload)

    def _broken(self, why: str) -> StockadeError:
        self.close()
        return SessionEnded(f"the agent for files broke the protocol: {why}")

    def _info(self, read: Callable[[Any], dict[str, Any]], answer: Any) -> FileInfo:
        try:
            found = read(answer)
            path, kind, modified = found.get("path"), text_of(found, "kind"), found.get("modified")
            if not isinstance(modified, int | float) or not abs(modified) < 1 << 63 or not isinstance(path, str):
                raise ValueError("a path or a time is missing, or not in range")
            return FileInfo(path, kind, int(number_of(found, "size")), int(number_of(found, "mode")), float(modified))
        except ValueError as error:
            raise self._broken(str(error)) from error


def _left(link: Link, deadline: float) -> float:
    return max(0.0, deadline - link.clock())


def _checked(field: str, path: str | os.PathLike[str]) -> str:
    """Return a path that can be one of a sandbox."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise JobError(f"{field} = {path!r:.80}: a path is a text that is not empty and has no NUL character")
    try:
        size = len(os.fsencode(text))
    except UnicodeEncodeError:
        raise JobError(f"{field} = {path!r:.80}: half of a surrogate pair is not a character of a path") from None
    if size >= _LONGEST_PATH:
        raise JobError(f"{field}: a path has at most {_LONGEST_PATH - 1} bytes, and this one has more")
    return text


def error_of_answer(operation: str, path: str, found: dict[str, Any]) -> Exception:
    """Return the error for an answer ``x``."""
    number, reason = found.get("errno"), found.get("reason")
    if isinstance(number, int) and number in errno.errorcode:
        return OSError(number, os.strerror(number), path)
    return FileRefused(f"{operation} {path!r}: {str(reason or 'it failed')[:200]}")
