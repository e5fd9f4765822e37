"""Container engines to be timed: each started with state of its own, given an image of this machine's Python, and ended
with the benchmark. Nothing is fetched, and an engine that runs here already is left alone."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from functools import lru_cache
from pathlib import Path

PYTHON = "/usr/bin/python3"
_IMAGE = "stockade-bench"
_START_SECONDS = 20.0
_DOCKERD = (
    *("dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
    *("--exec-opt", "native.cgroupdriver=cgroupfs"),
)
_LEAST = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096")  # where hard limits cannot be raised
_LEFT_OUT = re.compile(r"__pycache__|/test/|/dist-packages|/idlelib|/config-")


class Missing(Exception):
    """A contender is not here, and why."""


def docker() -> tuple[str, ...]:
    """Return the command that runs Python in a container of Docker's."""
    _need("docker", "dockerd", "containerd")
    folder = _folder()
    client = ("docker", "-H", f"unix://{folder}/socket")
    places = [f"--{name}={folder}/{name}" for name in ("data-root", "exec-root", "pidfile")]
    with Path(folder, "log").open("wb") as log:
        daemon = subprocess.Popen([*_DOCKERD, *places, "-H", f"unix://{folder}/socket"], stdout=log, stderr=log)
    atexit.register(_end, daemon, f"{folder}/data-root")
    until = time.monotonic() + _START_SECONDS
    while subprocess.run([*client, "info"], capture_output=True, check=False).returncode:
        if daemon.poll() is not None or time.monotonic() > until:
            raise Missing(f"dockerd did not start here: {Path(folder, 'log').read_text()[-200:]}")
        time.sleep(0.1)
    return _prepared(client)


def podman() -> tuple[str, ...]:
    """Return the command that runs Python in a container of podman's."""
    _need("podman", "runc")
    folder = _folder()
    state = (f"--root={folder}/root", f"--runroot={folder}/run")
    return _prepared(("podman", *state, "--cgroup-manager=cgroupfs", "--runtime=runc", "--events-backend=none"))


def _need(*names: str) -> None:
    for name in names:
        if shutil.which(name) is None:
            raise Missing(f"{name} is not installed")
    if os.geteuid():
        raise Missing("started here as root only")


def _prepared(client: tuple[str, ...]) -> tuple[str, ...]:
    made = subprocess.run([*client, "import", _root(), _IMAGE], capture_output=True, text=True, check=False)
    if made.returncode:
        raise Missing(f"{client[0]} does not take an image here: {made.stderr[-200:]}")
    interpreter = str(Path(PYTHON).resolve())
    return (*client, "run", "--rm", "--network=none", *_LEAST, _IMAGE, interpreter)


@lru_cache(maxsize=1)
def _root() -> str:
    """Return an archive of a root file system with nothing but Python in it."""
    interpreter = Path(PYTHON).resolve()
    needed = subprocess.run(["ldd", str(interpreter)], capture_output=True, text=True, check=True).stdout
    library = Path(f"/usr/lib/{interpreter.name}")
    archive = f"{_folder()}/root.tar"
    with tarfile.open(archive, "w", dereference=True) as root:
        for path in (str(interpreter), str(library), *re.findall(r"/\S+", needed)):
            root.add(path, path[1:], filter=lambda member: None if _LEFT_OUT.search(member.name) else member)
    return archive


def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="stockade-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _end(daemon: subprocess.Popen[bytes], mounted: str) -> None:
    daemon.terminate()
    daemon.wait()
    subprocess.run(["umount", mounted], capture_output=True, check=False)  # by itself it stays mounted
