"""The native backend: namespaces, a new root, control groups and resource limits, directly from the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from stockade.backends.base import Availability
from stockade.backends.native import warm
from stockade.backends.native.capabilities import TRAITS, capabilities
from stockade.backends.native.namespaces import way_to_open, why_closed
from stockade.backends.native.workspace import (
    FILE,
    OVERLAY_INODES,
    PROGRAMS,
    bound,
    check_workspace,
    pages,
    shows_through_overlay,
)
from stockade.backends.shared import proxy
from stockade.backends.shared.guest_environment import (
    DEVICES,
    HOST_NAME,
    MOST_TERMINALS,
    MOUNT_TARGETS,
    TERMINALS,
    WORKSPACE,
    check_paths,
    collect_steps,
    environment,
    etc_files,
    program_folders,
)
from stockade.backends.shared.limits import LOOSE, filter_steps, filters_syscalls, groups, rlimits, watch
from stockade.core.dataclass import dataclass
from stockade.core.launch import Groups, Launch, Watch, encode_steps
from stockade.languages.base import JOB_FOLDER
from stockade.linux.landlock import Ruleset
from stockade.planning import syscall_filter
from stockade.planning.facts import HostFacts
from stockade.planning.plan import Plan
from stockade.policy.guarantees import Enforcement, Guarantee, Isolation
from stockade.policy.model import Policy
from stockade.runs.job import Command, Job, Template

if TYPE_CHECKING:
    from stockade.core.launch import Step

_INODE_BYTES = 4096  # the scratch space has one inode for each page, because a file needs both
_SEALED_ROOT = 1 << 30  # only the sandbox itself writes there
_ROOT_FILES = 8 * 4096  # the files that _files adds
_ROOT_INODES = 8192


class Native:
    """Runs guests with the kernel's own facilities, as root and as an ordinary user."""

    name = "native"
    isolation = Isolation.NAMESPACES
    traits = TRAITS

    def availability(self, facts: HostFacts) -> Availability:
        """Return whether this host allows namespaces."""
        if facts.namespaces:
            return Availability(usable=True)
        return Availability(usable=False, reason=why_closed(facts), remedy=way_to_open(facts))

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:  # noqa: ARG002
        """Return the enforcement of each guarantee on this host."""
        return capabilities(facts)

    def shows_through_overlay(self, plan: Plan, folder: str) -> bool:
        """Return whether a job's ``folder`` of packages is shown so that the guest reaches no socket in it."""
        return shows_through_overlay(plan, folder)

    def repeats(self, plan: Plan, job: Job) -> bool:
        """Return whether the launch of a job that differs from ``job`` only in its source differs only in that.

        This needs a launch that looks up nothing on the host and whose space does not depend on the source.
        """
        policy, files = plan.policy, plan.policy.filesystem
        shows_none = files.workspace == "empty" and not (files.read or files.write or job.inputs or job.packages)
        return shows_none and policy.security.read_only_root and not policy.environment.inherit

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch. It holds no resources: the warden owns everything that a run needs."""
        command = make_command(JOB_FOLDER)
        check_paths(plan.policy, plan.facts, command.packages)
        check_workspace(plan)
        yield launch(plan, job, command)


def launch(plan: Plan, job: Job, command: Command) -> Launch:
    """Return the launch of ``command`` under ``plan``: a pure function."""
    policy, facts = plan.policy, plan.facts
    own = 0 if policy.security.read_only_root else sum(map(pages, command.all_files.values()))
    names = (*job.files, *job.inputs)
    extra = (sum(map(pages, job.files.values())), sum(name.count("/") + 1 for name in names))
    is_bound = policy.filesystem.workspace != "empty"
    sealed = not is_bound and policy.filesystem.way == "read"
    stays_open = bool(job.inputs) or is_bound or sealed
    variables = environment(policy, job, command)
    needs = _Needs(command.readable, command.packages, command.agent, command.own_tasks, extra)
    common = _common_parts(plan, needs, own, stays_open)
    kept_warm, cold = _warm(plan, job, command, needs, variables)
    workspace = _workspace(policy)
    file_steps = [
        ("file", f"{workspace}/{name}", content, job.mode_of(name), True) for name, content in job.files.items()
    ]
    inputs = [("bind", str((Path.cwd() / name).resolve()), f"{workspace}/{name}", FILE) for name in job.inputs]
    return Launch(
        argv=command.argv,
        environment=variables,
        base=common.base,
        steps=(
            *(
                (*bound(plan, command.readable, command.packages, job), *collect_steps(policy, job, workspace))
                if is_bound
                else ()
            ),
            *inputs,
            *([*file_steps, ("protect", workspace, [""])] if sealed else ()),
            *common.closing,
            *_job_files(command.files.items()),
            *(() if sealed else file_steps),
            *(() if is_bound else collect_steps(policy, job, workspace)),
            common.limits,
        ),
        groups=common.groups,
        watch=common.watch,
        own_network=policy.network != "host",
        host_uid=policy.security.host_uid if facts.privileged else None,
        errnos=common.errnos,
        channel=command.channel,
        proxy=proxy.order(plan),
        warm=kept_warm,
        cold=cold,
        eager=job.warm is True or bool(job.preload),
    )


def _warm(plan: Plan, job: Job, command: Command, needs: _Needs, variables: Mapping[str, str]) -> tuple[bytes, str]:
    """Return the encoded zygote for the job, or an empty one and the reason why it must start cold."""
    if job.source is None:
        return b"", ""
    obstacle = warm.obstacle(plan, job, command.readable, command.packages)
    if command.template is None and not obstacle:
        obstacle = f"this interpreter of {job.language} cannot be kept warm"
    if obstacle or command.template is None:
        return b"", obstacle
    if job.environment:
        variables = environment(plan.policy, replace(job, environment={}), command)
    return _kept_warm(plan, needs, command.template, tuple(variables.items())), ""


@lru_cache(maxsize=64)
def _kept_warm(plan: Plan, needs: _Needs, template: Template, variables: tuple[tuple[str, str], ...]) -> bytes:
    """Return the encoded zygote for runs under ``plan``: the same for every job of a kind.

    Jobs whose files take different space in the workspace are of different kinds, so that the bound on what their
    guests write stays exact.
    """
    policy = plan.policy
    stack = {name: figure for name, figure in rlimits(policy, plan.facts).items() if name == "stack"}
    return warm.warm(
        template,
        dict(variables),
        root=(_root(policy, 0), *_system(plan.facts, needs.readable)),
        shown=(*bound(plan, needs.readable, needs.packages, None), *_files(policy)),
        network=_network(policy),
        scratch=_writable(policy, *needs.extra),
        again=warm.below_mount_targets(plan, needs.readable, needs.packages),
        sealed=_from_identity(plan),
        limits=("limits", stack),
    ).encode()


@dataclass(frozen=True)
class _Needs:
    """The needs of a command in its sandbox, as language and job state them."""

    readable: tuple[str, ...]
    packages: tuple[str, ...]
    agent: tuple[tuple[str, bytes], ...]
    own_tasks: int
    extra: tuple[int, int]
    """Bytes and inodes that the job's files take in the workspace."""


