"""The guest's environment variables and the host paths that it sees. All backends share this code."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from stockade.backends.shared import proxy
from stockade.core.errors import JobError
from stockade.linux import places
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.core.launch import Step
    from stockade.planning.facts import HostFacts
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job

WORKSPACE = "/workspace"
MOUNT_TARGETS = ("/tmp", "/dev/shm", WORKSPACE)
"""The writable folders of a sandbox with its own root. A host folder below one of them is mounted over it."""
HOST_NAME = "stockade"
HOSTS = "/etc/hosts"
OWN_ADDRESS = f"127.0.0.1 {HOST_NAME}\n".encode()
"""The line of /etc/hosts for the sandbox's own name. A host's file has no such line."""
OWN_NAMES = b"127.0.0.1 localhost\n::1 localhost\n" + OWN_ADDRESS
"""The content of /etc/hosts in a network that holds only a loopback interface."""
_ACCOUNTS = (("root", "root", 0, "/root:/bin/sh"), ("nobody", "nogroup", 65534, "/nonexistent:/bin/false"))
"""Accounts that programs look up beside the guest's: user, group, id, and home with shell. No process has these ids."""
_GIT_CONFIG = b"[safe]\n\tdirectory = *\n"
"""Git refuses a repository of another user, because its settings can name programs. Every program in a sandbox is the
guest's already, and a shown folder of the host can belong to anyone."""
DEVICES = ("null", "zero", "full", "random", "urandom")
"""The devices of /dev that a guest can use."""
TERMINALS = "/dev/pts"
MOST_TERMINALS = 32
"""Pseudo-terminals of one guest. The kernel allows some thousands on the whole host (kernel.pty.max)."""
_RESOLVER_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")
_CERTIFICATES = ("/etc/ssl", "/etc/ca-certificates", "/etc/pki")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = {"PATH": _PATH, "LANG": "C.UTF-8"}
_POOLS = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PART_OF_A_POOL = 4


class Showing(Enum):
    """How a path of the host is shown."""

    PROGRAM = "program"
    """A path of the system itself, whose symbolic links are followed."""
    READ = "read"
    WRITE = "write"


def environment(policy: Policy, job: Job, command: Command, home: str = "/tmp") -> dict[str, str]:
    """Return the guest's environment: fixed names, then those of language, policy and job. Later ones win."""
    inherited = {name: os.environ[name] for name in policy.environment.inherit if name in os.environ}
    fixed = {
        **_ENVIRONMENT,
        **_pools(policy),
        **proxy.variables(policy, job),
        "HOME": home,
        "TMPDIR": home,
        **command.environment,
    }
    return {**fixed, **inherited, **policy.environment.set, **job.environment}


