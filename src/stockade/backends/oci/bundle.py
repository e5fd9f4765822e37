"""Builds the bundle of a container: its ``config.json``, and the steps that lay out its files.

The functions are pure, except that they look up whether a path of the host is a folder.

The format is that of the OCI runtime specification, https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config.md.
The bundle lies in a tmpfs that only the runtime and the guest's own process see, and ends with them.
"""

from __future__ import annotations

import base64
import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stockade.backends.shared.guest_environment import (
    HOST_NAME,
    HOSTS,
    MOST_TERMINALS,
    OWN_ADDRESS,
    TERMINALS,
    WORKSPACE,
    Showing,
    collect_steps,
    copy_steps,
    etc_files,
    host_paths,
    lies_below,
    program_folders,
)
from stockade.backends.shared.limits import filters_syscalls
from stockade.core.strict_json import dumps
from stockade.linux import files as text_files
from stockade.planning import syscall_filter
from stockade.policy.guarantees import Guarantee
from stockade.runs.stdin_file import FileContent

if TYPE_CHECKING:
    from stockade.core.launch import Step
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job
    from stockade.workspace.project import Project

BUNDLE = "/sys/fs/cgroup"
"""The folder that the tmpfs covers. The runtime then finds no control groups to manage: the warden's stay in force."""
ROOT = f"{BUNDLE}/rootfs"
COPY_FOLDER = {"_LIBCONTAINER_STATEDIR": BUNDLE}
"""Where the runtime makes a copy of itself (its cloned_binary.c): a killed one would leave an empty file in /tmp."""
STATE = f"{BUNDLE}/state"
STATUS = 199
STATUS_PATH = f"/proc/self/fd/{STATUS}"
SCRATCH = f"{BUNDLE}/scratch"
_COPY = f"{SCRATCH}/copy"
_BUNDLE_BYTES, _BUNDLE_INODES = 1 << 30, 8192
_INODE_BYTES = 4096
_LEAST_INODES, _OWN_INODES, _COPIED_INODES = 64, 8, 1 << 16
READ_ONLY = ("rbind", "rro", "rnosuid", "rnodev")
_WRITABLE = ("rbind", "rnosuid", "rnodev")
_OF_A_FILE: Mapping[Sequence[str], Sequence[str]] = {
    READ_ONLY: ("bind", "ro", "nosuid", "nodev"),
    _WRITABLE: ("bind", "nosuid", "nodev"),
}
"""The options for a single file. crun 1.8 sets the recursive ones only on folders; below a file there is no mount."""
_PIPE = "/.stockade-job"
JOB_PIPE = f"{ROOT}{_PIPE}"
"""The named pipe from which the first process of the container reads its job; see ``linux.waiting_engine``."""
_FIRST = (
    "/bin/sh", "-c",
    f'exec 9>&2 2>/dev/null; is_whole=; . {_PIPE}; [ "$is_whole" ] || exit 125; trap : INT; '
    '(eval "$exports"; exec "$@" 2>&9 9>&-); exit $?',
    "sh",
)  # fmt: skip
"""The first process of the container. It waits for the job. It reaps orphans, and the guest is its child.

As PID 1 of its namespace, the guest would ignore signals that have no handler. The shell's own messages go nowhere. It
does not end by the signal of a terminal's interrupt key, which goes to the whole group."""
_SETS = ("bounding", "effective", "inheritable", "permitted", "ambient")
_TERMINALS = ("newinstance", "ptmxmode=0666", "mode=620", f"max={MOST_TERMINALS}")
NAMESPACES = ("user", "mount", "pid", "ipc", "uts", "cgroup")
FILTER = "run.oci.seccomp_bpf_data"
"""crun's annotation for a ready filter program (crun(1)). The trial of the runtime checks that it has an effect."""


def config(plan: Plan, job: Job, command: Command) -> str:
    """Return the text of ``config.json`` for crun, in which only mounts depend on the job.

    Raises ``UnicodeEncodeError`` as ``fields`` does.
    """
    found = fields(plan, job, command, {}, _FIRST)
    if filters_syscalls(plan.facts):
        found["annotations"] = {FILTER: base64.b64encode(syscall_filter.program(plan)).decode()}
    return dumps(found, compact=True)


