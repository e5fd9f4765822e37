"""Builds bwrap's command line (bwrap(1)) and the data that it reads from descriptors. Pure functions."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from stockade.backends.shared.guest_environment import (
    HOST_NAME,
    HOSTS,
    OWN_ADDRESS,
    WORKSPACE,
    Showing,
    etc_files,
    host_paths,
    lies_below,
    program_folders,
)
from stockade.backends.shared.limits import engine_rlimits, filters_syscalls, groups, rlimits, watch
from stockade.core.launch import encode_steps
from stockade.linux import files as text_files
from stockade.planning import syscall_filter
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stockade.core.launch import Step
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job
    from stockade.workspace.project import Project

STATUS = 199
_FIRST = 200  # the first descriptor that bwrap reads data from; lower ones belong to the instance
ENGINE_TASKS = 2
"""Tasks of bwrap itself: one outside the sandbox, and its own first process inside."""


class _Options:
    """Options for the command line, and the steps that create the descriptors they refer to."""

    def __init__(self, options: Sequence[str] = (), first: int = _FIRST) -> None:
        self.options = [*options]
        self.steps: list[Step] = []
        self.next = first

    def _add(self, *options: str) -> None:
        self.options += options

    def _descriptor(self, content: bytes) -> str:
        self.steps.append(("data", self.next, content))
        self.next += 1
        return str(self.next - 1)

    def _show(self, path: str, showing: Showing) -> None:
        if path != HOSTS or showing is not Showing.PROGRAM:  # there is a copy of it, with one more line
            self._add("--bind" if showing is Showing.WRITE else "--ro-bind", path, path)

    def _files(self, contents: Mapping[str, bytes]) -> None:
        for path, content in contents.items():
            self._file(path, content)

    def _file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self._add("--perms", f"{mode:04o}", "--file", self._descriptor(content), path)


class Arguments(_Options):
    """All options for one job.

    ``common`` holds those that every job under the plan shares; ``steps`` come after its steps.
    """

    def __init__(self, plan: Plan, job: Job, command: Command, *, place: str, disable_userns: bool) -> None:
        self._facts = plan.facts
        files = plan.policy.filesystem
        isolated = job.project is not None
        self.common = _common_options(
            plan,
            command.readable,
            command.packages,
            own_tasks=command.own_tasks,
            disable_userns=disable_userns,
            placed=bool(place),
            isolated=isolated,
        )
        super().__init__(self.common.options, self.common.next)
        workspace = self.common.workspace
        if place and not isolated:
            self._add("--bind", f"{place}/workspace", WORKSPACE)
        if job.project is not None:
            self._bound(plan.policy, command, job.project, place)
        if plan.policy.network == "host" and not lies_below(HOSTS, files.read):
            self._file(HOSTS, text_files.read(HOSTS).encode("utf-8", "surrogateescape") + b"\n" + OWN_ADDRESS)
        for name in job.inputs:
            self._add("--ro-bind", os.path.realpath(name), f"{workspace}/{name}")
        self._files(command.all_files)
        for name, content in job.files.items():
            self._file(f"{workspace}/{name}", content, job.mode_of(name))
        if files.workspace == "empty" and files.way == "read":
            self._add("--remount-ro", WORKSPACE)
        # In /proc a guest could lower its own oom_score_adj, and the kernel would end other programs first.
        self._add("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", workspace)

    def _bound(self, policy: Policy, command: Command, project: Project, place: str) -> None:
        for path, showing in host_paths(policy, command.readable, command.packages):
            if path == project.path:
                self._project(project, showing, place)
            else:
                self._show(path, showing)

    def _project(self, project: Project, showing: Showing, place: str) -> None:
        """Show the project with an empty mount over each hidden path, or the copy, which lacks the hidden paths."""
        if not place:
            self._show(project.path, showing)
            for name, is_folder in project.hidden.items():
                path = f"{project.path}/{name}"
                empty = ("--tmpfs", path, "--remount-ro", path) if is_folder else ("--ro-bind", "/dev/null", path)
                self._add(*empty)
            return
        copy = f"{place}/workspace"
        self._add("--bind", copy, project.path)
        there = [name for name in project.protected if name in project.entries]
        on_the_way = dict.fromkeys(part for name in there for part in _parents(name))
        for name in (*sorted(on_the_way), *there):
            how = "--bind" if name in on_the_way else "--ro-bind"
            self._add(how, f"{copy}/{name}", f"{project.path}/{name}")

    def environment(self, variables: Mapping[str, str]) -> None:
        """Let bwrap set the guest's environment inside the sandbox.

        bwrap itself runs outside and must never have it (LD_PRELOAD). The variables come through a descriptor, because
        every process on the host can read a command line.
        """
        arguments = [argument for name, value in variables.items() for argument in ("--setenv", name, value)]
        content = "".join(f"{argument}\0" for argument in arguments).encode("utf-8", "surrogateescape")
        self._add("--clearenv", "--args", self._descriptor(content))

    def limits(self) -> tuple[dict[str, tuple[int, int]], tuple[str, ...]]:
        """Return the resource limits to set before bwrap starts, and the command that sets the others inside."""
        contents = [step[2] for step in (*self.common.steps, *self.steps)]
        return engine_rlimits(self.common.limits, self._facts, max(map(len, contents), default=0))


class _CommonOptions(_Options):
    """The options that are the same for every job under a plan."""

    def __init__(
        self,
        plan: Plan,
        readable: tuple[str, ...],
        packages: tuple[str, ...],
        *,
        own_tasks: int,
        disable_userns: bool,
        placed: bool,
        isolated: bool,
    ) -> None:
        super().__init__()
        self._policy = plan.policy
        bound = self._policy.filesystem.workspace
        self.workspace = WORKSPACE if bound == "empty" else bound
        self._namespaces(disable_userns=disable_userns)
        self._system(plan.facts, readable)
        self._scratch(placed=placed)
        for path, showing in () if isolated else host_paths(self._policy, readable, packages):
            self._show(path, showing)
        self._files(etc_files(self._policy))
        if filters_syscalls(plan.facts):
            self._add("--seccomp", self._descriptor(syscall_filter.program(plan, engine=True)))
        self.base = encode_steps((("session",), ("status", STATUS), *self.steps, *(() if placed else (("become",),))))
        self.limits = rlimits(plan.policy, plan.facts, own_tasks)
        self.groups = groups(plan.policy, ENGINE_TASKS + own_tasks - 1)
        self.watch = watch(plan.policy, plan.facts, ENGINE_TASKS, own_tasks, own_network=True)

    def _namespaces(self, *, disable_userns: bool) -> None:
        uid = str(self._policy.security.uid)
        self._add("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
        if self._policy.network != "host":
            self._add("--unshare-net")
        if disable_userns:
            self._add("--disable-userns")
        self._add("--die-with-parent", "--new-session", "--json-status-fd", str(STATUS))
        self._add("--uid", uid, "--gid", uid, "--hostname", HOST_NAME)

    def _system(self, facts: HostFacts, readable: tuple[str, ...]) -> None:
        for path, target in facts.system:
            self._add(*(("--symlink", target, path) if target else ("--ro-bind", path, path)))
        for folder in program_folders(facts, readable):
            self._add("--ro-bind", folder, folder)
        self._add("--proc", "/proc", "--dev", "/dev")

    def _scratch(self, *, placed: bool) -> None:
        """Add the writable file systems. bwrap cannot bound their sum, so each gets a share: the workspace one half."""
        figure = self._policy.limits.figure(Guarantee.DISK)
        shares = [("/tmp", "1777", 4), ("/dev/shm", "1777", 4)]
        if self._policy.filesystem.workspace == "empty" and not placed:
            shares.append((WORKSPACE, "0755", 2))
        for path, mode, share in shares:
            if figure is not None:
                self._add("--size", str(int(figure) // share))
            self._add("--perms", mode, "--tmpfs", path)


@lru_cache(maxsize=64)
def _common_options(
    plan: Plan,
    readable: tuple[str, ...],
    packages: tuple[str, ...],
    *,
    own_tasks: int,
    disable_userns: bool,
    placed: bool,
    isolated: bool,
) -> _CommonOptions:
    return _CommonOptions(
        plan,
        readable,
        packages,
        own_tasks=own_tasks,
        disable_userns=disable_userns,
        placed=placed,
        isolated=isolated,
    )


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