def _pools(policy: Policy) -> dict[str, str]:
    """Return variables that bound the threads of linear-algebra libraries.

    Such a library starts one thread for each processor by default. On a large host that exceeds the limit on
    processes, and a program can load two or three of these libraries.
    """
    most = policy.limits.figure(Guarantee.PROCESSES)
    if most is None:
        return {}
    threads = min(len(os.sched_getaffinity(0)), int(most) // _PART_OF_A_POOL)
    return dict.fromkeys(_POOLS, str(max(1, threads)))


def network_files(policy: Policy) -> tuple[str, ...]:
    """Return the host files that the guest needs to look up names, if it may, and to verify certificates."""
    if policy.network == "none":
        return ()
    wanted = _CERTIFICATES if policy.way_out is not None else (*_RESOLVER_FILES, *_CERTIFICATES)
    return tuple(path for path in wanted if Path(path).exists())


def etc_files(policy: Policy) -> dict[str, bytes]:
    """Return the files of /etc that a sandbox with its own root creates. A file that the policy shows has its place."""
    uid = policy.security.uid
    others = [each for each in _ACCOUNTS if each[2] != uid]
    users = [f"guest:x:{uid}:{uid}:guest:/tmp:/bin/sh\n"]
    users += [f"{name}:x:{number}:{number}:{name}:{home}\n" for name, _, number, home in others]
    groups = [f"guest:x:{uid}:\n", *(f"{name}:x:{number}:\n" for _, name, number, _ in others)]
    made = {
        "/etc/passwd": "".join(users).encode(),
        "/etc/group": "".join(groups).encode(),
        "/etc/hostname": f"{HOST_NAME}\n".encode(),
        "/etc/gitconfig": _GIT_CONFIG,
    }
    if policy.network != "host":
        made[HOSTS] = OWN_NAMES
        made["/etc/nsswitch.conf"] = b"passwd: files\ngroup: files\nhosts: files\n"
    shown = (*policy.filesystem.read, *policy.filesystem.write)
    return {path: content for path, content in made.items() if not lies_below(path, shown)}


def program_folders(facts: HostFacts, readable: Iterable[str]) -> list[str]:
    """Return the interpreter's folders that are neither part of the system nor below a mount target."""
    shown = [path for path, target in facts.system if not target]
    found: list[str] = []
    for folder in readable:
        if not lies_below(folder, (*shown, *found, *MOUNT_TARGETS)):
            found.append(folder)
    return found


def host_paths(policy: Policy, readable: Iterable[str], packages: Iterable[str] = ()) -> list[tuple[str, Showing]]:
    """Return the host paths to show, outer ones first, so that an inner path is mounted over an outer one."""
    files = policy.filesystem
    shown = {path: Showing.PROGRAM for path in readable if lies_below(path, MOUNT_TARGETS)}
    shown |= dict.fromkeys((*files.read, *packages), Showing.READ)
    if files.workspace != "empty":
        shown[files.workspace] = Showing.READ
    shown |= dict.fromkeys(files.writable, Showing.WRITE)
    found = [(path, shown[path]) for path in sorted(shown, key=lambda path: (path.count("/"), path))]
    return [*found, *((path, Showing.PROGRAM) for path in network_files(policy))]


def lies_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether ``path`` is one of ``folders`` or lies in one."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def check_workspace(policy: Policy) -> None:
    """Refuse a workspace that is not a folder, is reached through a link, or holds the folders of other runs."""
    if policy.filesystem.workspace != "empty":
        _check_own(policy.filesystem.workspace)
        if not Path(policy.filesystem.workspace).is_dir():
            raise JobError(f"filesystem.workspace: {policy.filesystem.workspace} is not a folder")
        _check_direct(policy.filesystem.workspace)


def _check_direct(path: str) -> None:
    try:
        real = os.path.realpath(path)
    except OSError as error:  # the path was a link a moment ago
        raise JobError(f"filesystem: {path} changed while it was checked: {error.strerror}") from None
    if real != path:
        raise JobError(
            f"filesystem: {path} is reached through a symbolic link, which an earlier guest can have made; "
            f"name {real} if you mean that path"
        )


def _check_own(path: str) -> None:
    own = places.own_in(path)
    if own:
        raise JobError(
            f"filesystem: {path} cannot be shown: stockade keeps the folders of other runs there ({own}); name a "
            f"folder below it, or use a folder outside {places.FOLDER}"
        )


def copy_steps(policy: Policy, job: Job, target: str) -> list[Step]:
    """Return the step that copies the project of ``job`` to ``target``, within the limit on the disk."""
    if job.project is None:
        return []
    disk = policy.limits.figure(Guarantee.DISK)
    return [("copy", job.project.path, target, list(job.project.hidden), None if disk is None else int(disk))]


def collect_steps(policy: Policy, job: Job, workspace: str) -> list[Step]:
    """Return the step that gives the collector the workspace, unless the step that makes the workspace does so."""
    if not job.artifacts or policy.filesystem.way != "write":
        return []
    return [("collect_from", workspace, policy.filesystem.workspace != "empty")]


def check_protected(policy: Policy) -> None:
    """Refuse to protect a path that does not exist, because the guest could create it."""
    files = policy.filesystem
    for name in files.kept if files.way == "write" else ():
        if not Path(files.workspace, name).exists():
            raise JobError(
                f"filesystem.protected: {name} is not in {files.workspace}, so the guest could create it; create it "
                f"first, or keep the changes apart: --access overlay, with --commit to write them at the end "
                f"(filesystem.access='overlay' and result.changes.commit())"
            )


def check_reachable(paths: Iterable[str]) -> None:
    """Refuse paths that a uid without any rights cannot reach, before anything starts."""
    for path in dict.fromkeys(paths):
        for folder in Path(path).parents if path.startswith("/") else ():
            if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
                raise JobError(
                    f"{path} cannot be reached by the guest, which has a uid of its own: {folder} is closed to "
                    f"others; open that folder, use another folder or interpreter, or use the native backend"
                )


def check_nesting(policy: Policy, engine: str, packages: Iterable[str] = ()) -> None:
    """Refuse a path below a writable folder: a guest could make links there while the engine looks the path up."""
    files = policy.filesystem
    workspace = () if files.workspace == "empty" else (files.workspace,)
    for path in dict.fromkeys((*files.read, *files.writable, *workspace, *packages)):
        outer = next((each for each in files.writable if each != path and lies_below(path, (each,))), None)
        if outer is not None:
            raise JobError(
                f"filesystem: {path} lies in {outer}, where a guest can replace it by a link before {engine} uses it; "
                f"name only one of the two, or use the native backend, which follows no links"
            )


def check_paths(policy: Policy, facts: HostFacts, packages: Iterable[str] = ()) -> None:
    """Refuse missing paths of the policy, missing packages, sockets, and folders that the guest cannot write to.

    The check comes before anything starts, so the error can name the path.
    """
    shown = [*policy.filesystem.read, *policy.filesystem.write, *packages]
    check_workspace(policy)
    for path in shown:
        _check_own(path)
        if not Path(path).exists():
            raise JobError(f"filesystem: {path} does not exist")
        _check_direct(path)
        if policy.filesystem.sockets == "closed" and Path(path).is_socket():
            raise JobError(
                f"filesystem: {path} is a Unix socket, through which a guest reaches the process that listens there; "
                f"leave it out, or set filesystem.sockets='open' if the guest may do that"
            )
    for path in policy.filesystem.writable:
        status = Path(path).stat()
        uid = policy.security.host_uid
        if facts.uid == 0 and not (status.st_mode & 0o002 or (uid is not None and uid == status.st_uid)):
            raise JobError(_not_the_guests(policy, path, status.st_uid))


def _not_the_guests(policy: Policy, path: str, owner: int) -> str:
    """Return why a guest cannot write to ``path`` itself, and which option lets it write."""
    own = f"set security.host_uid={owner}" if owner else "give the folder to an ordinary user and set security.host_uid"
    if path != policy.filesystem.workspace:
        return f"filesystem.write: {path} belongs to uid {owner}, and a guest never runs as host root; {own}"
    return (
        f"filesystem.access='write': {path} belongs to uid {owner}, and a guest never runs as host root; keep the "
        f"changes apart: --access overlay (or copy), with --commit to write them at the end "
        f"(result.changes.commit()); or {own}"
    )
