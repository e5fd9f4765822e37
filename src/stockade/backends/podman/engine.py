"""Finds podman's service, and asks what it can hold.

Podman answers docker's requests. Its answer to docker's question for its limits describes the host, though: a rootless
podman on cgroup v1 says that it limits memory, and ignores the limit. So it is asked in its own interface,
https://docs.podman.io/en/v4.3/_static/api.html, which names the controllers that it can use.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stockade.backends.docker import engine
from stockade.backends.docker.engine import ContainerEngine
from stockade.linux.engine_api import EngineError, ask
from stockade.warden.containers.interfaces import PODMAN

OLDEST = (4, 3)
"""The first version that can change the limits of a container."""
_ASK_SECONDS = 5.0
_UPGRADE = "install podman 4.3 or newer, or name its socket in CONTAINER_HOST"
_CONTROLLERS = {"MemoryLimit": "memory", "SwapLimit": "memory", "PidsLimit": "pids", "CpuCfsQuota": "cpu"}


def default_socket() -> str:
    """Return the path of the user's podman socket: of CONTAINER_HOST, of the user's own service, or of the system's."""
    own = engine.own_socket("podman/podman.sock")
    return engine.named_socket("CONTAINER_HOST") or own or "/run/podman/podman.sock"


def look(socket: str) -> ContainerEngine:
    """Return the service behind ``socket``, or why it cannot be used."""
    return engine.look(socket, _asked)


@lru_cache(maxsize=8)
def _asked(socket: str) -> ContainerEngine:
    try:
        info: Any = ask(socket, "GET", f"{PODMAN}/info", seconds=_ASK_SECONDS)
    except EngineError as error:
        if error.status:
            raise EngineError(f"{socket}: the program behind it is not podman 4 or newer", remedy=_UPGRADE) from None
        raise
    host, version = info["host"], str(info["version"]["Version"])
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise EngineError(f"{socket}: podman {version} cannot change the limits of a container", remedy=_UPGRADE)
    security, controllers = host["security"], host["cgroupControllers"] or ()
    if not controllers:
        who = "a rootless podman" if security["rootless"] else "podman"
        raise EngineError(
            f"{socket}: {who} on cgroup {host['cgroupVersion']} without controllers ignores every limit on memory, "
            "processes and CPU",
            remedy="use podman as root, boot the host with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or the "
            "native backend, which holds limits without root",
        )
    return ContainerEngine(
        socket,
        name="podman",
        version=version,
        limits={limit: controller in controllers for limit, controller in _CONTROLLERS.items()},
        runtimes=(str(host["ociRuntime"]["name"]),),
        security=(*(["name=seccomp"] * security["seccompEnabled"]), *(["name=rootless"] * security["rootless"])),
    )
