"""Runs from a warm interpreter, by the native backend: the steps of its processes. A pure function."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from stockade import linux
from stockade.backends.native.workspace import FILE, PROGRAMS
from stockade.backends.shared.guest_environment import HOST_NAME, MOUNT_TARGETS, host_paths, lies_below
from stockade.backends.shared.limits import filters_syscalls
from stockade.core.launch import Warm, encode_steps
from stockade.languages.base import JOB_FOLDER, OWN_CODE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stockade.core.launch import Step
    from stockade.planning.plan import Plan
    from stockade.runs.job import Job, Template

_PACKAGE = str(Path(linux.__file__).parents[1])
_OWN_SPACE = (16 << 20, 4096)  # what modules may write while they are imported
_JOB_SPACE = (1 << 30, 8192)  # nobody but the sandbox itself writes there
_READ_AT_START = ("PYTHON", "RUBY", "GEM_", "BUNDLE_", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")
"""Variables that an interpreter, or the C library below it, reads when it starts and never again."""
_BRINGS_CODE = ("PYTHON", "RUBY", "GEM_", "BUNDLE_", "LD_", "GCONV_PATH", "HOME")
"""Variables by which an interpreter comes, while it starts, by code from wherever they say: what waits to be copied is
no guest, and runs nothing of the kind."""
_BRINGS_NONE = ("PYTHONHASHSEED", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE")


def obstacle(plan: Plan, job: Job, readable: tuple[str, ...], packages: tuple[str, ...]) -> str:
    """Return why no copy can stand in for a fresh interpreter; empty if one can: the same guarantees, and nothing to be
    shown that a copy could not reach any more."""
    if job.warm is False:
        return "warm=False forbids a copy"
    lasting = _obstacle(plan, readable, packages)
    if lasting:
        return lasting
    if job.inputs:
        return "files of the host are shown in the workspace"
    for name in job.environment:
        if name.startswith((*_READ_AT_START, *_BRINGS_CODE)):
            return f"{name} is read when an interpreter starts"
    return ""


@lru_cache(maxsize=64)
def _obstacle(plan: Plan, readable: tuple[str, ...], packages: tuple[str, ...]) -> str:
    """Return what of the plan itself stands in the way."""
    policy = plan.policy
    files = policy.filesystem
    variables = {*policy.environment.inherit, *policy.environment.set} - {*_BRINGS_NONE}
    bringing = next((name for name in sorted(variables) if name.startswith(_BRINGS_CODE)), "")
    below = [
        path for path, _ in host_paths(policy, readable, packages) if lies_below(path, (*MOUNT_TARGETS, JOB_FOLDER))
    ]
    workspace = files.workspace != "empty" or files.way == "read"
    reasons = {
        "no filter keeps a guest from the limits of its keeper (prlimit(2))": not filters_syscalls(plan.facts),
        "the network is the host's": policy.network != "none",
        "the workspace is a folder of the host, or cannot be written": workspace,
        "folders of the host can be written": bool(files.writable),
        "the root can be written": not policy.security.read_only_root,
        "security.host_uid names one uid for all": policy.security.host_uid is not None,
        "security.syscalls_file may open key rings, which guests share": policy.security.syscalls_file is not None,
        f"{bringing} may have an interpreter run code of anybody's while it starts": bool(bringing),
        f"{', '.join(below)} would be covered": bool(below),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def warm(
    template: Template,
    environment: Mapping[str, str],
    *,
    root: Sequence[Step],
    shown: Sequence[Step],
    network: Sequence[Step],
    scratch: Sequence[Step],
    sealed: Sequence[Step],
    limits: Step,
) -> Warm:
    """Return how to keep ``template`` warm.

    ``root`` makes the root with the system in it, ``shown`` what else is there to read, ``network`` brings the
    network up, ``scratch`` makes what the guest can write, and ``sealed`` is all from the guest's folder on.
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
    named = [step for step in sealed if step[0] in ("chdir", "landlock")]  # which name what the room is made of
    mounts: list[Step] = [*scratch, ("job_mount", JOB_FOLDER, *_JOB_SPACE), *named]
    guest: list[Step] = [("own_ipc",)]
    guest += [("landlock",) if step[0] == "landlock" else step for step in sealed if step[0] != "chdir"]
    return Warm(
        zygote=encode_steps(tuple(zygote)),
        argv=template.argv,
        environment={**environment, **dict(template.environment)},
        slot=encode_steps((("cgroup_namespace",), ("proc_again",), ("still", MOUNT_TARGETS[0]))),
        network=encode_steps(tuple(network)),
        mounts=encode_steps(tuple(mounts)),
        guest=encode_steps(tuple(guest)),
    )
