"""The store of environments: one folder for each user, read-only for everybody, checked before use.

    sets/DIGEST          an environment, named by the digest of its interpreter and its wheels
    sets/DIGEST.json     its manifest: the wheels, and every file with its digest
    requests/DIGEST      which set a list of requirements was resolved to
    building/NAME        an environment that a process is making; whoever makes it holds a lock on it
    lock                 held while a process adds or removes sets or folders

A process that uses a set holds a shared lock on its manifest, and ``clear`` leaves such a set alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stockade.api.packages.frames import Written
from stockade.core import own_files
from stockade.core.errors import RequirementError

FORMAT = 2
LINKS = ("bin/python", "bin/python3")
LOCK_SECONDS = 1800.0
_AGAIN_SECONDS = 0.05
_held: dict[str, int] = {}
"""The path of each manifest in use, and the descriptor that holds its lock until this process ends."""


def default_place() -> Path:
    """Return where this user's store is."""
    return own_files.cache("packages")


class Store:
    """The environments of one user."""

    def __init__(self, place: Path | None = None) -> None:
        """Make the folders that are missing. Raises ``RequirementError`` if another user could write to the store."""
        wanted = default_place() if place is None else place
        try:
            wanted.parent.mkdir(0o711, parents=True, exist_ok=True)
            wanted.mkdir(exist_ok=True)
            self.place = wanted.resolve(strict=True)
            for each in (self.place, *(self.place / name for name in ("sets", "requests", "building"))):
                each.mkdir(exist_ok=True)
        except OSError as error:
            raise _bad(wanted, f"the store cannot be made: {error.strerror}") from None
        self._check_owners()
        for each in (self.place, self.place / "sets"):  # a guest under another uid may enter, but not list
            each.chmod(0o711)
        for each in (self.place / "requests", self.place / "building"):
            each.chmod(0o700)

    def _check_owners(self) -> None:
        for path in (self.place / "sets", self.place / "requests", self.place / "building", self.place):
            self._check_owner(path, (os.geteuid(),))
        for path in self.place.parents:
            self._check_owner(path, (os.geteuid(), 0))

    def _check_owner(self, path: Path, owners: tuple[int, ...]) -> None:
        if found := own_files.trouble(path, stat.S_IFDIR, owners):
            raise _bad(path, found)

    def folder(self, digest: str) -> Path:
        """Return where the environment of this digest lies."""
        return self.place / "sets" / digest

    def manifests(self) -> list[dict[str, Any]]:
        """Return the manifests of all sets, without their files, each with its ``digest`` and ``bytes``."""
        found = []
        for path in sorted((self.place / "sets").glob("*.json")):
            manifest = _read(path)
            if manifest is not None:
                size = sum(each[0] for each in manifest.pop("files").values())
                found.append({"digest": path.stem, **manifest, "bytes": size})
        return found

    def use(self, digest: str) -> str | None:
        """Return the folder of a set, or ``None`` if the store does not have it; it stays until this process ends.

        The first use in a process checks every file. Raises ``RequirementError`` if the folder was changed.
        """
        manifest_path = self.folder(digest).with_suffix(".json")
        if str(manifest_path) in _held:
            return str(self.folder(digest))
        try:
            fd = os.open(manifest_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        fcntl.flock(fd, fcntl.LOCK_SH)
        manifest = _read(manifest_path) if os.fstat(fd).st_nlink else None  # ``clear`` may have come first
        if manifest is None:
            os.close(fd)
            return None
        try:
            self._check(self.folder(digest), manifest)
        except BaseException:
            os.close(fd)
            raise
        _held[str(manifest_path)] = fd
        return str(self.folder(digest))

    def _check(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        """Compare every file with the manifest. A file whose change time differs is read, and its digest compared."""
        files, links = dict(manifest["files"]), dict(manifest["links"])
        for name, status in _walk(folder):
            if status.st_uid != os.geteuid():
                raise _changed(folder, name, f"it belongs to uid {status.st_uid}")
            if stat.S_ISLNK(status.st_mode):
                if links.pop(name, None) != str((folder / name).readlink()):
                    raise _changed(folder, name, "it is a link that was not there")
                continue
            if status.st_mode & 0o7222:
                raise _changed(folder, name, f"its mode is {stat.S_IMODE(status.st_mode):o}")
            if stat.S_ISDIR(status.st_mode):
                continue
            size, digest, inode, changed = files.pop(name, (-1, "", 0, 0))
            if not stat.S_ISREG(status.st_mode) or size != status.st_size:
                raise _changed(folder, name, "it has another size, or was not there")
            if (inode, changed) != (status.st_ino, status.st_ctime_ns) and digest_of(folder / name) != digest:
                raise _changed(folder, name, "its content is not what was installed")
        for name in (*files, *links):
            raise _changed(folder, name, "it is gone")

    def publish(self, digest: str, made: Path, files: Mapping[str, Written], about: Mapping[str, Any]) -> None:
        """Move the complete environment ``made`` to its place, unless another process was faster."""
        links = {name: str((made / name).readlink()) for name in LINKS}
        listed = {}
        for name, written in files.items():
            status = (made / name).lstat()
            listed[name] = [written.size, written.digest, status.st_ino, status.st_ctime_ns]
        for folder, _, _ in os.walk(made, topdown=False):
            Path(folder).chmod(0o555)
        manifest = {"format": FORMAT, **about, "files": listed, "links": links}
        target = self.folder(digest)
        with self._locked():
            if _read(target.with_suffix(".json")) is not None:
                return
            _remove(target)  # left by a process that ended in between
            made.chmod(0o755)  # the owner must be able to write to a folder that is moved (rename(2))
            made.rename(target)
            target.chmod(0o555)
            _write(target.with_suffix(".json"), manifest)

    @contextmanager
    def request(self, digest: str) -> Iterator[Path]:
        """Hold the lock of a list of requirements; yield the file that names its set."""
        path = self.place / "requests" / f"{digest}.lock"
        with _flocked(path):
            yield path.with_suffix(".json")

    def resolved(self, digest: str) -> str:
        """Return the digest of the set that a list of requirements was resolved to, or an empty text."""
        found = _read(self.place / "requests" / f"{digest}.json")
        return str(found["set"]) if found is not None else ""

    def note(self, path: Path, requirements: tuple[str, ...], digest: str) -> None:
        """Note what a list of requirements was resolved to."""
        _write(path, {"format": FORMAT, "requirements": requirements, "set": digest})

    @contextmanager
    def building(self) -> Iterator[tuple[Path, int]]:
        """Yield an empty folder and the descriptor of its lock. Leaving removes it, and what ended processes left."""
        with self._locked():
            for left in (self.place / "building").iterdir():
                _remove_unless_locked(left)
            path = Path(tempfile.mkdtemp(dir=self.place / "building"))
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            yield path, fd
        finally:
            os.close(fd)
            _remove(path)

    def clear(self) -> tuple[int, int]:
        """Remove every set that no process uses; return how many were removed and how many are left."""
        removed = left = 0
        with self._locked():
            for path in (self.place / "requests").iterdir():
                path.unlink()
            for path in (self.place / "building").iterdir():
                _remove_unless_locked(path)
            for manifest in (self.place / "sets").glob("*.json"):
                fd = os.open(manifest, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    manifest.unlink()
                    _remove(manifest.with_suffix(""))
                    removed += 1
                except BlockingIOError:
                    left += 1
                finally:
                    os.close(fd)
        return removed, left

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _flocked(self.place / "lock"):
            yield


@contextmanager
def _flocked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise _bad(path, f"another process held the lock for {LOCK_SECONDS:.0f} s") from None
                time.sleep(_AGAIN_SECONDS)
        yield
    finally:
        os.close(fd)


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the relative name and the status of everything in ``folder``, and of itself."""
    yield "", folder.lstat()
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        with os.scandir(folder / inner) as entries:
            for entry in entries:
                name = f"{inner}{entry.name}"
                yield name, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name + "/")


def digest_of(path: Path) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a file of the store says, or ``None`` if it is missing, cut off, or of another version."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and data.get("format") == FORMAT else None


def _write(path: Path, data: Mapping[str, Any]) -> None:
    """Write a file of the store so that a reader sees all of it or nothing."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False) as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).rename(path)


def _remove(path: Path) -> None:
    """Remove a folder of read-only folders."""
    if not path.exists():
        return
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            Path(folder).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def _remove_unless_locked(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    except BlockingIOError:
        pass
    finally:
        os.close(fd)


def _bad(path: Path, reason: str) -> RequirementError:
    return RequirementError(
        str(path), reason, "set XDG_CACHE_HOME to a folder that only you can write to", field="store"
    )


def _changed(folder: Path, name: str, reason: str) -> RequirementError:
    return RequirementError(
        str(folder / name), f"the store was changed: {reason}", "remove the stored packages: stockade packages clear",
        field="store",
    )  # fmt: skip