@dataclass(frozen=True)
class _CommonParts:
    """The parts of a launch that are the same for every job of a kind under a plan."""

    base: bytes
    closing: tuple[Step, ...]
    limits: Step
    groups: Groups
    watch: Watch
    errnos: dict[int, int]


@lru_cache(maxsize=64)
def _common_parts(plan: Plan, needs: _Needs, own: int, stays_open: bool) -> _CommonParts:
    """Return the parts that only ``plan`` and the language decide.

    ``own`` is the number of bytes that the sandbox's own files take of a writable root. ``stays_open``: the job's own
    steps still need paths of the host, so the closing steps come after them.
    """
    policy, facts = plan.policy, plan.facts
    common = (
        ("cgroup_namespace",),
        _root(policy, own + needs.extra[0]),
        *_system(facts, needs.readable),
        ("proc",),
        ("hostname", HOST_NAME),
        ("terminals", TERMINALS, MOST_TERMINALS),
        *_network(policy),
        *_writable(policy, *needs.extra),
        *(bound(plan, needs.readable, needs.packages, None) if policy.filesystem.workspace == "empty" else ()),
        *_files(policy),
    )
    closing = (
        ("leave_host",),
        ("job_folder", JOB_FOLDER),
        ("seal_root", policy.security.read_only_root),
        *_from_identity(plan),
        *_job_files(needs.agent),
    )
    return _CommonParts(
        base=encode_steps(common if stays_open else (*common, *closing)),
        closing=closing if stays_open else (),
        limits=("limits", _limits(policy, facts, needs.own_tasks)),
        groups=groups(policy, needs.own_tasks - 1),
        watch=watch(policy, facts, own_tasks=needs.own_tasks, own_network=True),
        errnos=syscall_filter.errnos(plan) if filters_syscalls(facts) else {},
    )


def _job_files(files: Iterable[tuple[str, bytes]]) -> list[Step]:
    return [("job_file", path.removeprefix(JOB_FOLDER + "/"), content) for path, content in files]


