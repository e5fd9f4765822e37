"""The decisions of ``Sandbox.create`` before anything starts: the backend with its plan, and the first job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from stockade.api.job_arguments import job_from_command
from stockade.api.options import POLICY_OPTIONS, CommandOptions, check_names, overlaid
from stockade.api.runner import select
from stockade.backends import registry
from stockade.backends.base import Backend
from stockade.core.errors import BackendUnavailable, PlanError
from stockade.core.loading import loading

if TYPE_CHECKING:
    from stockade.api.select import Selection
    from stockade.policy.model import Policy, PolicyLike
    from stockade.runs.job import Job

Access = Literal["read", "write", "overlay", "copy"]
_BACKEND = "native"
_OWN = ("workspace", "access", "environment", "packages", "requirements", "secrets", "on_ask")
_TIMES = ("idle_timeout", "max_lifetime")
_OF_RUNS = {
    "files": "write files with sandbox.files.write",
    "artifacts": "read files with sandbox.files.read_bytes",
    "stdin": "stdin is for each command: sandbox.run_command(argv, stdin=...)",
    "language": "sandbox.interpreter(language) starts an interpreter",
}


def chosen_for(
    policy: PolicyLike | None,
    limits: Mapping[str, Any],
    workspace: str | os.PathLike[str] | None,
    access: Access | None,
    *,
    backend: str | Backend | None,
    **how: Any,
) -> Selection:
    """Return the backend in which the sandbox lives, with its plan."""
    for name in limits:
        if name in _OF_RUNS:
            raise TypeError(f"no option {name!r}: {_OF_RUNS[name]}")
    check_names(limits, POLICY_OPTIONS, (*POLICY_OPTIONS, *_OWN, *_TIMES))
    found = registry.find(backend or _BACKEND)
    if not found.traits.keeps_sandboxes:
        raise BackendUnavailable(
            f"backend {found.name!r}: it ends with each command, so no sandbox can live in it; use {_BACKEND}"
        )
    wanted = _with_workspace(overlaid(policy, limits), workspace, access)
    try:
        return select(wanted, backend=found, **how)
    except BackendUnavailable as error:
        if backend is None:
            raise _with_what_works(error, wanted, how) from None
        raise


def _with_what_works(error: BackendUnavailable, policy: Policy, how: Mapping[str, Any]) -> BackendUnavailable:
    """Return the error about the one backend that keeps sandboxes, with what works on this host instead."""
    runner = "Runner(...)"
    try:
        select(policy, **how)
    except BackendUnavailable as nothing:
        runner = f"Runner(..., accept={nothing.accept})" if nothing.accept else ""
    except PlanError:
        runner = ""
    works = [f"works here: runs by {runner}, which makes a fresh sandbox for each run"] if runner else []
    reason = str(error).removeprefix(f"backend {_BACKEND!r}: ")
    return BackendUnavailable("\n".join(["no sandbox can live here", *works, f"{_BACKEND}: {reason}"]))


def first_job(chosen: Selection, options: CommandOptions) -> Job:
    """Return the job that stands for the sandbox itself. This may take minutes, if packages have to be downloaded."""
    job = job_from_command([chosen.backend.name], **options)
    if not job.requirements:
        return job
    with loading:
        from stockade.api.packages.provide import provided
    return provided(job, chosen.plan.policy)


def _with_workspace(policy: Policy, workspace: str | os.PathLike[str] | None, access: str | None) -> Policy:
    """Return the policy with a workspace and the access to it, as the arguments of a sandbox name them."""
    with loading:
        from stockade.policy.merge import nested
        from stockade.policy.resolve import with_layers

    layers = {}
    if workspace is not None:
        layers["argument workspace"] = nested("filesystem.workspace", os.path.abspath(workspace))  # noqa: PTH100
    if access is not None:
        layers["argument access"] = nested("filesystem.access", access)
    return with_layers(policy, layers) if layers else policy
