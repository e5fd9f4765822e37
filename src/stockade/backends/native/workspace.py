"""The steps that show host paths and the project. Pure functions, except two checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.backends.shared.guest_environment import (
    HOSTS,
    OWN_ADDRESS,
    Showing,
    check_protected,
    copy_steps,
    host_paths,
)
from stockade.core.errors import JobError
from stockade.linux import files, overlay

if TYPE_CHECKING:
    from stockade.core.launch import Step
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Job
    from stockade.workspace.project import Project

FILE = ("ro", "nosuid", "nodev")
PROGRAMS = ("ro", "nosuid", "nodev", "follow")
_ATTRIBUTES = {Showing.PROGRAM: PROGRAMS, Showing.READ: FILE, Showing.WRITE: ("nosuid", "nodev")}
OVERLAY_INODES = overlay.INODES


def check_workspace(plan: Plan) -> None:
    """Refuse an access mode that this host cannot offer, and name one that it can."""
    policy = plan.policy
    path, way = policy.filesystem.workspace, policy.filesystem.way
    check_protected(policy)
    if way not in ("overlay", "copy"):
        return
    if not policy.security.read_only_root:
        raise JobError(
            f"filesystem.access: {way!r} needs security.read_only_root: the guest must not reach the changes"
        )
    if way == "copy":
        return
    if plan.facts.no_overlay:
        raise JobError(
            f"filesystem.access: no overlay file system can be mounted here ({plan.facts.no_overlay}); "
            f"access='copy' does not need one"
        )
    below = _mounted_below(path)
    if below and not plan.facts.privileged:
        raise JobError(
            f"filesystem.access: {below} is mounted below the workspace, and only root can overlay a mount; "
            f"access='copy' leaves the mount out"
        )


def _mounted_below(path: str) -> str:
    lines = files.read("/proc/self/mountinfo").splitlines()
    places = [line.split(" ")[4] for line in lines]
    return next((place for place in places if place.startswith(f"{path}/")), "")


def shows_through_overlay(plan: Plan, folder: str) -> bool:
    """Return whether ``folder`` can be shown through an overlay of its own.

    Through an overlay, a guest cannot reach the host's sockets and named pipes in the folder. The overlay would hide
    a mount below the folder, so such a folder is not shown in this way.
    """
    files = plan.policy.filesystem
    fits = not plan.facts.no_overlay and plan.policy.security.read_only_root
    return fits and files.sockets == "closed" and not files.shows_host and not _mounted_below(folder)


def bound(plan: Plan, readable: tuple[str, ...], packages: tuple[str, ...], job: Job | None) -> list[Step]:
    """Return the steps that show host paths, outer ones first. The workspace is one of them."""
    steps: list[Step] = []
    policy = plan.policy
    through_overlay = () if plan.closes_sockets or policy.filesystem.sockets == "open" else packages
    project = job.project if job is not None else None
    for path, showing in host_paths(policy, readable, packages):
        if job is not None and project is not None and path == project.path:
            steps += _project(policy, job, project, _ATTRIBUTES[showing])
        elif path == HOSTS and showing is Showing.PROGRAM:
            steps.append(("longer_file", path, OWN_ADDRESS))
        elif path in through_overlay:
            steps.append(("read_overlay", path))
        else:
            steps.append(("bind", path, path, _ATTRIBUTES[showing]))
    return steps


def _project(policy: Policy, job: Job, project: Project, attributes: tuple[str, ...]) -> list[Step]:
    hide: list[Step] = [("hide", project.path, list(project.hidden.items()))] if project.hidden else []
    there = [name for name in project.protected if _is_there(project, name)]
    protect: list[Step] = [("protect", project.path, there)] if there and project.access != "read" else []
    if project.access == "overlay":
        _, path, _, hidden, most_bytes = copy_steps(policy, job, project.path)[0]
        return [("overlay", path, hidden, most_bytes), *hide, *protect]
    if project.access == "copy":
        return [*copy_steps(policy, job, project.path), *protect]
    return [("bind", project.path, project.path, attributes), *hide, *protect]


def _is_there(project: Project, name: str) -> bool:
    """Return whether a mount can protect ``name``. A missing name is protected only in that it is never committed."""
    return project.access == "write" or (name in project.entries and not project.hides(name))


def pages(content: bytes) -> int:
    """Return the bytes that a file with ``content`` takes in memory, where a tmpfs keeps it."""
    return -(-len(content) // 4096) * 4096
