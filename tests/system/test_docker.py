"""Kills around a container of the docker backend, engines that fail, and what the engine must never keep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import host
from tests.support.docker_engine import IMAGE, Daemon

import stockade
from stockade.backends.docker import engine
from stockade.backends.docker.backend import Docker
from stockade.client import warden_process
from stockade.linux.engine_api import ask

pytestmark = [pytest.mark.needs("dockerd"), pytest.mark.alone]
SCRIPT = f"""
import sys, stockade
from stockade.backends.docker.backend import Docker
stockade.run_command(["sleep", "61.5"], backend=Docker(image={IMAGE!r}, socket=sys.argv[1]))
"""


@pytest.fixture
def docker(docker_daemon: Daemon) -> Docker:
    return Docker(image=IMAGE, socket=docker_daemon.socket, prewarm=0)


@pytest.fixture(autouse=True)
def nothing_left(docker_daemon: Daemon) -> Iterator[None]:
    """Check that each test leaves no container, and no process, folder or group on the host."""
    with host.as_before():
        yield
        host.stop_warden()
        assert host.eventually(lambda: not docker_daemon.containers(), 20), docker_daemon.containers()


def guests() -> list[int]:
    """Return the processes of the host that run the guest's command, in whatever container."""
    return [
        int(each.name) for each in Path("/proc").glob("[0-9]*") if host.read(f"{each}/cmdline") == "sleep\x0061.5\0"
    ]


@pytest.mark.parametrize("victims", [("caller",), ("warden",), ("caller", "warden"), ("engine client",)])
def test_kill_leaves_no_container(victims: tuple[str, ...], docker_daemon: Daemon) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT, docker_daemon.socket]) as caller:
        try:
            assert host.eventually(lambda: bool(guests()), 30)
            tree = host.descendants(caller.pid)
            helper = next(pid for pid in tree if os.getsid(pid) == pid and pid != tree[0])
            pids = {"caller": caller.pid, "warden": tree[0], "engine client": helper}
            for victim in victims:
                os.kill(pids[victim], signal.SIGKILL)
            assert host.eventually(lambda: not (guests() or docker_daemon.containers()), 20)
        finally:
            caller.kill()


def test_killed_with_engine_client_is_swept_by_next_run(docker: Docker, docker_daemon: Daemon) -> None:
    mine = ask(docker.socket, "POST", "/containers/create?name=stockade-not-ours", {"Image": IMAGE, "Cmd": ["true"]})
    with subprocess.Popen([sys.executable, "-c", SCRIPT, docker_daemon.socket]) as caller:
        assert host.eventually(lambda: bool(guests()), 30)
        owners = (caller.pid, *host.descendants(caller.pid))
        for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, or one would notice the end of another
            for pid in owners:
                os.kill(pid, number)
    left = set(docker_daemon.containers()) - {"/stockade-not-ours"}
    assert len(left) == 1
    assert guests(), (
        "nothing ends a container whose three owners are dead at once: the sweep is what this test is about"
    )
    assert stockade.run_command(["true"], backend=docker).ok
    assert host.eventually(lambda: docker_daemon.containers() == ["/stockade-not-ours"], 20), docker_daemon.containers()
    assert not guests()
    ask(docker.socket, "DELETE", f"/containers/{mine['Id']}?force=1")


def test_container_killed_from_outside_is_no_verdict_on_guest(docker: Docker, docker_daemon: Daemon) -> None:
    with stockade.Runner(backend=docker).stream_command(["sleep", "61.5"]) as run:
        assert host.eventually(lambda: bool(guests()), 30)
        (name,) = docker_daemon.containers()
        ask(docker.socket, "POST", f"/containers/{name[1:]}/kill?signal=KILL")
        for _ in run:
            pass
    assert run.result.outcome is stockade.Outcome.SANDBOX_FAILED
    assert "killed from outside" in str(run.result)


def test_image_removed_before_run_is_named(docker: Docker) -> None:
    with pytest.raises(
        stockade.JobError, match=r"'nowhere:7' is not in the engine at .*stockade images pull nowhere:7"
    ):
        stockade.run("1", backend=docker.with_image("nowhere:7"))


def test_image_without_shell_fails_the_sandbox(docker: Docker) -> None:
    ask(docker.socket, "POST", "/images/create?fromSrc=-&repo=empty&tag=1", b"\0" * 10240)
    result = stockade.run("1", backend=docker.with_image("empty:1"))
    assert result.outcome is stockade.Outcome.SANDBOX_FAILED
    assert docker.socket in str(result)
    assert "/bin/sh" in str(result)
    ask(docker.socket, "DELETE", "/images/empty:1")


