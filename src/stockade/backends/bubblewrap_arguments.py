"""bwrap's command line (bwrap(1)), and what it reads from descriptors: pure functions of plan and job."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stockade._guarantees import Guarantee
from stockade.backends.limits import LOOSE, rlimits
from stockade.backends.surroundings import HOST_NAME, WORKSPACE, Showing, etc_files, host_paths, program_folders
from stockade.linux import limits as kernel_limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stockade._job import Command, Job
    from stockade._launch import Step
    from stockade._plan import Plan

STATUS = 199
_FIRST = 200  # descriptors that bwrap reads; below them are the cell's own
ENGINE_TASKS = 2
"""Tasks of bwrap's: one outside, and its own first process inside."""
_INSIDE = 1
_LEAST_FILES = 64  # what bwrap opens for itself, and some more


class Arguments:
    """``words`` for the command line, and the steps that lay ready what they refer to: ``common`` to every job under a
    plan, and ``own`` to this one."""

    def __init__(self, plan: Plan, job: Job, command: Command, *, disable_userns: bool, program: bytes | None) -> None:
        self._plan = plan
        self._policy = plan.policy
        self._job = job
        self._command = command
        self._next = _FIRST
        bound = self._policy.filesystem.workspace
        self.workspace = WORKSPACE if bound == "empty" else bound
        self.words: list[str] = []
        self.common: list[Step] = []
        self.own: list[Step] = []
        self._namespaces(disable_userns=disable_userns)
        self._system()
        self._scratch()
        self._bound()
        self._files(self.common, etc_files(self._policy))
        if program is not None:
            self._add("--seccomp", self._descriptor(self.common, program))
        self._files(self.own, dict(command.files))
        self._files(self.own, {f"{self.workspace}/{name}": content for name, content in job.files.items()})
        self._add("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", self.workspace)

    def environment(self, variables: Mapping[str, str]) -> None:
        """Have the guest's environment set inside: bwrap itself, which runs outside, must never have it (LD_PRELOAD).
        It comes through a descriptor, since everybody can read a command line."""
        words = [word for name, value in variables.items() for word in ("--setenv", name, value)]
        content = "".join(f"{word}\0" for word in words).encode("utf-8", "surrogateescape")
        self._add("--clearenv", "--args", self._descriptor(self.own, content))

    def limits(self) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """Return the resource limits to set before bwrap starts, and prlimit's arguments for those that would hinder
        its own work: these are set inside, at the price of one more program."""
        wanted = rlimits(self._policy, self._plan.facts, self._command.own_tasks)
        inner = {}
        if "nproc" in wanted:
            count = wanted.pop("nproc")[0]
            if "pids" not in self._plan.facts.cgroups:  # outside, other processes of the uid count
                inner["nproc"] = (count + _INSIDE, count + _INSIDE)
            elif self._plan.facts.uid == 0:  # the group counts exactly, and a program is saved
                wanted["nproc"] = (count + LOOSE, count + LOOSE)
        inner |= {name: wanted.pop(name) for name in tuple(wanted) if self._hinders(name, wanted[name][0])}
        if not inner:
            return wanted, []
        cut = kernel_limits.prepare(inner)
        words = [f"--{name}={soft}:{hard}" for name, (_, soft, hard) in zip(inner, cut, strict=True)]
        return wanted, [*words, "--"]

    def _hinders(self, name: str, figure: int) -> bool:
        laid = max((len(step[2]) for step in (*self.common, *self.own)), default=0)
        return (name == "nofile" and figure < _LEAST_FILES) or (name == "fsize" and figure < laid)

    def _add(self, *words: str) -> None:
        self.words += words

    def _descriptor(self, steps: list[Step], content: bytes) -> str:
        steps.append(("data", self._next, content))
        self._next += 1
        return str(self._next - 1)

    def _namespaces(self, *, disable_userns: bool) -> None:
        uid = str(self._policy.security.uid)
        self._add("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
        if self._policy.network == "none":
            self._add("--unshare-net")
        if disable_userns:
            self._add("--disable-userns")
        self._add("--die-with-parent", "--new-session", "--json-status-fd", str(STATUS))
        self._add("--uid", uid, "--gid", uid, "--hostname", HOST_NAME)

    def _system(self) -> None:
        for path, target in self._plan.facts.system:
            self._add(*(("--symlink", target, path) if target else ("--ro-bind", path, path)))
        for folder in program_folders(self._plan.facts, self._command.readable):
            self._add("--ro-bind", folder, folder)
        self._add("--proc", "/proc", "--dev", "/dev")

    def _scratch(self) -> None:
        """bwrap's file systems cannot be bounded together, so each has its share: the workspace one half."""
        figure = self._policy.limits.figure(Guarantee.DISK)
        shares = [("/tmp", "1777", 4), ("/dev/shm", "1777", 4)]
        if self._policy.filesystem.workspace == "empty":
            shares.append((WORKSPACE, "0755", 2))
        for path, mode, share in shares:
            if figure is not None:
                self._add("--size", str(int(figure) // share))
            self._add("--perms", mode, "--tmpfs", path)

    def _bound(self) -> None:
        for path, showing in host_paths(self._policy, self._command.readable, self._command.packages):
            self._add("--bind" if showing is Showing.WRITE else "--ro-bind", path, path)
        for name in self._job.inputs:
            self._add("--ro-bind", os.path.realpath(name), f"{self.workspace}/{name}")

    def _files(self, steps: list[Step], laid: dict[str, bytes]) -> None:
        for path, content in laid.items():
            self._add("--perms", "0644", "--file", self._descriptor(steps, content), path)
