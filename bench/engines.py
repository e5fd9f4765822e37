"""Time container engines by hand, and stockade over them, cold and in a container that was started ahead (root).

    python -m bench.engines [--runs 20] [--json FILE] [--smoke]

Each call runs ``python3 -I -S -c pass`` to its end. By hand means docker's and podman's own command with the fewest
options; crun's is in ``bench.backends``. The contenders take turns. Before a call that is to find a container, it waits until
there is one. Each engine is started with state of its own, given an image of this machine's Python, and ended with the benchmark.
Nothing is fetched, and an engine that runs here already is left alone. Figures of a busy machine mean nothing.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import stockade
from stockade.backends.docker.backend import Docker
from stockade.backends.podman.backend import Podman
from stockade.client import warden_process

PYTHON = "/usr/bin/python3"
_IMAGE = "stockade-bench"
_START_SECONDS = 20.0
_READY_SECONDS, _TRIES = 1.5, 20
"""A container that is started ahead is ready by then on a machine that has nothing else to do."""
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
    return _by_hand(_dockerd()[0])


def _dockerd() -> tuple[tuple[str, ...], str]:
    """Return docker's command for a daemon of our own, and its socket."""
    _need("docker", "dockerd", "containerd")
    folder = _folder()
    places = [f"--{name}={folder}/{name}" for name in ("data-root", "exec-root", "pidfile")]
    client = ("docker", "-H", f"unix://{folder}/socket")
    _serve(folder, client, [*_DOCKERD, *places, "-H", f"unix://{folder}/socket"], f"{folder}/data-root")
    _import(client)
    return client, f"{folder}/socket"


def podman() -> tuple[str, ...]:
    """Return the command that runs Python in a container of podman's."""
    return _by_hand(_podman(_folder()))


def _podman(folder: str) -> tuple[str, ...]:
    _need("podman", "runc")
    atexit.register(_unmount, f"{folder}/root/overlay")
    state = (f"--root={folder}/root", f"--runroot={folder}/run")
    client = ("podman", *state, "--cgroup-manager=cgroupfs", "--runtime=runc", "--events-backend=none")
    _import(client)
    return client


def _podman_service() -> tuple[tuple[str, ...], str]:
    """Return podman's command, and the socket of a service with the same state."""
    folder = _folder()
    client, url = _podman(folder), f"unix://{folder}/socket"
    Path(folder, "containers.conf").write_text("[containers]\ndefault_sysctls = []\n")  # see docs/backends/podman.md
    service = ["env", f"CONTAINERS_CONF={folder}/containers.conf", *client, "system", "service", "--time=0", url]
    _serve(folder, ("podman", "--remote", "--url", url), service, f"{folder}/root/overlay")
    return client, f"{folder}/socket"


def _serve(folder: str, client: tuple[str, ...], command: list[str], mounted: str) -> None:
    """Start an engine, and wait until it answers. At its end, ``mounted`` is unmounted."""
    with Path(folder, "log").open("wb") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log)
    atexit.register(_end, daemon, mounted)
    until = time.monotonic() + _START_SECONDS
    while subprocess.run([*client, "info"], capture_output=True, check=False).returncode:
        if daemon.poll() is not None or time.monotonic() > until:
            raise Missing(f"{command[0]} did not start here: {Path(folder, 'log').read_text()[-200:]}")
        time.sleep(0.1)


def _need(*names: str) -> None:
    for name in names:
        if shutil.which(name) is None:
            raise Missing(f"{name} is not installed")
    if os.geteuid():
        raise Missing("started here as root only")


def _import(client: tuple[str, ...]) -> None:
    made = subprocess.run([*client, "import", _root(), _IMAGE], capture_output=True, text=True, check=False)
    if made.returncode:
        raise Missing(f"{client[0]} does not take an image here: {made.stderr[-200:]}")


def _by_hand(client: tuple[str, ...]) -> tuple[str, ...]:
    return (*client, "run", "--rm", "--network=none", *_LEAST, _IMAGE, str(Path(PYTHON).resolve()))