def _network(policy: Policy) -> list[Step]:
    """Return the steps that set up the guest's own network."""
    return [
        *([("loopback",)] if policy.network != "host" else []),
        *([("proxy_listener", proxy.PORT)] if policy.way_out is not None else []),
        *([("low_ports",)] if "CAP_NET_BIND_SERVICE" in policy.security.capabilities else []),
    ]


def _from_identity(plan: Plan) -> tuple[Step, ...]:
    """Return the steps that set the guest's folder and identity, and the protections behind the mounts."""
    policy = plan.policy
    return (
        ("chdir", _workspace(policy)),
        ("identity", policy.security.uid, policy.security.uid),
        *_landlock(policy, plan.facts),
        *filter_steps(plan),
    )


def _limits(policy: Policy, facts: HostFacts, own_tasks: int) -> dict[str, tuple[int, int]]:
    """Return the resource limits. If a group counts tasks, the group must refuse them: only it leaves a counter."""
    limits = rlimits(policy, facts, own_tasks)
    if "nproc" in limits and "pids" in facts.cgroups:
        limits["nproc"] = (limits["nproc"][0] + LOOSE, limits["nproc"][0] + LOOSE)
    return limits


def _workspace(policy: Policy) -> str:
    return WORKSPACE if policy.filesystem.workspace == "empty" else policy.filesystem.workspace


def _root(policy: Policy, own: int) -> Step:
    """Return the step that makes the root. A root that the policy makes writable also bounds the disk."""
    if policy.security.read_only_root:
        return ("root", _SEALED_ROOT, _ROOT_INODES)
    size, inodes = _disk(policy)
    return ("root", size + own + _ROOT_FILES, inodes + _ROOT_INODES)


def _writable(policy: Policy, input_bytes: int, names: int) -> list[Step]:
    """Return the steps that make the writable folders. One tmpfs bounds them all: the scratch, or a writable root."""
    mount_targets = [("/tmp", 0o1777), ("/dev/shm", 0o1777)]
    if policy.filesystem.workspace == "empty":
        mount_targets.append((WORKSPACE, 0o755))
    if not policy.security.read_only_root:
        return [("folder", path, mode, True) for path, mode in mount_targets]
    size, inodes = _disk(policy)
    files = policy.filesystem
    shown = OVERLAY_INODES + sum(path.count("/") for path in (*files.read, *files.write, files.workspace))
    return [("scratch", size + input_bytes, inodes + len(mount_targets) + 1 + names + shown, mount_targets)]


def _disk(policy: Policy) -> tuple[int, int]:
    """Return the bytes and inodes that the guest may use."""
    figure = policy.limits.figure(Guarantee.DISK)
    size = int(figure) if figure is not None else 1 << 50
    return size, max(64, min(size // _INODE_BYTES, 1 << 20))


def _system(facts: HostFacts, readable: tuple[str, ...]) -> list[Step]:
    """Return the steps that show the system's programs, the interpreter's folders and single files of /etc."""
    steps: list[Step] = []
    for path, target in facts.system:
        steps.append(("link", path, target) if target else ("bind", path, path, PROGRAMS))
    steps += [("bind", folder, folder, PROGRAMS) for folder in program_folders(facts, readable)]
    steps += [("bind", f"/dev/{name}", f"/dev/{name}", ("ro", "nosuid")) for name in DEVICES]
    steps += [
        ("link", "/dev/fd", "/proc/self/fd"),
        ("folder", TERMINALS, 0o755, False),
        ("link", "/dev/ptmx", "pts/ptmx"),
        ("link", "/dev/stdin", "/proc/self/fd/0"),
        ("link", "/dev/stdout", "/proc/self/fd/1"),
        ("link", "/dev/stderr", "/proc/self/fd/2"),
    ]
    return steps


def _files(policy: Policy) -> list[Step]:
    """Return the steps that create the sandbox's own files of /etc."""
    return [("file", path, content, 0o644, False) for path, content in etc_files(policy).items()]


def _landlock(policy: Policy, facts: HostFacts) -> list[Step]:
    """Return the Landlock step, a second protection behind the mounts.

    Its scopes also close abstract sockets if the network is the host's.
    """
    if not facts.landlock:
        return []
    files = policy.filesystem
    writable = [JOB_FOLDER, *MOUNT_TARGETS, *files.writable, *(f"/dev/{name}" for name in DEVICES)]
    if files.workspace != "empty":
        writable.remove(WORKSPACE)
    if files.way in ("overlay", "copy"):
        writable.append(files.workspace)
    if not policy.security.read_only_root:
        writable = ["/", JOB_FOLDER]
    ruleset = Ruleset(
        read=["/"], execute=["/"], read_write=writable, terminals=[TERMINALS], tcp_bind="all", tcp_connect="all"
    )
    return [("landlock", ruleset.to_json())]
