"""Stages of files, folders, descriptors and devices: a guest must neither read nor change these canaries."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stockade.attacks import build, corpus
from stockade.attacks.world import World, libc

_NAME_TO_HANDLE = {"x86_64": 303, "aarch64": 264}.get(os.uname().machine, 0)
_OTHER_USER = 4242
_ELF = b"\x7fELF"
_PRINTS_ITS_UID = '#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("%d\\n", (int)geteuid()); }\n'


def canary(world: World) -> Iterator[None]:
    """Make a file that anyone can read and write who can reach it."""
    folder = world.folder / "outside"
    folder.mkdir()
    folder.chmod(0o777)
    file = folder / "canary"
    file.write_text(world.secret + "\n", encoding="utf-8")
    file.chmod(0o666)
    world.environment["ATTACK_CANARY"] = str(file)
    before = _digest(folder)
    world.seen["changed"] = lambda: _digest(folder) != before
    yield


def readonly(world: World) -> Iterator[None]:
    """Make a folder that is bound read-only, though the modes of its files let anyone write."""
    folder = world.folder / "readonly"
    folder.mkdir()
    (folder / "file").write_text("untouched\n", encoding="utf-8")
    shutil.copy("/bin/sleep", folder / "program")
    for path, mode in ((folder, 0o777), (folder / "file", 0o666), (folder / "program", 0o777)):
        path.chmod(mode)
    world.read.append(str(folder))
    world.environment["ATTACK_READONLY"] = str(folder)
    before = _digest(folder)
    world.seen["changed"] = lambda: _digest(folder) != before
    yield


def project(**filesystem: Any) -> Callable[[World], Iterator[None]]:
    """Return the stage of a project with a secret, hooks and a file, which is bound as the workspace."""

    def stage(world: World) -> Iterator[None]:
        folder = world.folder / "project"
        (folder / ".git" / "hooks").mkdir(parents=True)
        (folder / "sub").mkdir()
        (folder / "file").write_text("untouched\n", encoding="utf-8")
        for name in (".env", "sub/.env"):
            (folder / name).write_text(f"PASSWORD={world.secret}\n", encoding="utf-8")
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        world.filesystem = {"workspace": str(folder), **filesystem}
        (world.folder / "kit").mkdir()  # job files are not written into a folder of the host, so the kit needs its own
        shutil.copy(corpus.FOLDER / "kit.py", world.folder / "kit")
        world.read.append(str(world.folder / "kit"))
        world.environment["PYTHONPATH"] = str(world.folder / "kit")
        world.environment["ATTACK_PROJECT"] = str(folder)
        before = _contents(folder)
        world.seen["touched"] = lambda: _contents(folder) != before
        world.seen["hooked"] = (folder / ".git" / "hooks" / "pre-commit").exists
        yield

    return stage


def project_private(world: World) -> Iterator[None]:
    """Make a project that the guest writes to directly, with a file that only the caller may read."""
    for _ in project(access="write", hidden=["nothing"])(world):
        file = Path(world.environment["ATTACK_PROJECT"]) / "answer"
        file.write_text(world.secret, encoding="utf-8")
        file.chmod(0o600)
        yield


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def shared(world: World) -> Iterator[None]:
    """Make a folder that the guest may write to and that the host then reads."""
    folder = world.folder / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    world.write.append(str(folder))
    world.environment["ATTACK_SHARED"] = str(folder)

    def found() -> list[os.stat_result]:
        return [path.lstat() for path in folder.iterdir()]

    world.seen["setuid_root"] = lambda: any(item.st_uid == 0 and item.st_mode & stat.S_ISUID for item in found())
    world.seen["setuid_left"] = lambda: any(item.st_mode & stat.S_ISUID for item in found())
    world.seen["device_left"] = lambda: any(
        stat.S_ISBLK(item.st_mode) or stat.S_ISCHR(item.st_mode) for item in found()
    )
    world.seen["core_left"] = lambda: any(path.is_file() and _begins(path, _ELF) for path in folder.iterdir())
    yield


def _begins(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def setuid(world: World) -> Iterator[None]:
    """Make a set-user-id program of a third user, bound read-only. It prints its effective uid."""
    folder = world.folder / "setuid"
    folder.mkdir()
    program = folder / "euid"
    program.write_bytes(build.program(_PRINTS_ITS_UID))
    os.chown(program, _OTHER_USER, _OTHER_USER)
    program.chmod(0o6755)
    folder.chmod(0o755)
    world.read.append(str(folder))
    world.environment["ATTACK_SETUID"] = str(program)
    yield


def leak(world: World) -> Iterator[None]:
    """Open inheritable descriptors in the caller: of folders of the host, and of a file with a secret."""
    file = world.folder / "leaked"
    file.write_text(world.secret + "\n", encoding="utf-8")
    fds = [os.open("/", os.O_RDONLY), os.open(world.folder, os.O_RDONLY), os.open(file, os.O_RDONLY)]
    fds = [_moved(fd) for fd in fds]
    for fd in fds:
        os.set_inheritable(fd, True)
    world.environment["ATTACK_LEAKED"] = str(file)
    world.pass_fds += fds
    world.fresh_warden = True
    try:
        yield
    finally:
        for fd in fds:
            os.close(fd)


def handle(world: World) -> Iterator[None]:
    """Give the program a file handle (open_by_handle_at(2)) of the canary, as if it had guessed the handle."""
    buffer = ctypes.create_string_buffer(8 + 128)
    ctypes.c_uint.from_buffer(buffer).value = 128
    mount = ctypes.c_int()
    path = world.environment["ATTACK_CANARY"].encode()
    if libc.syscall(_NAME_TO_HANDLE, -100, path, buffer, ctypes.byref(mount), 0) < 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    world.environment["ATTACK_HANDLE"] = buffer.raw.hex()
    yield


def device(world: World) -> Iterator[None]:
    """Give the program the device number of the disk that holds ``/usr``."""
    number = Path("/usr").stat().st_dev
    world.environment["ATTACK_DEVICE"] = f"{os.major(number)}:{os.minor(number)}"
    yield


def device_node(world: World) -> Iterator[None]:
    """Show a read-only folder with a harmless device node that anyone may read."""
    folder = world.folder / "devices"
    folder.mkdir(mode=0o755)
    os.mknod(folder / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    (folder / "zero").chmod(0o666)
    world.read.append(str(folder))
    world.environment["ATTACK_READONLY"] = str(folder)
    yield


def private_file(world: World) -> Iterator[None]:
    """Show a read-only folder with a file that only the caller may read."""
    folder = world.folder / "private"
    folder.mkdir(mode=0o755)
    file = folder / "key"
    file.touch(mode=0o600)
    file.write_text(world.secret + "\n", encoding="utf-8")
    world.read.append(str(folder))
    world.environment["ATTACK_PRIVATE"] = str(file)
    yield


def device_times(world: World) -> Iterator[None]:
    """Watch the times of a device node of the host."""
    before = Path("/dev/zero").stat().st_mtime_ns
    world.seen["changed"] = lambda: Path("/dev/zero").stat().st_mtime_ns != before
    yield


def _moved(fd: int) -> int:
    """Move ``fd`` to a number that no program uses by itself."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 50)
    finally:
        os.close(fd)


def _digest(folder: Path) -> str:
    """Return a digest of the names, contents, modes, links and times below ``folder``."""
    summary = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        facts = (path.name, status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns, status.st_size)
        summary.update(repr(facts).encode())
        if path.is_file():
            summary.update(path.read_bytes())
    return summary.hexdigest()
