"""The steps of a warm interpreter's processes under the native backend. Pure functions."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from stockade import linux
from stockade.backends.native.workspace import FILE, PROGRAMS
from stockade.backends.shared.guest_environment import (
    HOST_NAME,
    MOST_TERMINALS,
    MOUNT_TARGETS,
    TERMINALS,
    host_paths,
    lies_below,
)
from stockade.backends.shared.limits import filters_syscalls
from stockade.core.launch import Warm, encode_steps
from stockade.languages.base import JOB_FOLDER, OWN_CODE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stockade.core.launch import Step
    from stockade.planning.plan import Plan
    from stockade.runs.job import Job, Template

_PACKAGE = str(Path(linux.__file__).parents[1])
_OWN_SPACE = (16 << 20, 4096)  # bytes and inodes that modules can write while they are imported
_JOB_SPACE = (1 << 30, 8192)  # only the sandbox itself writes there
_TERMINALS: Step = ("terminals", TERMINALS, MOST_TERMINALS)
_READ_AT_START = ("PYTHON", "RUBY", "GEM_", "BUNDLE_", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")
"""Variables that an interpreter or its C library reads only when it starts."""
_BRINGS_CODE = ("PYTHON", "RUBY", "GEM_", "BUNDLE_", "LD_", "GCONV_PATH", "HOME")
"""Variables that make an interpreter run code from the places they name while it starts. A zygote is not a guest, so it
must not run such code."""
_BRINGS_NONE = ("PYTHONHASHSEED", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE")


def obstacle(plan: Plan, job: Job, readable: tuple[str, ...], packages: tuple[str, ...]) -> str:
    """Return why a worker cannot replace a fresh interpreter for ``job``, or an empty text if it can.

    A worker must hold the same guarantees. It cannot show host files that only this job names: its mounts are made.
    """
    if job.warm is False:
        return "warm=False forbids a warm interpreter"
    lasting = _obstacle(plan, readable, packages)
    if lasting:
        return lasting
    if job.inputs:
        return "the job shows files of the host in the workspace"
    for name in job.environment:
        if name.startswith((*_READ_AT_START, *_BRINGS_CODE)):
            return f"{name} is read when an interpreter starts"
    return ""


@lru_cache(maxsize=64)
def _obstacle(plan: Plan, readable: tuple[str, ...], packages: tuple[str, ...]) -> str:
    """Return why no job under ``plan`` can use a worker, or an empty text."""
    policy = plan.policy
    files = policy.filesystem
    variables = {*policy.environment.inherit, *policy.environment.set} - {*_BRINGS_NONE}
    bringing = next((name for name in sorted(variables) if name.startswith(_BRINGS_CODE)), "")
    paths = [path for path, _ in host_paths(policy, readable, packages)]
    covered = [path for path in paths if path in MOUNT_TARGETS or lies_below(path, (JOB_FOLDER,))]
    workspace = files.workspace != "empty" or files.way == "read"
    reasons = {
        "no filter stops a guest from changing the limits of its worker (prlimit(2))": not filters_syscalls(plan.facts),
        "the network is the host's": policy.network == "host",
        "network.allow gives each run a proxy of its own": policy.way_out is not None,
        "the workspace is a folder of the host, or is read-only": workspace,
        "the guest can write to folders of the host": bool(files.writable),
        "the guest can write to the root": not policy.security.read_only_root,
        "security.host_uid names one uid for all runs": policy.security.host_uid is not None,
        "security.syscalls_file can allow key rings, which guests share": policy.security.syscalls_file is not None,
        f"{bringing} can make an interpreter run foreign code while it starts": bool(bringing),
        f"the worker's mounts would cover {', '.join(covered)}": bool(covered),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def below_mount_targets(plan: Plan, readable: tuple[str, ...], packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the host paths below the writable folders, without those inside another one.

    A guest's writable folders cover these paths, so the worker mounts them again on top.
    """
    found: list[str] = []
    for path, _ in host_paths(plan.policy, readable, packages):
        if lies_below(path, MOUNT_TARGETS) and not lies_below(path, found):
            found.append(path)
    return tuple(found)


def warm(
    template: Template,
    environment: Mapping[str, str],
    *,
    root: Sequence[Step],
    shown: Sequence[Step],
    network: Sequence[Step],
    scratch: Sequence[Step],
    again: tuple[str, ...],
    sealed: Sequence[Step],
    limits: Step,
) -> Warm:
    """Return the steps and arguments that start ``template`` as a zygote, its workers and their guests.

    ``root`` makes the root with the system in it, ``shown`` adds other readable paths, ``network`` sets the network up,
    and ``scratch`` makes the writable folders, which cover the paths ``again``. ``sealed`` begins with the step that
    changes to the guest's folder, and holds all steps after it.
    """
    own = [("scratch", *_OWN_SPACE, mount_targets) for name, *_, mount_targets in scratch if name == "scratch"]
    files: list[Step] = [("bind", origin, path, FILE) for origin, path in template.shown]
    files += [("file", path, content, 0o644, False) for path, content in template.files]
    zygote: list[Step] = [
        *root,
        ("own_proc",),
        ("hostname", HOST_NAME),
        *own,
        *shown,
        *files,
        ("bind", _PACKAGE, f"{OWN_CODE}/stockade", PROGRAMS),
        ("leave_host",),
        ("seal_root", True),
        ("chdir", "/"),
        limits,
    ]
    # These steps name folders among the guest's mounts.
    named = [step for step in sealed if step[0] in ("chdir", "landlock")]
    shown_again: list[Step] = [("keep", again)] if again else []
    shown_on_top: list[Step] = [("show_kept",)] if again else []
    mounts = [*shown_again, *scratch, *shown_on_top, ("job_mount", JOB_FOLDER, *_JOB_SPACE), _TERMINALS, *named]
    guest: list[Step] = [("own_ipc",)]
    guest += [("landlock",) if step[0] == "landlock" else step for step in sealed if step[0] != "chdir"]
    return Warm(
        zygote=encode_steps(tuple(zygote)),
        argv=template.argv,
        environment={**environment, **dict(template.environment)},
        worker=encode_steps((("cgroup_namespace",), ("proc_again",), ("still", MOUNT_TARGETS[0]))),
        network=encode_steps(tuple(network)),
        mounts=encode_steps(tuple(mounts)),
        guest=encode_steps(tuple(guest)),
    )
