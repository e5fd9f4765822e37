"""What a job wants of its workspace: what is refused, what is looked up before the run, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stockade.backends.shared.guest_environment import check_workspace
from stockade.core import patterns
from stockade.core.errors import JobError
from stockade.core.frozen import FrozenDict
from stockade.core.launch import Collect
from stockade.core.loading import loading
from stockade.policy.guarantees import Enforcement, Guarantee
from stockade.workspace import scan
from stockade.workspace.artifacts import Refused
from stockade.workspace.changes import Change, changes
from stockade.workspace.project import Project

if TYPE_CHECKING:
    from stockade.client.collected_files import Bundle
    from stockade.core.launch import Launch
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Job
    from stockade.runs.result import Result
    from stockade.workspace.commit import Committed

_KEPT_APART = ("overlay", "copy")


@dataclass(frozen=True)
class Workspace:
    """The project behind a result: where changes are committed to."""

    project: Project

    def commit(self, changes: Sequence[Change], refused: Sequence[Refused], error: str | None) -> Committed:
        """See ``Result.commit``."""
        with loading:
            from stockade.workspace.commit import commit

        return commit(self.project, changes, refused, error)

    def diff(self, changes: Sequence[Change]) -> str:
        """See ``Result.diff``."""
        with loading:
            from stockade.workspace.diff import diff

        return diff(changes)


def looked_up(plan: Plan, job: Job) -> Job:
    """Return the job with what was found in the folder behind its workspace.

    Raises ``JobError`` where it asks for what cannot be.
    """
    files = plan.policy.filesystem
    if job.files and files.workspace != "empty":
        raise JobError("files can be laid into an empty workspace only, and the policy binds one of the host's")
    if job.artifacts and files.way == "read":
        raise JobError("artifacts: the policy's workspace is read-only, so nothing can come out of it")
    if files.workspace == "empty":
        return job
    shown = (*files.read, *files.write)
    check_workspace(plan.policy)
    project = scan.survey(files.workspace, files.way, files.hidden, files.kept, shown)
    return replace(job, project=project)


def refuse_all(plan: Plan, job: Job) -> None:
    """Refuse what a backend that knows nothing of it would pass over without a word.

    A backend whose ``keeps_workspaces`` is true takes ``job.project`` and ``job.artifacts`` into account itself.
    """
    files, name = plan.policy.filesystem, plan.backend
    hidden = job.project is not None and job.project.hidden
    wanted = {
        "artifacts": bool(job.artifacts),
        f"filesystem.access={files.way!r}": files.way in _KEPT_APART or files.access == "read",
        f"filesystem.hidden, which has {min(hidden or ['x'])!r} in it": bool(hidden),
        "filesystem.protected": bool(files.kept),
    }
    for what, is_wanted in wanted.items():
        if is_wanted:
            raise JobError(f"{what}: the {name} backend does not know how to; use the native backend, or do without")


def ordered(launch: Launch, job: Job, policy: Policy) -> Launch:
    """Return the launch with the order for what is to come out of it, if anything is."""
    way = policy.filesystem.way
    if not (job.artifacts or way in _KEPT_APART):
        return launch
    copied = any(step[0] == "copy" for step in launch.steps)
    order = Collect(
        patterns=job.artifacts,
        everything=way in _KEPT_APART,
        overlaid=way == "overlay" and not copied,
        copied=copied,
        own=way != "write" or policy.filesystem.workspace == "empty",
        skip=tuple(job.project.hidden) if job.project else (),
        files=job.caps.files,
        file_bytes=job.caps.file_bytes,
        total_bytes=job.caps.total_bytes,
    )
    return launch.adding(collect=order, project=job.project)


def finished(result: Result, launch: Launch, bundle: Bundle | None) -> Result:
    """Return the result with what came out of the workspace, and with what this job took away from its plan."""
    if launch.loosened:
        less = {Guarantee(name): Enforcement.absent(why) for name, why in launch.loosened.items()}
        result = replace(result, enforcement=FrozenDict({**result.enforcement, **less}))
    if bundle is None or launch.collect is None:
        return result
    return replace(result, **_artifacts(bundle, launch.collect), **_changes(bundle, launch))


def _artifacts(bundle: Bundle, order: Collect) -> dict[str, Any]:
    if not order.patterns:
        return {}
    wanted = {path: content for path, (_, content) in bundle.files.items() if _is_wanted(path, order)}
    refused = [item for item in bundle.refused if _may_be_wanted(item, order)]
    links = [Refused(path, "is a symbolic link") for path in bundle.links if _is_wanted(path, order)]
    return {
        "artifacts": FrozenDict(wanted),
        "artifacts_refused": (*refused, *links),
        "artifacts_error": bundle.error,
        "artifact_modes": FrozenDict({path: bundle.files[path][0] for path in wanted}),
    }


def _is_wanted(path: str, order: Collect) -> bool:
    return any(patterns.matches(path, pattern) for pattern in order.patterns)


def _may_be_wanted(item: Refused, order: Collect) -> bool:
    """A folder that was not entered may have held some."""
    return not order.everything or _is_wanted(item.path, order) or "folders" in item.reason


def _changes(bundle: Bundle, launch: Launch) -> Mapping[str, Any]:
    project: Project | None = launch.project
    if project is None or launch.collect is None or not launch.collect.everything:
        return {}
    found: tuple[Change, ...] = changes(project, bundle)
    return {
        "changes": found,
        "changes_refused": tuple(bundle.refused),
        "changes_error": bundle.error,
        "workspace": Workspace(project),
    }
