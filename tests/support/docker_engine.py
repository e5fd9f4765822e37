"""A docker daemon of the tests' own, without a network, and an image made from programs of this host."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from stockade.linux.engine_api import EngineError, ask
from tests.support import host

IMAGE = "stockade-test:1"
_START_SECONDS = 60
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_PROGRAMS = (
    "/bin/sh", "/bin/bash", "/usr/bin/python3", "/usr/bin/cat", "/usr/bin/cp", "/usr/bin/ls", "/usr/bin/id", "/usr/bin/env",
    "/usr/bin/true", "/usr/bin/false", "/usr/bin/sleep", "/usr/bin/echo", "/usr/bin/printf", "/usr/bin/head", "/usr/bin/wc",
    "/usr/bin/yes", "/usr/bin/dd", "/usr/bin/touch", "/usr/bin/rm", "/usr/bin/mkdir", "/usr/bin/chmod", "/usr/bin/uname",
    "/usr/bin/stat", "/usr/bin/grep", "/usr/bin/sed", "/usr/bin/tr", "/usr/bin/sort", "/usr/bin/cut",
    "/usr/bin/timeout", "/usr/bin/nohup", "/usr/bin/setsid", "/usr/bin/kill", "/usr/bin/ps", "/usr/bin/seq", "/usr/bin/awk",
    "/usr/bin/tail",
)  # fmt: skip
_LANGUAGES = ("/usr/bin/ruby", "/usr/bin/node") if os.environ.get("STOCKADE_WHOLE") else ()
"""These double the image, and only the whole conformance suite runs them."""
_ACCOUNTS = {
    "passwd": "root:x:0:0::/root:/bin/sh\nguest:x:1000:1000::/tmp:/bin/sh\n",
    "group": "root:x:0:\nguest:x:1000:\n",
}
_LEFT_OUT = re.compile(r"/(test|tests|idlelib|tkinter|ensurepip|lib2to3|dist-packages|rdoc|irb|gems)(/|$)|\.pyc$")


class Daemon:
    """A running daemon. ``socket`` is the path of its socket, and ``pid`` its process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self._options = folder, options
        self.socket = str(folder / "docker.sock")
        self.parent = f"/test-{folder.name}"
        self._pid = 0

    def start(self) -> None:
        """Start the daemon, and wait until it answers."""
        command = ["unshare", "--mount", "--propagation=private", *self.command()]  # its mounts end with it
        self._pid = _started_apart(command, self.folder / "log")
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                ask(self.socket, "GET", "/version", seconds=2)
                return
            except EngineError:
                if time.monotonic() > deadline or not _lives(self._pid):
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.1)

    def command(self) -> list[str]:
        """Return the command of the daemon."""
        (self.folder / "none.json").write_text("{}")
        return [
            "dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
            "--exec-opt=native.cgroupdriver=cgroupfs", f"--cgroup-parent={self.parent}", f"--host=unix://{self.socket}",
            f"--config-file={self.folder}/none.json", f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec",
            f"--pidfile={self.folder}/pid", *self._options,
        ]  # fmt: skip

    def load(self, content: bytes) -> None:
        """Make ``IMAGE`` of a tar archive."""
        ask(self.socket, "POST", "/images/create?fromSrc=-&repo=stockade-test&tag=1", content, seconds=120)

    def stop(self, by: int = signal.SIGTERM) -> None:
        """End the daemon, and its containers unless ``by`` gives it no time."""
        os.kill(self._pid, by)
        until = time.monotonic() + 60
        while _lives(self._pid) and time.monotonic() < until:
            time.sleep(0.05)

    def clean_up(self) -> None:
        """Remove what the daemon leaves behind: its groups and its folders."""
        for hierarchy in Path("/sys/fs/cgroup").glob("*"):
            for group in sorted(Path(f"{hierarchy}{self.parent}").rglob("*"), reverse=True):
                if group.is_dir():
                    with contextlib.suppress(OSError):
                        group.rmdir()
            with contextlib.suppress(OSError):
                Path(f"{hierarchy}{self.parent}").rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)

    def containers(self) -> list[str]:
        """Return the names of all containers, dead ones as well."""
        return [name for each in ask(self.socket, "GET", "/containers/json?all=1") for name in each["Names"]]


