"""Containers of docker and podman that wait for the next run: each serves one run, and none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support import host
from tests.support.docker_engine import IMAGE, Daemon

import stockade
from stockade.backends.docker.backend import Docker
from stockade.backends.podman.backend import Podman
from stockade.linux.engine_api import EngineError, ask
from stockade.warden.containers import ledger

pytestmark = pytest.mark.alone
ENGINES = {"docker": (Docker, "docker_daemon"), "podman": (Podman, "podman_service")}
LEAVES = "touch /tmp/left /workspace/left /dev/shm/left; sleep 66.5 & exec sleep 63.5"
LOOKS = "ls -A /tmp /workspace /dev/shm; ps -e -o args= | grep 66.[5]; exec sleep 63.5"
SCRIPT = f"""
import sys, time, stockade
from stockade.backends.docker.backend import Docker
from stockade.backends.podman.backend import Podman
backend = dict(docker=Docker, podman=Podman)[sys.argv[1]](image={IMAGE!r}, socket=sys.argv[2])
stockade.run_command(["true"], backend=backend).check()
time.sleep(100)
"""


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.needs("dockerd")),
        pytest.param("podman", marks=pytest.mark.needs("podman")),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def daemon(kind: str, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """Return the engine. Check that a test leaves no container, and no process, folder or group on the host."""
    running: Daemon = request.getfixturevalue(ENGINES[kind][1])
    with host.as_before():
        yield running
        host.stop_warden()
        assert host.eventually(lambda: not running.containers(), 20), running.containers()


def guests() -> list[int]:
    """Return the processes of the host that run the guests' command, in whatever container."""
    return [
        int(each.name) for each in Path("/proc").glob("[0-9]*") if host.read(f"{each}/cmdline") == "sleep\x0063.5\0"
    ]


def waiting(daemon: Daemon) -> dict[str, int]:
    """Return the containers that are ready for a job, with their first processes.

    Their pipes have no names any more, and their first process lives, whatever the engine knows.
    """
    ready = [
        name for name in daemon.containers() if channels(name).exists() and not (channels(name) / "orders").exists()
    ]
    found = {}
    for name in ready:
        try:
            pid = ask(daemon.socket, "GET", f"/containers{name}/json")["State"]["Pid"]
        except EngineError:  # it has just been removed
            continue
        if pid and host.state(pid) not in ("", "Z"):
            found[name] = pid
    return found


def channels(name: str) -> Path:
    """Return the folder with the pipes of the container with this name."""
    return Path(ledger.folder_of(name.removeprefix(f"/{ledger.name_of('')}")), "channels")


def ids(daemon: Daemon) -> dict[str, str]:
    """Return the id of each container by its name."""
    return {name: each["Id"] for each in ask(daemon.socket, "GET", "/containers/json?all=1") for name in each["Names"]}


def test_container_is_made_before_its_run_and_serves_no_other(kind: str, daemon: Daemon) -> None:
    runner = stockade.Runner(backend=ENGINES[kind][0](image=IMAGE, socket=daemon.socket))
    with runner.stream_command(["sh", "-c", LEAVES]) as run:
        assert host.eventually(lambda: bool(guests()), 30)
        (first,) = daemon.containers()
        root = Path(f"/proc/{guests()[0]}/root")
        left = [(root / folder / "left").exists() for folder in ("tmp", "workspace", "dev/shm")]
        assert left == [True, True, True], "control: whoever came next to this container would see the files"
        run.cancel()
        for _ in run:
            pass
    assert run.result.start == "cold"
    assert host.eventually(lambda: bool(waiting(daemon)), 30)
    (second,) = waiting(daemon)
    with ExitStack() as stack:
        runs = [stack.enter_context(runner.stream_command(["sh", "-c", LOOKS])) for _ in range(2)]
        assert host.eventually(lambda: len(guests()) == 2, 30)
        groups = [host.read(f"/proc/{pid}/cgroup") for pid in guests()]
        used = [name for name, number in ids(daemon).items() if any(number in each for each in groups)]
        assert len(used) == 2, "each run has a container of its own"
        assert second in used
        assert first not in used
        for each in runs:
            each.cancel()
            for _ in each:
                pass
    assert sorted(each.result.start for each in runs) == ["cold", "prewarmed"]
    assert {each.result.stdout for each in runs} == {"/dev/shm:\n\n/tmp:\n\n/workspace:\n"}


def test_killed_caller_leaves_no_waiting_container(kind: str, daemon: Daemon) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT, kind, daemon.socket]) as caller:
        try:
            assert host.eventually(lambda: bool(waiting(daemon)), 30)
            os.kill(caller.pid, signal.SIGKILL)
            assert host.eventually(lambda: not daemon.containers(), 20), daemon.containers()
        finally:
            caller.kill()


def test_waiting_container_goes_after_its_idle_time(kind: str, daemon: Daemon) -> None:
    backend = ENGINES[kind][0](image=IMAGE, socket=daemon.socket, prewarm=1, idle_seconds=3)
    assert stockade.run_command(["true"], backend=backend).ok
    assert host.eventually(lambda: bool(waiting(daemon)), 30)
    assert host.eventually(lambda: not daemon.containers(), 30), daemon.containers()


@pytest.mark.needs("dockerd")
def test_run_whose_waiting_container_dies_gets_one_of_its_own(docker_daemon: Daemon) -> None:
    backend = Docker(image=IMAGE, socket=docker_daemon.socket)
    try:
        assert stockade.run_command(["true"], backend=backend).ok
        assert host.eventually(lambda: bool(waiting(docker_daemon)), 30)
        ((name, head),) = waiting(docker_daemon).items()
        os.kill(head, signal.SIGSTOP)  # so it does not take the job that the run gives it
        with stockade.Runner(backend=backend).stream_command(["echo", "1"]) as run:
            assert host.eventually((channels(name) / "command").exists, 30)
            os.kill(head, signal.SIGKILL)
            for _ in run:
                pass
        assert (run.result.stdout, run.result.start) == ("1\n", "cold")
    finally:
        host.stop_warden()
        assert host.eventually(lambda: not docker_daemon.containers(), 20)
