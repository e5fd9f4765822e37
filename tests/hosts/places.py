"""Kinds of host on this machine: other users, namespaces that remove a facility, Docker's containers.

Nothing of the machine changes. Facilities are removed in a namespace of their own. The container engine is started
for this alone, and keeps everything in one folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.image import PROJECT, Image, Missing

_USER = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
_PYTHON = "/usr/bin/python3"
_SAMPLE = "tests/hosts/guest/sample.py"
_UNCONFINED = ("--security-opt", "seccomp=unconfined")
_UNCOVERED = ("--security-opt", "systempaths=unconfined")
_DAEMON_SECONDS = 20.0
_CLOSE_NAMESPACES = 'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
_READ_ONLY_GROUPS = (
    "mount --make-rprivate /; grep -E ' - cgroup2? ' /proc/self/mountinfo | cut -d' ' -f5 | "
    'while read -r place; do mount -o remount,bind,ro "$place"; done; exec "$@"'
)
# The caller's own groups of cgroup v1, given to the user as ``stockade doctor`` says, and removed afterwards.
_GIVEN_GROUPS = """
made=
while IFS=: read -r _ names path; do
    case $names in memory|pids|cpu|cpuacct|cpu,cpuacct) ;; *) continue ;; esac
    mount=$(awk -v n=",$names" '$0 ~ " - cgroup " && ("," $NF) ~ (n "$") {print $5; exit}' /proc/self/mountinfo)
    group=${mount}${path%/}
    install -d -o 65534 "$group/sandboxes-65534"
    made="$made $group"
done </proc/self/cgroup
for group in $made; do echo $$ >"$group/sandboxes-65534/cgroup.procs"; done
status=0
"$@" || status=$?
for group in $made; do echo $$ >"$group/cgroup.procs"; rmdir "$group/sandboxes-65534"; done
exit $status
"""


@dataclass(frozen=True)
class RunSlot:
    """A kind of host, and the way to start a command there."""

    name: str
    before: tuple[str, ...] = ()
    docker: tuple[str, ...] | None = None
    """Options of ``docker run``; ``None`` where no container is meant."""
    options: tuple[str, ...] = ()
    """Options of the sample."""
    refused: str = ""
    """Words of the refusal that is right here; empty where a run must work."""


PLACES = (
    RunSlot("this machine, root"),
    RunSlot("this machine, user", before=_USER),
    RunSlot("this machine, user, given groups", before=("sh", "-ec", _GIVEN_GROUPS, "sh", *_USER)),
    RunSlot("groups read-only, root", before=("unshare", "--mount", "sh", "-ec", _READ_ONLY_GROUPS, "sh")),
    RunSlot(
        "namespaces closed, user",
        before=(*_USER, "unshare", "--map-root-user", "sh", "-ec", _CLOSE_NAMESPACES, "sh"),
        refused="sudo sysctl -w user.max_user_namespaces=15000",
    ),
    RunSlot("Docker, root", docker=(), refused="a system-call filter is around this program"),
    RunSlot("Docker, user", docker=("--user", "65534"), refused="a system-call filter is around this program"),
    RunSlot(
        "Docker, user, seccomp=unconfined",
        docker=("--user", "65534", *_UNCONFINED),
        refused="no fresh /proc can be mounted",
    ),
    RunSlot(
        "Docker, root, seccomp and systempaths=unconfined",
        docker=(*_UNCONFINED, *_UNCOVERED),
        refused="the guest would be the host's root",
    ),
    RunSlot("Docker, user, seccomp and systempaths=unconfined", docker=("--user", "65534", *_UNCONFINED, *_UNCOVERED)),
    RunSlot(
        "Docker, root, seccomp=unconfined, SYS_ADMIN and NET_ADMIN added",
        docker=(*_UNCONFINED, "--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN"),
    ),
    RunSlot("no Landlock, simulated, root", options=("--without", "landlock")),
    RunSlot("no seccomp, simulated, root", options=("--without", "seccomp"), refused="accept={'syscalls': 'absent'}"),
)


def unpack(built: Image, folder: Path) -> Path:
    """Unpack the image's root into ``folder``: Docker uses all of it, and this module its Python packages."""
    if os.geteuid() != 0:
        raise Missing("other users and containers are started by root")
    root = folder / "root"
    root.mkdir(parents=True)
    shutil.copytree(PROJECT / "src", folder / "project/src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROJECT / "tests", folder / "project/tests", ignore=shutil.ignore_patterns("__pycache__"))
    folder.chmod(0o755)
    dump = ["debugfs", "-R", f"rdump / {root}", str(built.root)]
    subprocess.run(dump, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return root


def command(place: RunSlot, folder: Path) -> list[str]:
    """Return the command that runs the sample at ``place``."""
    if place.docker is None:
        paths = f"{folder}/project/src:{folder}/project:{folder}/root/opt/python"
        python = ["env", "-i", f"PYTHONPATH={paths}", "PATH=/usr/bin:/bin", "LANG=C.UTF-8", _PYTHON, "-B"]
        return [*place.before, *python, f"{folder}/project/{_SAMPLE}", *place.options]
    run = [*_client(folder), "run", "--rm", "--network", "none", "-v", f"{folder}/project:/project:ro"]
    run += ["-e", "PYTHONPATH=/project/src:/project:/opt/python", *place.docker, "hosts"]
    return [*run, "python3", "-B", f"/project/{_SAMPLE}"]


@contextmanager
def docker(folder: Path) -> Iterator[str]:
    """Run a Docker daemon that keeps everything below ``folder``, with the image ``hosts``; yield what is missing."""
    if not shutil.which("dockerd"):
        yield "not installed: docker.io (as root: apt-get install docker.io)"
        return
    kept = folder / "docker"
    kept.mkdir()
    daemon = _daemon(kept)
    try:
        _wait(folder, daemon, kept / "log")
        with subprocess.Popen(["tar", "-C", str(folder / "root"), "-cf", "-", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(
                [*_client(folder), "import", "-", "hosts"], stdin=tar.stdout, check=True, capture_output=True
            )
        yield ""
    finally:
        daemon.terminate()
        daemon.wait()
        for group in Path("/sys/fs/cgroup").glob(f"**/{kept.parent.name}"):
            group.rmdir()


def _daemon(kept: Path) -> subprocess.Popen[bytes]:
    off = [f"--{name}=false" for name in ("iptables", "ip6tables", "ip-forward", "ip-masq")]
    where = ["-H", f"unix://{kept}/sock", "--data-root", f"{kept}/data", "--exec-root", f"{kept}/exec"]
    call = ["dockerd", "--bridge=none", *off, "--exec-opt", "native.cgroupdriver=cgroupfs", *where]
    call += ["--cgroup-parent", kept.parent.name, "--pidfile"]
    with (kept / "log").open("wb") as log:
        return subprocess.Popen([*call, f"{kept}/pid"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _client(folder: Path) -> list[str]:
    return ["docker", "-H", f"unix://{folder}/docker/sock"]


def _wait(folder: Path, daemon: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _DAEMON_SECONDS
    while subprocess.run([*_client(folder), "version"], capture_output=True).returncode:
        if daemon.poll() is not None or time.monotonic() > end:
            raise Missing(f"dockerd did not start\n{log.read_text()[-2000:]}")
        time.sleep(0.1)
