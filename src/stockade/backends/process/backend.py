"""The process backend: an ordinary process under resource limits, Landlock and a system-call filter.

For hosts that allow no namespaces. The plan names the guarantees that this backend cannot hold: a guest can see other
processes, and nothing bounds the sum of what it writes. ``landlock`` is the same backend, but requires Landlock.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stockade.backends.base import Availability, Traits
from stockade.backends.process.capabilities import capabilities
from stockade.backends.shared.guest_environment import (
    DEVICES,
    check_paths,
    check_reachable,
    collect_steps,
    copy_steps,
    environment,
    network_files,
)
from stockade.backends.shared.limits import LOOSE, filter_steps, filters_syscalls, groups, rlimits, watch
from stockade.core.errors import JobError
from stockade.core.launch import Launch, encode_steps
from stockade.linux import places
from stockade.linux.landlock import SCOPED_SINCE, Ruleset
from stockade.planning import syscall_filter
from stockade.policy.guarantees import Enforcement, Guarantee, Isolation

if TYPE_CHECKING:
    from stockade.core.launch import Step
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job

_BASE = encode_steps((("session",),))
_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
"""Git ends if it may not read /etc/gitconfig, and refuses a folder of another owner. A sandbox with its own root has a
file with the same setting."""
# Not all of /proc/self: it also holds the host's mounts and the tables of its network.
_OF_ITSELF = (
    "/proc/meminfo",
    "/proc/cpuinfo",
    *(f"/proc/self/{name}" for name in ("cmdline", "comm", "fd", "limits", "maps", "stat", "statm", "status")),
)


class Process:
    """Runs guests without namespaces: they share the host's."""

    name = "process"
    isolation = Isolation.PROCESS
    traits = Traits(
        shows_programs=True,
        keeps_workspaces=True,
        no_capabilities_because="the guest has no network of its own, whose ports they could open; use native for that",
    )

    def availability(self, facts: HostFacts) -> Availability:
        """Return whether this host can stop a guest from killing its own supervisor."""
        if facts.uid == 0 or facts.landlock >= SCOPED_SINCE or filters_syscalls(facts):
            return Availability(usable=True)
        return Availability(
            usable=False,
            reason="a guest with your own uid could kill its supervisor: Landlock (ABI 6) and seccomp are missing",
            remedy="start it as root, which gives each run a uid of its own, or use Linux 6.12 or newer",
        )

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:
        """Return the enforcement of each guarantee on this host."""
        return capabilities(facts, policy)

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch. The reaper of the instance removes the run's folder."""
        _check_workspace(plan, job, self.name)
        if not plan.policy.security.read_only_root:
            raise JobError(f"security.read_only_root: the {self.name} backend gives the guest no root of its own")
        place = places.name(secrets.token_hex(8))
        command = make_command(f"{place}/job")
        check_paths(plan.policy, plan.facts, command.packages)
        yield launch(plan, job, command, place)


class Landlock(Process):
    """The process backend, on hosts that have Landlock."""

    name = "landlock"

    def availability(self, facts: HostFacts) -> Availability:
        """Return whether this kernel has Landlock."""
        if facts.landlock > 0:
            return super().availability(facts)
        return Availability(
            usable=False,
            reason="this kernel has no Landlock",
            remedy="use Linux 5.13 or newer, booted with landlock in lsm= (see /sys/kernel/security/lsm)",
        )