@lru_cache(maxsize=1)
def _root() -> str:
    """Return an archive of a root file system with nothing but Python and a shell in it."""
    interpreter = Path(PYTHON).resolve()
    needed = subprocess.run(["ldd", str(interpreter), "/bin/sh"], capture_output=True, text=True, check=True).stdout
    library = Path(f"/usr/lib/{interpreter.name}")
    archive = f"{_folder()}/root.tar"
    with tarfile.open(archive, "w", dereference=True) as root:
        for path in dict.fromkeys((str(interpreter), "/bin/sh", str(library), *re.findall(r"(/\S+) \(0x", needed))):
            root.add(path, path[1:], filter=lambda member: None if _LEFT_OUT.search(member.name) else member)
    return archive


def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="stockade-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _end(daemon: subprocess.Popen[bytes], mounted: str) -> None:
    daemon.terminate()
    daemon.wait()
    _unmount(mounted)


def _unmount(folder: str) -> None:
    subprocess.run(["umount", folder], capture_output=True, check=False)  # by itself it stays mounted


def _on(backend: Docker, argv: list[str], start: str) -> Callable[[], float]:
    """Return a call that returns its milliseconds. It waits until a run starts as ``start`` says."""
    runner = stockade.Runner(backend=backend)

    def call() -> float:
        for _ in range(_TRIES):
            time.sleep(_READY_SECONDS if start == "prewarmed" else 0)
            begin = time.perf_counter()
            result = runner.run_command(argv).check()
            took = (time.perf_counter() - begin) * 1e3
            if result.start == start:
                return took
        raise AssertionError(f"no run on {backend.name} was {start}")

    return call


def _timed(call: Callable[[], None]) -> Callable[[], float]:
    def timed() -> float:
        begin = time.perf_counter()
        call()
        return (time.perf_counter() - begin) * 1e3

    return timed


def contenders() -> dict[str, Callable[[], float]]:
    """Return a call for each way to run Python here."""
    from bench.backends import crun_by_hand, on
    from bench.cold import spawn

    argv = [str(Path(PYTHON).resolve()), "-I", "-S", "-c", "pass"]
    found = {"no sandbox": _timed(spawn(argv))}
    for kind, make in ((Docker, _dockerd), (Podman, _podman_service)):
        try:
            client, socket = make()
        except Missing as missing:
            print(f"{kind.name}: {missing}", file=sys.stderr)
            continue
        cold, ahead = (kind(image=_IMAGE, socket=socket, prewarm=most) for most in (0, 1))
        found[f"{kind.name}, by hand"] = _timed(spawn([*_by_hand(client), *argv[1:]]))
        found[f"{kind.name}, cold"] = _on(cold, argv, "cold")
        found[f"{kind.name}, prewarmed"] = _on(ahead, argv, "prewarmed")
    if shutil.which("crun"):
        found["oci, by hand"] = _timed(crun_by_hand(argv))
        found["oci, a run"] = _timed(on("oci", argv))
    return found


def main() -> None:
    """Measure and print."""
    from bench.cold import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--smoke", action="store_true", help="two runs, to see that it works")
    options = parser.parse_args()
    runs = 2 if options.smoke else options.runs
    calls, load = contenders(), os.getloadavg()[0]
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(runs):
        for name, call in calls.items():
            times[name].append(call())
    warden_process.current().stop()
    time.sleep(_READY_SECONDS)  # the engine client removes the container that still waits, before its engine ends
    least = statistics.median(times["no sandbox"])
    print(f"{machine()}; {runs} runs; load {load:.1f} before and {os.getloadavg()[0]:.1f} after\n")
    print(f"{'ms':24} {'median':>8} {'least':>8} {'above no sandbox':>17}")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:24} {median:8.1f} {min(values):8.1f} {median - least:17.1f}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "load": load, "times_ms": times}, indent=1) + "\n")


if __name__ == "__main__":
    main()
