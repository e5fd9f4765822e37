"""A job's workspace: which jobs are refused, the scan before the run, and the files collected after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stockade.backends.shared.guest_environment import check_workspace
from stockade.core import patterns
from stockade.core.errors import JobError
from stockade.core.frozen import FrozenDict
from stockade.core.launch import Collect
from stockade.policy.guarantees import Enforcement, Guarantee
from stockade.workspace import scan
from stockade.workspace.artifacts import Refused
from stockade.workspace.change_set import ChangeSet
from stockade.workspace.changes import changes
from stockade.workspace.project import Project

if TYPE_CHECKING:
    from stockade.client.collected_files import CollectedFiles
    from stockade.core.launch import Launch
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Job
    from stockade.runs.result import Result

_ISOLATED_WAYS = ("overlay", "copy")


def with_project(plan: Plan, job: Job) -> Job:
    """Return the job with the scan of the folder behind its workspace.

    Raises ``JobError`` if the job asks for something that its workspace excludes.
    """
    files = plan.policy.filesystem
    if job.files and files.workspace != "empty":
        raise JobError("files and archives need an empty workspace, and the policy sets a folder of the host")
    if job.artifacts and files.way == "read":
        raise JobError("artifacts: the policy's workspace is read-only, so nothing can come out of it")
    if files.workspace == "empty":
        return job
    shown = (*files.read, *files.write)
    check_workspace(plan.policy)
    project = scan.scan_project(files.workspace, files.way, files.hidden, files.kept, shown)
    return replace(job, project=project)


def refuse_all(plan: Plan, job: Job) -> None:
    """Refuse everything that a backend without support for workspaces would silently ignore.

    A backend whose ``traits.keeps_workspaces`` is true takes ``job.project`` and ``job.artifacts`` into account itself.
    """
    files, name = plan.policy.filesystem, plan.backend
    hidden = job.project is not None and job.project.hidden
    wanted = {
        "artifacts": bool(job.artifacts),
        f"filesystem.access={files.way!r}": files.way in _ISOLATED_WAYS or files.access == "read",
        f"filesystem.hidden, which has {min(hidden or ['x'])!r} in it": bool(hidden),
        "filesystem.protected": bool(files.kept),
    }
    for what, is_wanted in wanted.items():
        if is_wanted:
            raise JobError(f"{what}: the backend {name} does not support it; use the native backend, or leave it out")


def with_collection(launch: Launch, job: Job, policy: Policy) -> Launch:
    """Return the launch with the order for the collector, if the job or the policy asks for files."""
    way = policy.filesystem.way
    if not (job.artifacts or way in _ISOLATED_WAYS):
        return launch
    copied = any(step[0] == "copy" for step in launch.steps)
    order = Collect(
        patterns=job.artifacts,
        everything=way in _ISOLATED_WAYS,
        overlaid=way == "overlay" and not copied,
        copied=copied,
        own=way != "write" or policy.filesystem.workspace == "empty",
        skip=tuple(job.project.hidden) if job.project else job.inputs,
        files=job.caps.files,
        file_bytes=job.caps.file_bytes,
        total_bytes=job.caps.total_bytes,
    )
    return launch.adding(collect=order, project=job.project)


def finished(result: Result, launch: Launch, collected: CollectedFiles | None) -> Result:
    """Return the result with the collected files, and without the guarantees that the job gave up."""
    if launch.concessions:
        less = {Guarantee(name): Enforcement.absent(why) for name, why in launch.concessions.items()}
        result = replace(result, enforcement=FrozenDict({**result.enforcement, **less}))
    if collected is None or launch.collect is None:
        return result
    return replace(result, **_artifacts(collected, launch.collect), **_changes(collected, launch))


def _artifacts(collected: CollectedFiles, order: Collect) -> dict[str, Any]:
    if not order.patterns:
        return {}
    wanted = {path: content for path, (_, content) in collected.files.items() if _is_wanted(path, order)}
    refused = [item for item in collected.refused if _may_be_wanted(item, order)]
    links = [Refused(path, "is a symbolic link") for path in collected.links if _is_wanted(path, order)]
    return {
        "artifacts": FrozenDict(wanted),
        "artifacts_refused": (*refused, *links),
        "artifacts_error": collected.error,
        "artifact_modes": FrozenDict({path: collected.files[path][0] for path in wanted}),
    }


def _is_wanted(path: str, order: Collect) -> bool:
    return any(patterns.matches(path, pattern) for pattern in order.patterns)


def _may_be_wanted(item: Refused, order: Collect) -> bool:
    """Return whether ``item`` may be wanted: a folder that was not entered may have held wanted files."""
    return not order.everything or _is_wanted(item.path, order) or "folders" in item.reason


def _changes(collected: CollectedFiles, launch: Launch) -> Mapping[str, Any]:
    project: Project | None = launch.project
    if project is None or launch.collect is None or not launch.collect.everything:
        return {}
    found = changes(project, collected)
    return {"changes": ChangeSet(found, tuple(collected.refused), collected.error, project)}
