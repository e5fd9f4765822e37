"""Builds the request that creates a run's container: a pure function of plan, job and command, except for paths.

The format is that of the engine's interface, https://docs.docker.com/reference/api/engine/version/v1.41/.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stockade.backends.shared.guest_environment import HOST_NAME, WORKSPACE, Showing, environment, host_paths
from stockade.backends.shared.limits import filters_syscalls, rlimits
from stockade.core.launch import CHANNELS, COMMAND, ContainerOrder
from stockade.core.strict_json import dumps
from stockade.languages.base import JOB_FOLDER
from stockade.planning import syscall_filter
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.backends.docker.backend import Docker
    from stockade.backends.docker.engine import LocalImage
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job

OWN_TASKS = 1
"""Tasks in the container that are not the guest's: its first process."""
PIPES_FOLDER = "/.stockade"
"""Where the container sees the pipes of the run."""
_FILES, _JOB = "workspace", "job"
_LEAST_TASKS = 32
"""A runtime has several threads in the container's group while it starts. A lower limit is set after that."""
_SCRATCH_PARTS: Mapping[str, int] = {"/tmp": 4, "/dev/shm": 4, WORKSPACE: 2}
"""The part of the limit on the disk that each folder gets, as its divisor: the engine mounts one tmpfs for each."""
_NOTHING = "ro,noexec,nosuid,nodev,size=4096,mode=755"
"""Covers a volume that the image declares, which would be a writable folder on the engine's own disk."""
_UNBOUNDED = 1 << 50
_INODE_BYTES = 4096
_LEAST_INODES, _MOST_INODES = 64, 1 << 20
_PATH = "PATH"
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
"""An engine's usual list. With /proc as well, a guest cannot lower its own oom_score_adj there."""
_INSIDE = {"as": ("-v", 1024, 1 << 64), "data": ("-d", 1024, 1 << 64), "nofile": ("-n", 1, 64)}
"""Resource limits that the first process sets: the option of ``ulimit``, its unit, and the least that a runtime needs.
"""


def order(backend: Docker, plan: Plan, job: Job, command: Command, *, image: LocalImage, socket: str) -> ContainerOrder:
    """Return the order for the container. Raises ``UnicodeEncodeError`` for text that is not UTF-8."""
    policy = plan.policy
    most = policy.limits.figure(Guarantee.PROCESSES)
    tasks = None if most is None else int(most) + command.own_tasks - 1 + OWN_TASKS
    files = {f"{_JOB}{path.removeprefix(JOB_FOLDER)}": (content, 0o644) for path, content in command.all_files.items()}
    files |= {f"{CHANNELS}/{_FILES}/{name}": (content, job.mode_of(name)) for name, content in job.files.items()}
    before, inside = _resource_limits(plan, command)
    host = _host(backend, plan, job, command, tasks)
    taken = {*host["Tmpfs"], *(each["Target"] for each in host["Mounts"])}
    host["Tmpfs"] |= {folder: _NOTHING for folder in image.volumes if folder not in taken}
    body: dict[str, Any] = {
        "Image": image.digest,
        "Entrypoint": ["/bin/sh", "-c", _first_process(), "sh"],
        "User": f"{policy.security.uid}:{policy.security.uid}",
        "WorkingDir": workspace_of(policy),
        "Hostname": HOST_NAME,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host | {"Ulimits": before},
    }
    sources = [each["Source"] for each in host["Mounts"]]
    for path in sources:
        path.encode()
    folders = tuple(path for path in sources if path.startswith((CHANNELS, _JOB)))
    low = tasks is not None and tasks < _LEAST_TASKS
    # A folder of the host can be replaced by another one of its name, which a container that waits would not show.
    may_wait = len(folders) == len(sources)
    return ContainerOrder(
        socket=socket,
        create=dumps(body, compact=True).encode(),
        update=dumps({"PidsLimit": tasks}, compact=True).encode() if low else b"",
        folders=folders,
        job=files | {COMMAND: (_shell_code(command, inside, variables(policy, job, command)), 0o444)},
        prewarm=backend.prewarm if may_wait else 0,
        idle_seconds=backend.idle_seconds,
    )


def _shell_code(command: Command, limits: str, variables: Mapping[str, str]) -> bytes:
    """Return what to run, for the shell that is the container's first process; see ``first_process.sh``.

    ``command export`` goes on after a name that the shell keeps for itself.
    """
    exports = "\n".join(f"command export {name}={shlex.quote(value)}" for name, value in variables.items())
    lines = [f"channel={'yes' if command.channel else 'no'}", f"limits={shlex.quote(limits)}"]
    if _PATH in variables:
        lines.append(f"path={shlex.quote(variables[_PATH])}")
    lines += [f"exports={shlex.quote(exports)}", shlex.join(("set", "--", *command.argv)), ""]
    return "\n".join(lines).encode()


def variables(policy: Policy, job: Job, command: Command) -> dict[str, str]:
    """Return the variables to set. The image keeps its own PATH unless the policy, the job or the language sets one."""
    found = environment(policy, job, command)
    if not any(_PATH in each for each in (policy.environment.set, policy.environment.inherit, job.environment)):
        found = {name: value for name, value in found.items() if name != _PATH or name in command.environment}
    return found


