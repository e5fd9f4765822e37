"""The podman backend: the docker backend over podman's service, with what podman does otherwise."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stockade.backends.docker.backend import DENIED, Docker
from stockade.backends.podman import engine, request

if TYPE_CHECKING:
    from stockade.backends.docker.engine import ContainerEngine, LocalImage
    from stockade.core.launch import ContainerOrder
    from stockade.planning.plan import Plan
    from stockade.runs.job import Command, Job


@dataclass(frozen=True)
class Podman(Docker):
    """Runs guests in containers of podman.

    ``image`` names a local image by tag or digest. ``socket`` is the path of the service's socket; if empty, that of
    ``CONTAINER_HOST``, of the user's own service, or of the system's. ``runtime`` is the one that the service uses: the
    backend refuses a service with another. ``security_opt`` holds options such as ``"apparmor=NAME"``. ``prewarm`` and
    ``idle_seconds`` are those of ``Docker``.
    """

    name = "podman"
    _pulling = "stockade images pull --backend podman"
    _runtime_remedy = "name it to the service (podman --runtime NAME system service), which has one for all containers"

    def order(self, plan: Plan, job: Job, command: Command, *, image: LocalImage, socket: str) -> ContainerOrder:
        """Return the order for the container, in the words of podman."""
        order = super().order(plan, job, command, image=image, socket=socket)
        return request.adapted(order, resource.getrlimit(resource.RLIMIT_NPROC)[1])

    def _engine(self) -> ContainerEngine:
        return engine.look(self.socket or engine.default_socket())

    def _remedy(self, found: ContainerEngine) -> str:
        if DENIED in found.trouble:
            return (
                "run as root, use your own service (systemctl --user start podman.socket), or the native backend, "
                "which needs neither"
            )
        return (
            "start its service (systemctl start podman.socket; as an ordinary user systemctl --user start "
            "podman.socket; to install it: apt install podman), or set CONTAINER_HOST"
        )
