"""Where snapshots lie: files named by their digest, which is checked at every opening."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stockade.api.snapshots.stream import MOST_BYTES, SnapshotRefused
from stockade.linux import beneath
from stockade.workspace.extract import land

_SUFFIX = ".snapshot"
_NAMED = ".name"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Snapshot:
    """The files of a sandbox, as they were. ``Sandbox.snapshot`` makes it, and ``Sandbox.create`` takes it."""

    id: str
    """The SHA-256 of the file, in hexadecimal digits. Opening the snapshot checks it."""
    path: Path
    name: str | None = None
    entries: int | None = None
    """Files, folders and links; ``None`` if ``Snapshot.list`` has found it, which opens no snapshot."""
    bytes: int | None = None
    """Content of the files, before compression; ``None`` as above."""
    skipped: int | None = None
    """Devices, FIFOs and sockets, which no snapshot holds; ``None`` as above."""

    @staticmethod
    def list(folder: str | os.PathLike[str] | None = None) -> tuple[Snapshot, ...]:
        """Return the snapshots in ``folder``, or in the place for those with a name. The oldest one comes first.

        A snapshot with several names is there once for each of them. Raises ``OSError`` if ``folder`` cannot be read.
        """
        if folder is None and not default_folder().is_dir():
            return ()  # nothing was kept yet
        return _found(default_folder() if folder is None else Path(folder))

    def remove(self) -> None:
        """Remove the file, and every name in its folder that leads to it.

        Sandboxes that began with it keep their files. Raises ``SnapshotRefused`` if the file is gone.

            for snapshot in stockade.Snapshot.list():
                if snapshot.name is None:
                    snapshot.remove()
        """
        try:
            self.path.unlink()
        except FileNotFoundError:
            raise SnapshotRefused(f"{self.path}: there is no such snapshot; it may have been removed before") from None
        for name in _names(self.path.parent).get(self.id, ()):
            (self.path.parent / (name + _NAMED)).unlink(missing_ok=True)


def default_folder() -> Path:
    """Return where this user's snapshots are: below XDG_DATA_HOME, ``/var/lib`` (root) or ``~/.local/share``."""
    named = os.environ.get("XDG_DATA_HOME", "")
    if named.startswith("/"):
        return Path(named, "stockade/snapshots")
    return Path(
        "/var/lib/stockade/snapshots" if os.geteuid() == 0 else "~/.local/share/stockade/snapshots"
    ).expanduser()


def checked_name(name: str | None) -> str | None:
    """Return a name for a snapshot. Raises ``SnapshotRefused`` unless it is a plain word."""
    if name is not None and (not isinstance(name, str) or not _NAME.fullmatch(name)):
        raise SnapshotRefused(f"name = {name!r:.80}: letters, digits, '.', '_' and '-', and no more than 100 of them")
    return name


def save(data: bytes, folder: str | os.PathLike[str] | None, name: str | None) -> tuple[str, Path]:
    """Write a snapshot into ``folder``, and give it a name. Return its digest and its path."""
    place = default_folder() if folder is None else Path(folder)
    if folder is None:
        place.mkdir(0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256(data).hexdigest()
    opened = beneath.open_folder(os.path.realpath(place))
    try:
        with suppress(FileExistsError):  # the same files were kept before
            land(opened, digest + _SUFFIX, data)
        if name is not None:
            with suppress(FileNotFoundError):
                os.unlink(name + _NAMED, dir_fd=opened)
            land(opened, name + _NAMED, digest.encode())
    finally:
        os.close(opened)
    return digest, place / (digest + _SUFFIX)


def _found(place: Path) -> tuple[Snapshot, ...]:
    """Return the snapshots in a folder."""
    names = _names(place)
    dated = []
    for path in place.iterdir():
        digest = path.name.removesuffix(_SUFFIX)
        if digest != path.name and _DIGEST.fullmatch(digest):
            with suppress(FileNotFoundError):  # it was removed meanwhile
                dated.append((path.lstat().st_mtime, digest, path))
    return tuple(
        Snapshot(digest, path, name) for _, digest, path in sorted(dated) for name in names.get(digest) or (None,)
    )


def _names(place: Path) -> dict[str, list[str]]:
    """Return the names in a folder, by the digest to which each leads."""
    found: dict[str, list[str]] = {}
    for path in sorted(place.iterdir()):
        if path.name.endswith(_NAMED):
            with suppress(SnapshotRefused):  # not a name of ours
                digest = _read(path, 64).decode("ascii", "replace")
                found.setdefault(digest, []).append(path.name.removesuffix(_NAMED))
    return found


def load(snapshot: Snapshot | str | os.PathLike[str]) -> bytes:
    """Return the bytes of a snapshot: an object, the name of one, or a path. Raises ``SnapshotRefused``.

    The bytes are read once, so what was checked is what is used.
    """
    wanted = None
    if isinstance(snapshot, Snapshot):
        path, wanted = snapshot.path, snapshot.id
    elif isinstance(snapshot, str) and _NAME.fullmatch(snapshot) and not snapshot.endswith(_SUFFIX):
        wanted = _read(default_folder() / (snapshot + _NAMED), 64).decode("ascii", "replace")
        if not _DIGEST.fullmatch(wanted):
            raise SnapshotRefused(f"{snapshot}: its name leads to no snapshot")
        path = default_folder() / (wanted + _SUFFIX)
    else:
        path = Path(snapshot)
        if path.name.endswith(_SUFFIX) and _DIGEST.fullmatch(path.name.removesuffix(_SUFFIX)):
            wanted = path.name.removesuffix(_SUFFIX)
    data = _read(path, 2 * MOST_BYTES)
    if wanted is not None and hashlib.sha256(data).hexdigest() != wanted:
        raise SnapshotRefused(f"{path}: its content has another digest than its name, so it was changed or damaged")
    return data


def _read(path: Path, most: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SnapshotRefused(f"{path}: there is no such snapshot: {error.strerror}") from None
    with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise SnapshotRefused(f"{path}: it is not a regular file of at most {most} bytes")
        return file.read(most)
