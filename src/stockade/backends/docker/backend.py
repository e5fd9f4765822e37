"""The docker backend: a daemon makes a container for each run, asked over its own socket, without docker's program.

The guest does not descend from the warden. The engine holds its limits; the warden reads the counters of its control
groups, keeps the clock and the bound on output, and ends it. Its streams are pipes of the warden's in a mounted folder,
so no output passes through the engine or onto a disk. The podman backend derives from this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from stockade.backends.base import Availability, Traits, unusable
from stockade.backends.docker import container, engine
from stockade.backends.docker.capabilities import capabilities
from stockade.backends.shared.guest_environment import check_nesting, check_paths
from stockade.backends.shared.limits import groups, watch
from stockade.core.dataclass import dataclass
from stockade.core.errors import JobError
from stockade.core.launch import Launch
from stockade.languages.base import JOB_FOLDER
from stockade.policy.guarantees import Enforcement, Guarantee, Isolation

if TYPE_CHECKING:
    from stockade.core.launch import ContainerOrder
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job

_SETUP_SECONDS = 60.0
"""A daemon that is busy with others takes its time, and a low limit on the CPU slows the start down."""
_LEAST_MEMORY = 6 << 20  # docker refuses less
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DENIED = "this user may not connect"
_MOST_WAITING, _LONGEST_WAIT = 100, 24 * 3600.0


@dataclass(frozen=True)
class Docker:
    """Runs guests in containers of a docker engine.

    ``image`` names a local image by tag or digest. ``socket`` is the path of the engine's socket; if empty, that of
    ``DOCKER_HOST``, of the user's own engine, or of the system's. ``runtime`` is one of the engine's runtimes, and
    ``security_opt`` holds options such as ``"apparmor=NAME"`` and ``"label=type:NAME"``. After a run, a container waits
    for the next one of its kind: at most ``prewarm`` of them, each for at most ``idle_seconds``.
    """

    image: str = ""
    socket: str = ""
    runtime: str = ""
    security_opt: tuple[str, ...] = ()
    prewarm: int = 4
    idle_seconds: float = 60.0

    name = "docker"
    _pulling = "stockade images pull"
    _runtime_remedy = "add it to the engine's settings (dockerd --add-runtime), or name another"
    isolation = Isolation.NAMESPACES
    traits = Traits(
        brings_programs=True,
        no_capabilities_because="docker gives them to root in a container only, and a guest never is; use native",
        start="the first run of a kind starts its container; then one waits for the next run, unless the policy or the "
        "job shows paths of the host",
    )

    def __post_init__(self) -> None:
        """Raise ``JobError`` for a number of containers or of seconds that cannot be."""
        if type(self.prewarm) is not int or not 0 <= self.prewarm <= _MOST_WAITING:
            raise JobError(f"prewarm = {self.prewarm!r}: the containers that may wait, from 0 to {_MOST_WAITING}")
        if not 0 < self.idle_seconds <= _LONGEST_WAIT:
            raise JobError(f"idle_seconds = {self.idle_seconds!r}: above 0, and at most {_LONGEST_WAIT}")

    def with_image(self, image: str) -> Docker:
        """Return the backend for another image."""
        return replace(self, image=image)

    def availability(self, facts: HostFacts) -> Availability:  # noqa: ARG002
        """Return whether the engine answers, has the runtime, and an image is named."""
        found = self._engine()
        if found.trouble:
            return unusable(found.trouble, found.remedy or self._remedy(found))
        if self.runtime and self.runtime not in found.runtimes:
            known = ", ".join(found.runtimes) or "none"
            return unusable(
                f"the engine at {found.socket} has no runtime {self.runtime!r}; it has: {known}",
                self._runtime_remedy,
            )
        if not self.image:
            return unusable(
                f"{self.name} {found.version} answers at {found.socket}, and a container needs an image",
                "name one: image='python:3.12-slim', or --image on the command line",
            )
        return Availability(usable=True)

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:  # noqa: ARG002
        """Return the enforcement of each guarantee by this engine."""
        return capabilities(facts, self._engine(), self.security_opt)

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch. It holds no resources: the warden makes the run's folder and the container."""
        if not self.image:
            raise JobError(f"image: the {self.name} backend needs one; name a local image: image='python:3.12-slim'")
        _check(self.name, plan, job)
        command = make_command(JOB_FOLDER)
        check_paths(plan.policy, plan.facts, command.packages)
        check_nesting(plan.policy, self.name, command.packages)
        found = self._engine()
        image = engine.resolve(found.socket, self.image, self._pulling)
        yield launch(self, plan, job, command, image=image, found=found)

    def order(self, plan: Plan, job: Job, command: Command, *, image: engine.LocalImage, socket: str) -> ContainerOrder:
        """Return the order for the container, in the words of this engine."""
        return container.order(self, plan, job, command, image=image, socket=socket)

    def _engine(self) -> engine.ContainerEngine:
        return engine.look(self.socket or engine.default_socket())

    def _remedy(self, found: engine.ContainerEngine) -> str:
        if DENIED in found.trouble:
            return (
                "run as root or as a member of the socket's group, which is as good as root (usermod -aG docker USER), "
                "use a rootless engine, or the native backend, which needs neither"
            )
        if engine.named_socket("DOCKER_HOST") == found.socket:
            return "correct DOCKER_HOST, or start the engine"
        return "start the engine (systemctl start docker; to install it: apt install docker.io), or set DOCKER_HOST"