def launch(plan: Plan, job: Job, command: Command, place: str) -> Launch:
    """Return the launch of ``command``. The files of the command are written into the fresh folder ``place``."""
    policy, facts = plan.policy, plan.facts
    bound, isolated = _bound(policy)
    workspace = bound or f"{place}/workspace"
    sealed = not bound and policy.filesystem.way == "read"
    shown = {name: os.path.realpath(name) for name in job.inputs}
    file_steps = [
        ("file", f"{workspace}/{name}", content, job.mode_of(name), False) for name, content in job.files.items()
    ]
    if facts.uid == 0:
        check_reachable(
            (
                *command.argv[:1],
                *command.readable,
                *command.packages,
                *policy.filesystem.read,
                *filter(None, [bound]),
                *shown.values(),
            )
        )
    return Launch(
        argv=command.argv,
        environment={**_GIT, **environment(policy, job, command, home=f"{place}/tmp")},
        base=_BASE,
        steps=(
            ("place", place),
            ("folder", f"{place}/job", 0o755, False),
            ("folder", f"{place}/tmp", 0o700, True),
            *([("folder", workspace, 0o755, not sealed)] if not bound and not isolated else []),
            *(copy_steps(policy, job, workspace) if isolated else []),
            *(("file", path, content, 0o644, False) for path, content in command.all_files.items()),
            *(file_steps if sealed else []),
            ("become",),
            *([] if sealed else file_steps),
            *(("link", f"{workspace}/{name}", target) for name, target in shown.items()),
            *collect_steps(policy, job, workspace),
            ("chdir", workspace),
            *_limits(plan, command.own_tasks),  # before Landlock, because this step still reads /proc
            *_landlock(plan, command, place, tuple(shown.values())),
            *filter_steps(plan),
        ),
        groups=groups(policy, command.own_tasks - 1),
        watch=watch(policy, facts, own_tasks=command.own_tasks),
        without_namespaces=True,
        host_uid=policy.security.host_uid if facts.uid == 0 else None,
        errnos=syscall_filter.errnos(plan) if filters_syscalls(facts) else {},
        channel=command.channel,
    )


def _bound(policy: Policy) -> tuple[str, bool]:
    """Return the host folder in which the guest works directly, and whether the guest works in a copy instead."""
    files = policy.filesystem
    isolated = files.way in ("overlay", "copy")
    return ("" if files.workspace == "empty" or isolated else files.workspace), isolated


def _check_workspace(plan: Plan, job: Job, name: str) -> None:
    """Refuse the parts of a policy that need a mount namespace."""
    files = plan.policy.filesystem
    if job.project is not None and job.project.hidden and files.way in ("read", "write"):
        raise JobError(
            f"filesystem.hidden: the {name} backend cannot hide {min(job.project.hidden)!r} in a folder that it shows; "
            f"access='copy' leaves it out, hidden=[] shows it, the native backend covers it"
        )
    if files.kept and files.way == "write":
        raise JobError(
            f"filesystem.protected: the {name} backend cannot protect a path inside a writable folder; "
            f"access='copy' never commits it, the native backend protects it"
        )
    if files.workspace == "empty" and files.way == "read" and not plan.facts.landlock and plan.facts.uid != 0:
        raise JobError(
            f"filesystem.access: without Landlock the {name} backend cannot make a workspace read-only for its user"
        )


def _landlock(plan: Plan, command: Command, place: str, shown: tuple[str, ...]) -> list[Step]:
    policy, facts = plan.policy, plan.facts
    if not facts.landlock:
        return []
    network = network_files(policy)
    folder, _ = _bound(policy)
    bound = (folder,) if folder else ()
    system = tuple(path for path, _ in facts.system)
    inner = () if bound else (f"{place}/workspace",)
    own = (f"{place}/tmp", *(inner if policy.filesystem.way != "read" else ()))
    named = (*policy.filesystem.read, *command.packages, *bound)
    readable = (*system, *command.readable, *named, *shown, *network, f"{place}/job", *inner)
    writable = (*own, *policy.filesystem.writable)
    ruleset = Ruleset(
        read=dict.fromkeys((*readable, *_OF_ITSELF)),
        execute=dict.fromkeys((*readable, *writable)),
        read_write=dict.fromkeys((*writable, *(f"/dev/{name}" for name in DEVICES))),
        tcp_bind="all" if policy.network == "host" else (),
        tcp_connect="all" if policy.network == "host" else (),
    )
    exact = dict.fromkeys((*named, *policy.filesystem.writable))
    return [("landlock", ruleset.to_json(), tuple(exact))]


def _limits(plan: Plan, own_tasks: int) -> list[Step]:
    """Return the steps that set resource limits.

    RLIMIT_NPROC counts all tasks of a uid. It decides only if no control group counts the tasks of the run.
    """
    limits = rlimits(plan.policy, plan.facts, own_tasks)
    count = limits.pop("nproc", None)
    if count is None:
        return [("limits", limits)]
    if "pids" not in plan.facts.cgroups:
        return [("limits", limits), ("task_limit", count[0])]
    if plan.facts.uid == 0:
        limits["nproc"] = (count[0] + LOOSE, count[0] + LOOSE)
    return [("limits", limits)]