def test_ordinary_user_is_refused_by_name(docker: Docker) -> None:
    facts = warden_process.host_facts()
    docker.availability(facts)  # all modules are loaded
    engine._asked.cache_clear()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        found = docker.availability(facts)
        os.write(write, f"{found.usable} {found.reason}; {found.remedy}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    said = os.read(read, 4096).decode()
    os.close(read)
    assert said.startswith(f"False {docker.socket}: this user may not connect to it; run as root or as a member of"), (
        said
    )


def test_output_reaches_no_disk_of_the_engine(docker: Docker, docker_daemon: Daemon) -> None:
    with stockade.Runner(backend=docker).stream_command(
        ["sh", "-c", "printf 'word-in-%s\\n' the-output; exec sleep 61.5"]
    ) as run:
        assert host.eventually(lambda: bool(guests()), 30)
        (name,) = docker_daemon.containers()
        found = ask(docker.socket, "GET", f"/containers/{name[1:]}/json")
        assert found["HostConfig"]["LogConfig"]["Type"] == "none"
        assert not found["LogPath"]
        logs = [path for path in docker_daemon.folder.glob(f"data/containers/{found['Id']}/*") if path.is_file()]
        assert logs
        assert not any(b"word-in-the-output" in path.read_bytes() for path in logs)
        run.cancel()
        for _ in run:
            pass
    assert run.result.stdout == "word-in-the-output\n"


def test_container_has_the_engines_own_limits(docker: Docker, docker_daemon: Daemon) -> None:
    limits = {"memory": "96MiB", "soft_memory": "64MiB", "cpu_rate": 0.5, "processes": 40, "swap": 0}
    with stockade.Runner({"limits": limits}, backend=docker).stream_command(["sleep", "61.5"]) as run:
        assert host.eventually(lambda: bool(guests()), 30)
        (name,) = docker_daemon.containers()
        found = ask(docker.socket, "GET", f"/containers/{name[1:]}/json")
        has = found["HostConfig"]
        assert (has["Memory"], has["MemorySwap"], has["MemoryReservation"]) == (96 << 20, 96 << 20, 64 << 20)
        assert (has["NanoCpus"], has["PidsLimit"]) == (500_000_000, 41)
        assert (has["ReadonlyRootfs"], has["CapDrop"], has["NetworkMode"]) == (True, ["ALL"], "none")
        assert "no-new-privileges:true" in has["SecurityOpt"]
        assert {"stockade.token", "stockade.boot", "stockade.owner"} <= set(found["Config"]["Labels"])
        (guest,) = guests()
        status = dict(line.split(":\t", 1) for line in host.read(f"/proc/{guest}/status").splitlines() if ":\t" in line)
        assert (status["CapEff"], status["CapBnd"], status["NoNewPrivs"], status["Seccomp"]) == (
            "0" * 16,
            "0" * 16,
            "1",
            "2",
        )
        run.cancel()
        for _ in run:
            pass


def test_volume_of_image_is_covered(docker: Docker, docker_daemon: Daemon) -> None:
    """A volume of the image would be a writable folder on the engine's disk, past the limit on the disk."""
    made = {"Image": IMAGE, "Cmd": ["mkdir", "-m", "1777", "/data"]}
    ask(
        docker.socket, "POST", "/containers/create?name=stockade-volume", made | {"HostConfig": {"NetworkMode": "none"}}
    )
    ask(docker.socket, "POST", "/containers/stockade-volume/start")
    ask(docker.socket, "POST", "/containers/stockade-volume/wait")
    ask(docker.socket, "POST", "/commit?container=stockade-volume&repo=volume&tag=1", {"Volumes": {"/data": {}}})
    ask(docker.socket, "DELETE", "/containers/stockade-volume?force=1&v=1")
    result = stockade.run_command(["sh", "-c", "echo 1 >/data/x"], backend=docker.with_image("volume:1"))
    assert "Read-only file system" in result.stderr
    host.stop_warden()
    assert host.eventually(lambda: not docker_daemon.containers(), 20), docker_daemon.containers()
    assert not ask(docker.socket, "GET", "/volumes")["Volumes"]
    ask(docker.socket, "DELETE", "/images/volume:1")


def test_guest_cannot_open_a_pipe_again(docker: Docker) -> None:
    result = stockade.run_command(["ls", "-A", "/.stockade"], backend=docker)
    assert (result.exit_code, result.stdout) == (0, "")


def test_daemon_stopped_in_mid_run_fails_the_sandbox(docker: Docker, docker_daemon: Daemon) -> None:
    with stockade.Runner(backend=docker).stream_command(["sleep", "61.5"]) as run:
        assert host.eventually(lambda: bool(guests()), 30)
        docker_daemon.stop()
        try:
            for _ in run:
                pass
            assert run.result.outcome is stockade.Outcome.SANDBOX_FAILED
            assert not guests()
            engine._asked.cache_clear()
            with pytest.raises(stockade.BackendUnavailable, match=r"no engine listens there|no such socket"):
                stockade.run("1", backend=docker)
        finally:
            docker_daemon.start()