def launch(
    backend: Docker, plan: Plan, job: Job, command: Command, *, image: engine.LocalImage, found: engine.ContainerEngine
) -> Launch:
    """Return the launch of ``command`` in a container of ``image``."""
    policy, facts = plan.policy, plan.facts
    for name in container.variables(policy, job, command):
        if not _VARIABLE.fullmatch(name):
            raise JobError(
                f"environment: {name!r}: the first process in a container is a shell, which drops variables with such "
                "names; use letters, digits and underscores, or the native backend"
            )
    try:
        order = backend.order(plan, job, command, image=image, socket=found.socket)
    except UnicodeEncodeError as error:
        raise JobError(
            f"{error.object!r:.80}: the {backend.name} backend passes arguments, variables and paths as text, which "
            "holds no bytes that are not UTF-8; rename it, or use the native backend"
        ) from None
    watched = watch(policy, facts, 0, command.own_tasks, own_network=True)
    return Launch(
        argv=command.argv,
        environment={},
        steps=(),
        groups=groups(policy, command.own_tasks - 1),
        watch=watched.adding(setup_seconds=_SETUP_SECONDS, sampled_memory=None),
        channel=command.channel,
        container=order,
    )


def _check(name: str, plan: Plan, job: Job) -> None:
    """Refuse what the engine cannot do, or would ignore."""
    security, limits = plan.policy.security, plan.policy.limits
    memory = limits.figure(Guarantee.MEMORY)
    for field, is_wanted, reason in (
        ("security.uid=0", security.uid == 0, "root in a container is root on the host; choose another uid"),
        ("security.host_uid", security.host_uid is not None, "the guest's uid on the host is security.uid"),
        ("security.read_only_root", not security.read_only_root, "a writable root would fill the engine's own disk"),
        ("security.explain_denials", security.explain_denials, "the engine does not pass on its filter's listener"),
        (
            "security.syscalls='tight'",
            security.syscalls == "tight",
            "the filter refuses fork, by which the first process starts the guest",
        ),
        (
            "limits.memory",
            memory is not None and memory < _LEAST_MEMORY,
            f"an engine accepts no limit below {_LEAST_MEMORY >> 20} MiB",
        ),
        ("packages", job.packages is not None, "programs and packages come from the image; install them there"),
        ("requirements", bool(job.requirements), "programs and packages come from the image; install them there"),
    ):
        if is_wanted:
            raise JobError(f"{field}: the {name} backend does not support it: {reason}; or use the native backend")