def _started_apart(command: list[str], log: Path) -> int:
    """Start a process that does not descend from this one, and return its pid.

    Tests take whatever descends from this process for a part of their runs, so no daemon may.
    """
    libc = ctypes.CDLL(None)
    adopts = ctypes.c_int()
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts))
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)
    try:
        script = '"$@" >>"$0" 2>&1 </dev/null & echo $!'
        done = subprocess.run(["setsid", "sh", "-c", script, log, *command], stdout=subprocess.PIPE, check=True)
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, adopts.value)
    return int(done.stdout)


def _lives(pid: int) -> bool:
    state = host.state(pid)
    return state not in ("", "Z")


@contextlib.contextmanager
def running(*options: str, kind: type[Daemon] = Daemon) -> Iterator[Daemon]:
    """Run a daemon that has the image."""
    with tempfile.TemporaryDirectory(prefix="engine-", dir="/dev/shm", ignore_cleanup_errors=True) as folder:
        daemon = kind(Path(folder), *options)
        try:
            daemon.start()
            daemon.load(image())
            yield daemon
        finally:
            daemon.stop()
            daemon.clean_up()


@lru_cache(maxsize=1)
def image() -> bytes:
    """Return the tar archive of a root file system with the programs and languages that tests use."""
    paths: dict[str, None] = {}
    version = Path("/usr/bin/python3").resolve().name
    for folder in (f"/usr/lib/{version}", *(_ruby_folders() if _LANGUAGES else ())):
        for path in _below(folder):
            paths[path] = None
            if path.endswith(".so"):
                paths |= dict.fromkeys(_with_libraries(path))
    return archive(*filter(os.path.exists, (*_PROGRAMS, *_LANGUAGES)), more=paths)


def archive(*programs: str, more: Iterable[str] = ()) -> bytes:
    """Return the tar archive of a small root file system: programs of the host with their libraries, and ``more``."""
    paths: dict[str, None] = {}
    for program in programs:
        paths |= dict.fromkeys(_with_libraries(program))
    paths |= dict.fromkeys(more)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in _with_folders(paths):
            archive.add(path, path.lstrip("/"), recursive=False)
        for name, text in _ACCOUNTS.items():
            entry = tarfile.TarInfo(f"etc/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


def _ruby_folders() -> Iterable[str]:
    return [str(path) for path in (Path("/usr/lib/ruby"), *Path("/usr/lib").glob("*-linux-gnu/ruby")) if path.is_dir()]


def _below(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        if not _LEFT_OUT.search(place):
            yield from (f"{place}/{name}" for name in names if not _LEFT_OUT.search(name))


def _with_libraries(program: str) -> Iterator[str]:
    """Yield the program with the links that lead to it, and the same for each library that it is linked with."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for path in map(Path, (program, *re.findall(r"(/\S+) \(0x", listed))):
        place = path
        while True:
            yield str(place)
            if not place.is_symlink():
                break
            place = Path(os.path.normpath(place.parent / place.readlink()))


def _with_folders(paths: Iterable[str]) -> list[str]:
    """Return the paths under their real folders, each after the folders and links on the way to it."""
    found: dict[str, None] = {}
    for path in map(Path, paths):
        place = Path("/")
        for part in path.parts[1:]:
            place /= part
            found[str(place)] = None
            if place.is_symlink() and place != path:
                place = place.resolve()
                found |= dict.fromkeys(str(each) for each in (*reversed(place.parents), place) if each != Path("/"))
    return list(found)


if __name__ == "__main__":  # a daemon to try things with: prints its socket, and ends with standard input
    with running() as made:
        print(made.socket, flush=True)
        sys.stdin.read()
