"""Services of podman that ignore limits, podman's own mounts in a container, and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import docker_engine, host, podman_engine
from tests.support.docker_engine import IMAGE, Daemon

import stockade
from stockade.backends.docker.backend import Docker
from stockade.backends.podman.backend import Podman
from stockade.linux.engine_api import ask

pytestmark = [pytest.mark.needs("podman"), pytest.mark.alone]
SCRIPT = f"""
import sys, stockade
from stockade.backends.podman.backend import Podman
stockade.run_command(["sleep", "62.5"], backend=Podman(image={IMAGE!r}, socket=sys.argv[1]))
"""


@pytest.fixture
def nothing_left(podman_service: Daemon) -> Iterator[None]:
    """Check that a test leaves no container, and no process or folder on the host."""
    with host.as_before():
        yield
        host.stop_warden()
        assert host.eventually(lambda: not podman_service.containers(), 20), podman_service.containers()


def guests() -> list[int]:
    """Return the processes of the host that run the guest's command, in whatever container."""
    return [
        int(each.name) for each in Path("/proc").glob("[0-9]*") if host.read(f"{each}/cmdline") == "sleep\x0062.5\0"
    ]


@pytest.mark.usefixtures("nothing_left")
def test_kill_of_caller_and_warden_leaves_no_container(podman_service: Daemon) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT, podman_service.socket]) as caller:
        try:
            assert host.eventually(lambda: bool(guests()), 30)
            for pid in (caller.pid, host.descendants(caller.pid)[0]):
                os.kill(pid, signal.SIGKILL)
            assert host.eventually(lambda: not (guests() or podman_service.containers()), 30)
        finally:
            caller.kill()


@pytest.mark.usefixtures("nothing_left")
def test_no_folder_of_podmans_own_is_writable(podman_service: Daemon) -> None:
    """Docker's request for a read-only root brings a writable /run and /var/tmp of any size, as the control shows."""
    script = "for folder in /run /var/tmp; do touch $folder/x; done"
    backend = Podman(image=IMAGE, socket=podman_service.socket, prewarm=0)
    held = stockade.run_command(["sh", "-c", script], backend=backend)
    assert held.stderr.count("cannot touch") == 2
    command = ["sh", "-c", f"{script}; exec sleep 62.5"]
    with podman_engine.bare_container(podman_service, command, {"ReadonlyRootfs": True}):
        assert host.eventually(lambda: bool(guests()), 30)
        root = Path(f"/proc/{guests()[0]}/root")
        assert (root / "run/x").exists()
        assert (root / "var/tmp/x").exists()


def test_missing_image_is_named_with_podmans_remedy(podman_service: Daemon) -> None:
    with pytest.raises(stockade.JobError, match=r"'nowhere:7' is not in .*images pull --backend podman nowhere:7"):
        stockade.run("1", backend=Podman(image="nowhere:7", socket=podman_service.socket))


def test_docker_backend_refuses_podmans_socket(podman_service: Daemon) -> None:
    with pytest.raises(stockade.BackendUnavailable, match=r"is podman, whose requests differ; use backend='podman'"):
        stockade.run("1", backend=Docker(image=IMAGE, socket=podman_service.socket))


@pytest.mark.needs("newuidmap")
def test_rootless_service_that_ignores_limits_is_refused() -> None:
    """On cgroup v1, a rootless podman starts a program without its limits: the control passes one fourfold."""
    with tempfile.TemporaryDirectory(prefix="engine-", dir="/dev/shm", ignore_cleanup_errors=True) as folder:
        service = podman_engine.RootlessService(Path(folder))
        service.start()
        try:
            service.load(docker_engine.archive("/bin/sh", "/usr/bin/dd"))
            if ask(service.socket, "GET", "/info")["CgroupVersion"] == "1":
                greedy = ["dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1"]
                limits = {"Memory": 64 << 20, "MemorySwap": 64 << 20}
                with podman_engine.bare_container(service, greedy, limits) as state:
                    assert host.eventually(lambda: not state()["Running"], 30)
                    assert state()["ExitCode"] == 0
            with pytest.raises(
                stockade.BackendUnavailable, match=r"ignores every limit.*; use podman as root, boot"
            ) as e:
                stockade.plan(backend=Podman(image=IMAGE, socket=service.socket))
            assert service.socket in str(e.value)
        finally:
            service.stop()
            service.clean_up()