def workspace_of(policy: Policy) -> str:
    """Return the path of the workspace in the container."""
    return WORKSPACE if policy.filesystem.workspace == "empty" else policy.filesystem.workspace


@lru_cache(maxsize=1)
def _first_process() -> str:
    return Path(__file__).with_name("first_process.sh").read_text()


def _host(backend: Docker, plan: Plan, job: Job, command: Command, tasks: int | None) -> dict[str, Any]:
    policy = plan.policy
    figure = policy.limits.figure
    memory, swap, cores = figure(Guarantee.MEMORY), figure(Guarantee.SWAP), figure(Guarantee.CPU_RATE)
    fields: dict[str, Any] = {
        "ExtraHosts": [f"{HOST_NAME}:127.0.0.1"],
        "NetworkMode": "host" if policy.network == "host" else "none",
        "IpcMode": "none",  # /dev/shm is one of the mounts below
        "CgroupnsMode": "private",
        "ReadonlyRootfs": True,
        "ReadonlyPaths": [*_READ_ONLY, "/proc"],
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", *_profile(plan), *backend.security_opt],
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "Mounts": _mounts(plan, job, command),
        "Tmpfs": _tmpfs(policy, job),
    }
    if backend.runtime:
        fields["Runtime"] = backend.runtime
    if memory is not None:
        fields["Memory"] = int(memory)
        fields["MemorySwap"] = -1 if swap is None else int(memory + swap)
        if policy.limits.soft is not None:
            fields["MemoryReservation"] = policy.limits.soft
    if cores is not None:
        fields["NanoCpus"] = int(cores * 1_000_000_000)
    if tasks is not None:
        fields["PidsLimit"] = max(tasks, _LEAST_TASKS)
    return fields


def _profile(plan: Plan) -> list[str]:
    """Return the option for the policy's filter, in the engine's format."""
    return [f"seccomp={syscall_filter.profile(plan)}"] if filters_syscalls(plan.facts) else []


def _resource_limits(plan: Plan, command: Command) -> tuple[list[dict[str, Any]], str]:
    """Return the resource limits that the engine sets, and options of ``ulimit`` for those that the first process sets.

    Some would hinder the runtime, which gets the engine's. The kernel counts ``nproc`` for all containers of a uid, so
    the container's group alone bounds tasks. Under a limit of one byte, a crash starts no handler (core(5)).
    """
    limits = {"core": (1, 1), **rlimits(plan.policy, plan.facts, command.own_tasks)}
    limits.pop("nproc", None)
    if plan.policy.limits.figure(Guarantee.DATA) is None:
        limits.pop("data", None)  # a stand-in for a control group, where the warden has none
    inside = []
    for name, (option, unit, least) in _INSIDE.items():
        if name in limits and limits[name][0] < least:
            inside.append(f"{option}={limits.pop(name)[0] // unit}")
    return [{"Name": name, "Soft": soft, "Hard": hard} for name, (soft, hard) in sorted(limits.items())], " ".join(
        inside
    )


def _tmpfs(policy: Policy, job: Job) -> dict[str, str]:
    """Return the mounts of the writable folders, with sizes that together keep the limit on the disk."""
    uid = policy.security.uid
    found = {folder: _scratch(policy, folder, "mode=1777") for folder in ("/tmp", "/dev/shm")}
    if policy.filesystem.workspace == "empty" and policy.filesystem.way == "write":
        own = sum(-(-len(content) // _INODE_BYTES) * _INODE_BYTES for content in job.files.values())
        names = sum(name.count("/") + 1 for name in (*job.files, *job.inputs))
        found[WORKSPACE] = _scratch(policy, WORKSPACE, f"mode=755,uid={uid},gid={uid}", own, names)
    return found


def _scratch(policy: Policy, folder: str, options: str, more_bytes: int = 0, more_names: int = 0) -> str:
    """Return the options of one folder. The number of its inodes bounds names and extended attributes."""
    figure = policy.limits.figure(Guarantee.DISK)
    size = _UNBOUNDED if figure is None else max(_INODE_BYTES, int(figure) // _SCRATCH_PARTS[folder])
    inodes = max(_LEAST_INODES, min(size // _INODE_BYTES, _MOST_INODES)) + more_names
    return f"rw,exec,nosuid,nodev,size={size + more_bytes},nr_inodes={inodes},{options}"


def _mounts(plan: Plan, job: Job, command: Command) -> list[dict[str, Any]]:
    """Return the mounts of the run's folder and of host paths, outer ones first. A relative source is in the folder."""
    policy = plan.policy
    found = [_bind(CHANNELS, PIPES_FOLDER)]
    if command.all_files:
        found.append(_bind(_JOB, JOB_FOLDER))
    if policy.filesystem.workspace == "empty" and policy.filesystem.way == "read" and job.files:
        found.append(_bind(f"{CHANNELS}/{_FILES}", WORKSPACE))
    for path, showing in host_paths(policy, (), command.packages):
        if showing is not Showing.PROGRAM:
            found.append(_bind(path, path, writable=showing is Showing.WRITE))
    workspace = workspace_of(policy)
    return [*found, *(_bind(os.path.realpath(name), f"{workspace}/{name}") for name in job.inputs)]


def _bind(source: str, target: str, *, writable: bool = False) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": not writable,
        "BindOptions": {"Propagation": "rprivate"},
    }