def job_code(argv: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Return the job for the container's first process, as code for its shell.

    ``command export`` goes on after a name that the shell keeps for itself. Raises ``UnicodeEncodeError`` for bytes
    that are not UTF-8.
    """
    exports = "; ".join(f"command export {name}={shlex.quote(value)}" for name, value in environment.items())
    return "\n".join((f"exports={shlex.quote(exports)}", shlex.join(("set", "--", *argv)), "is_whole=yes", "")).encode()


def can_wait(plan: Plan, job: Job, command: Command) -> bool:
    """Return whether a container for this job can be made before there is a job: it shows no path of the host's own.

    A folder of the host can be replaced by another of its name, which a container that waits would not show.
    """
    files = plan.policy.filesystem
    return not (
        files.shows_host
        or files.writable
        or plan.policy.network == "host"  # files of names and addresses
        or job.inputs
        or job.project
        or command.packages
        or program_folders(plan.facts, command.readable)
        or isinstance(job.stdin, FileContent)  # the container would have another standard input
    )


def fields(
    plan: Plan, job: Job, command: Command, environment: Mapping[str, str], args: Sequence[str]
) -> dict[str, Any]:
    """Return the fields of ``config.json`` that depend on no runtime.

    ``args`` is the command of the container's first process. Raises ``UnicodeEncodeError`` for bytes that are not
    UTF-8, because JSON cannot hold them.
    """
    policy = plan.policy
    uid = policy.security.uid
    namespaces = (*NAMESPACES, *(("network",) if policy.network != "host" else ()))
    mapping = [{"containerID": uid, "hostID": 0, "size": 1}]
    found: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "hostname": HOST_NAME,
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": uid, "gid": uid},
            "cwd": workspace_of(policy),
            "args": [*args],
            "env": [f"{name}={value}" for name, value in environment.items()],
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(_SETS, ()),
        },
        "mounts": [*_system(plan.facts, command.readable), *_scratch(policy), *_shown(plan, job, command)],
        "linux": {
            "uidMappings": mapping,
            "gidMappings": mapping,
            "namespaces": [{"type": name} for name in namespaces],
            **_covered(job.project),
        },
    }
    process, paths = found["process"], [each[key] for each in found["mounts"] for key in ("source", "destination")]
    for text in (*process["args"], *process["env"], *paths):
        text.encode()
    return found


def base(plan: Plan, job: Job) -> tuple[Step, ...]:
    """Return the first steps, which many jobs share: the tmpfs of the bundle, the root's skeleton and the scratch."""
    contents, names = job.files.values(), (*job.files, *job.inputs)
    more_bytes = sum(-(-len(content) // _INODE_BYTES) * _INODE_BYTES for content in contents)
    more_names = sum(name.count("/") + 1 for name in names) + (_COPIED_INODES if is_copied(plan.policy) else 0)
    return _base(plan, more_bytes, more_names)


@lru_cache(maxsize=64)
def _base(plan: Plan, more_bytes: int, more_names: int) -> tuple[Step, ...]:
    policy = plan.policy
    figure = policy.limits.figure(Guarantee.DISK)
    size = int(figure) if figure is not None else 1 << 50
    files = policy.filesystem
    shown = sum(path.count("/") for path in (*files.read, *files.writable, files.workspace))
    inodes = max(_LEAST_INODES, min(size // _INODE_BYTES, 1 << 20)) + _OWN_INODES + shown + more_names
    folders = [("tmp", 0o1777), ("shm", 0o1777)]
    if files.workspace == "empty":
        folders.append(("workspace", 0o755))
    return (
        ("session",),
        ("status", STATUS, True),
        ("become",),
        ("engine_mounts", BUNDLE, _BUNDLE_BYTES, _BUNDLE_INODES),
        ("folder", ROOT, 0o755, False),
        ("folder", SCRATCH, 0o755, False),
        ("sized_folder", SCRATCH, size + more_bytes, inodes),
        *(("folder", f"{SCRATCH}/{name}", mode, False) for name, mode in folders),
        *(("link", f"{ROOT}{path}", target) for path, target in plan.facts.system if target),
        *(("file", f"{ROOT}{path}", content, 0o644, False) for path, content in etc_files(policy).items()),
    )


def steps(plan: Plan, job: Job, command: Command) -> list[Step]:
    """Return the steps that bring the job's files, and its copy of the project, into the bundle."""
    policy = plan.policy
    place = f"{SCRATCH}/workspace" if policy.filesystem.workspace == "empty" else policy.filesystem.workspace
    found: list[Step] = [
        ("file", f"{ROOT}{path}", content, 0o644, False) for path, content in command.all_files.items()
    ]
    if policy.network == "host" and not lies_below(HOSTS, policy.filesystem.read):
        names = text_files.read(HOSTS).encode("utf-8", "surrogateescape") + b"\n" + OWN_ADDRESS
        found.append(("file", f"{ROOT}{HOSTS}", names, 0o644, False))
    found += [("file", f"{place}/{name}", content, job.mode_of(name), False) for name, content in job.files.items()]
    if is_copied(policy):
        found += copy_steps(policy, job, _COPY)
    if policy.filesystem.workspace == "empty" and policy.filesystem.way == "read":
        found += [_mount_point(place, name) for name in job.inputs if _is_outermost(name, job.inputs)]
    return [*found, *collect_steps(policy, job, place)]


def _is_outermost(name: str, names: Sequence[str]) -> bool:
    return not any(other != name and lies_below(name, (other,)) for other in names)


def _mount_point(place: str, name: str) -> Step:
    """Return the step that makes what an input is mounted on, where the runtime cannot: in a read-only workspace."""
    path = f"{place}/{name}"
    return ("folder", path, 0o755, False) if Path(name).is_dir() else ("file", path, b"", 0o644, False)


def workspace_of(policy: Policy) -> str:
    """Return the path of the workspace in the container."""
    return WORKSPACE if policy.filesystem.workspace == "empty" else policy.filesystem.workspace


def is_copied(policy: Policy) -> bool:
    """Return whether the guest works in a copy of the project."""
    return policy.filesystem.way in ("overlay", "copy")


def _mount(destination: str, kind: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": kind, "options": options}


def _bind(source: str, destination: str, options: Sequence[str] = READ_ONLY, *, folder: bool = True) -> dict[str, Any]:
    chosen = options if folder else _OF_A_FILE[options]
    return {"destination": destination, "type": "bind", "source": source, "options": chosen}


def _show(source: str, destination: str, options: Sequence[str] = READ_ONLY) -> dict[str, Any]:
    return _bind(source, destination, options, folder=Path(source).is_dir())


def _system(facts: HostFacts, readable: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the mounts of /proc, /dev and the system's programs.

    /proc is read-only: a guest could lower its own oom_score_adj there, and the kernel would end other programs first.
    """
    shown = [path for path, target in facts.system if not target]
    return [
        _mount("/proc", "proc", "nosuid", "noexec", "nodev", "ro"),
        _mount("/dev", "tmpfs", "nosuid", "noexec", "mode=755", "size=65536", "nr_inodes=64", "ro"),
        _mount(TERMINALS, "devpts", "nosuid", "noexec", *_TERMINALS),
        *(_show(path, path) for path in (*shown, *program_folders(facts, readable))),
    ]


def _scratch(policy: Policy) -> list[dict[str, Any]]:
    """Return the mounts of the writable folders: parts of one tmpfs, whose size bounds them together."""
    found = [_bind(f"{SCRATCH}/tmp", "/tmp", _WRITABLE), _bind(f"{SCRATCH}/shm", "/dev/shm", _WRITABLE)]
    if policy.filesystem.workspace == "empty":
        options = READ_ONLY if policy.filesystem.way == "read" else _WRITABLE
        found.append(_bind(f"{SCRATCH}/workspace", WORKSPACE, options))
    return found


def _shown(plan: Plan, job: Job, command: Command) -> list[dict[str, Any]]:
    """Return the mounts of host paths, of the project and of the job's inputs, outer ones first."""
    policy = plan.policy
    found: list[dict[str, Any]] = []
    for path, showing in host_paths(policy, command.readable, command.packages):
        if job.project is not None and path == job.project.path and is_copied(policy):
            found += _copied(job.project)
        elif path != HOSTS or showing is not Showing.PROGRAM:  # there is a copy of it, with one more line
            found.append(_show(path, path, _WRITABLE if showing is Showing.WRITE else READ_ONLY))
    workspace = workspace_of(policy)
    return [*found, *(_show(os.path.realpath(name), f"{workspace}/{name}") for name in job.inputs)]


def _copied(project: Project) -> list[dict[str, Any]]:
    """Return the mounts of a copy, with its protected paths read-only.

    Their parent folders are mounts as well, so that the guest can rename none of them.
    """
    there = [name for name in project.protected if name in project.entries]
    on_the_way = sorted({part for name in there for part in _parents(name)})
    return [
        _bind(_COPY, project.path, _WRITABLE),
        *(_bind(f"{_COPY}/{name}", f"{project.path}/{name}", _WRITABLE) for name in on_the_way),
        *(_show_copied(project, name) for name in there),
    ]


def _show_copied(project: Project, name: str) -> dict[str, Any]:
    folder = stat.S_ISDIR(project.entries[name].mode)
    return _bind(f"{_COPY}/{name}", f"{project.path}/{name}", folder=folder)


def _covered(project: Project | None) -> dict[str, list[str]]:
    """Return the hidden paths of a project that is shown itself. A copy lacks them."""
    if project is None or project.access in ("overlay", "copy") or not project.hidden:
        return {}
    return {"maskedPaths": [f"{project.path}/{name}" for name in project.hidden]}


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
