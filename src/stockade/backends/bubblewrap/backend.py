"""The bubblewrap backend: the system's ``bwrap`` builds the sandbox, and stockade's warden enforces the limits.

For hosts where only bwrap may create user namespaces. The command line is a pure function of plan and job. bwrap's
status channel shows how the guest ended, because bwrap's exit status does not tell a failed set-up from a failed guest.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stockade.backends.base import Availability, Traits, lacking, unusable
from stockade.backends.bubblewrap.arguments import Arguments
from stockade.backends.bubblewrap.capabilities import capabilities
from stockade.backends.shared.guest_environment import (
    check_nesting,
    check_paths,
    check_reachable,
    collect_steps,
    copy_steps,
    environment,
)
from stockade.backends.shared.limits import PRLIMIT
from stockade.core.dataclass import dataclass
from stockade.core.errors import JobError
from stockade.core.launch import Launch
from stockade.core.report import Failure
from stockade.languages.base import JOB_FOLDER
from stockade.linux import places
from stockade.planning import engines
from stockade.policy.guarantees import Enforcement, Guarantee, Isolation, Strength

if TYPE_CHECKING:
    from stockade.core.launch import Step
    from stockade.core.report import Report
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job

_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}  # of bwrap itself
_TRIAL = ("--unshare-user", "--unshare-pid", "--unshare-net", "--uid", "1000", "--gid", "1000", "--die-with-parent",
          "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "/bin/sh", "-c", "exit 0")  # fmt: skip
_NEEDED = ("--json-status-fd", "--size", "--perms", "--seccomp")
_EXECVP = re.compile(rb"bwrap: execvp (?P<what>.*): (?P<why>[^:\n]*)\n")
_PRLIMIT_FAILED = re.compile(rb"prlimit: failed to execute (?P<what>.*): (?P<why>[^:\n]*)\n")
_MOST = 255
_BECOME = (("become",),)
UNBOUNDED = (
    "bwrap's own file systems end with bwrap, so the workspace is a folder of the host, and nothing bounds the sum of "
    "the files there"
)
_SIGNALS = frozenset(map(int, signal.valid_signals()))
_MISSING = b"No such file or directory"


@dataclass(frozen=True)
class Bubblewrap:
    """Runs guests in bwrap.

    ``arguments`` are extra options before the command; they can open what the policy closes.
    """

    arguments: tuple[str, ...] = ()
    engine: engines.Engine | None = None
    """The engine to use. If unset, the backend looks for bwrap on the host."""

    name = "bubblewrap"
    isolation = Isolation.NAMESPACES
    traits = Traits(
        shows_programs=True,
        maps_one_id=True,
        keeps_workspaces=True,
        no_capabilities_because="bwrap puts the guest below the user namespace that owns its network; use native",
    )

    def availability(self, facts: HostFacts) -> Availability:  # noqa: ARG002
        """Return whether bwrap is installed, new enough, and works."""
        engine = self._engine()
        if found := lacking(engine, _NEEDED, "bubblewrap", "0.8"):
            return found
        if _is_setuid(engine.path):
            return unusable(
                f"{engine.path} is set-user-id, and in that mode it cannot bound a file system",
                f"chmod u-s {engine.path}, and allow users to create user namespaces (see: stockade doctor)",
            )
        if engine.trouble:
            return unusable(engine.trouble, "see: stockade doctor")
        if not os.access(PRLIMIT, os.X_OK):
            return unusable("prlimit is not installed", "apt install util-linux")
        return Availability(usable=True)

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:  # noqa: ARG002
        """Return the enforcement of each guarantee on this host."""
        return capabilities(facts, self._engine(), self.arguments)

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch. It holds no resources."""
        command = make_command(JOB_FOLDER)
        check_paths(plan.policy, plan.facts, command.packages)
        if not plan.policy.security.read_only_root:
            raise JobError(f"security.read_only_root: the {self.name} backend cannot bound the size of a writable root")
        if plan.policy.security.explain_denials:
            raise JobError(f"security.explain_denials: {self.name} does not pass on its filter's listener")
        check_nesting(plan.policy, "bwrap", command.packages)
        _check_workspace(plan, job)
        place = places.name(secrets.token_hex(8)) if needs_place(plan.policy, job) else ""
        yield launch(plan, job, command, self._engine(), self.arguments, place=place)

    def translate(self, report: Report, stderr: bytes) -> Report:
        """Return the report with the guest's exit status in place of bwrap's."""
        return translate(report, stderr)

    def _engine(self) -> engines.Engine:
        return self.engine or engines.look("bwrap", _TRIAL)


def launch(
    plan: Plan, job: Job, command: Command, engine: engines.Engine, more: Sequence[str], *, place: str = ""
) -> Launch:
    """Return the launch of ``command``: bwrap with its arguments, and the data that bwrap reads from descriptors.

    ``place`` is a fresh folder of the host for the workspace, if files of the workspace are to be collected.
    """
    policy, facts = plan.policy, plan.facts
    if facts.uid == 0:
        policy_paths = (*policy.filesystem.read, *policy.filesystem.writable, *command.packages)
        check_reachable((*command.argv[:1], *command.readable, *policy_paths, *map(os.path.abspath, job.inputs)))
    arguments = Arguments(plan, job, command, place=place, disable_userns="--disable-userns" in engine.options)
    arguments.environment(environment(policy, job, command))
    limits, inner = arguments.limits()
    return Launch(
        argv=(engine.path, *arguments.options, *more, "--", *inner, *command.argv),
        environment=_ENVIRONMENT,
        base=arguments.common.base,
        steps=(
            *(_placed(policy, job, place) if place else ()),
            *arguments.steps,
            *collect_steps(policy, job, f"{place}/workspace" if place else policy.filesystem.workspace),
            ("limits", limits),
        ),
        groups=arguments.common.groups,
        watch=arguments.common.watch,
        without_namespaces=True,
        host_uid=policy.security.host_uid if facts.uid == 0 else None,
        channel=command.channel,
        concessions=_concessions(policy, place),
    )


def needs_place(policy: Policy, job: Job) -> bool:
    """Return whether the workspace must be a folder of the host, because bwrap's own file systems end with bwrap."""
    files = policy.filesystem
    return files.way in ("overlay", "copy") or (bool(job.artifacts) and files.workspace == "empty")


def _placed(policy: Policy, job: Job, place: str) -> list[Step]:
    """Return the steps that create the run's own folder. The reaper of the instance removes it."""
    own = f"{place}/workspace"
    made = copy_steps(policy, job, own) if job.project is not None else [("folder", own, 0o755, True)]
    return [("place", place), *made, *_BECOME]


def _concessions(policy: Policy, place: str) -> dict[str, str]:
    return {"disk": UNBOUNDED} if place and policy.asks(Guarantee.DISK) else {}


def _check_workspace(plan: Plan, job: Job) -> None:
    """Refuse an unbounded workspace, unless the policy accepts it, and paths that a guest could replace by links."""
    policy, files = plan.policy, plan.policy.filesystem
    if needs_place(policy, job) and policy.asks(Guarantee.DISK) and Strength.ABSENT is not policy.floor(Guarantee.DISK):
        what = "artifacts" if files.workspace == "empty" else f"filesystem.access={files.way!r}"
        raise JobError(f"{what}: {UNBOUNDED}; accept={{'disk': 'absent'}}, or use the native backend")
    covered = files.kept or (job.project is not None and job.project.hidden)
    if files.way == "write" and files.workspace != "empty" and covered:
        raise JobError(
            "filesystem.hidden and protected: bwrap would look these paths up in a folder where a guest can replace "
            "them by links; use access='copy', hidden=[] and no protected paths, or the native backend"
        )


def translate(report: Report, stderr: bytes) -> Report:
    """Return the warden's report, corrected by bwrap's status channel. A pure function.

    bwrap writes ``exit-code`` only when the command was executed and has ended. Like a shell, bwrap reports a death by
    signal as 128 plus the signal's number. So a guest that exits with such a number counts as killed by that signal.
    """
    if report.cause is not None or report.failure or report.status is None or report.oom_kills:
        return report
    code = _exit_code(report.engine)
    # Without an exit code no program was executed, so this text is bwrap's own. With an exit code, the guest can have
    # written the text, but it gains nothing by that.
    not_executed = (_EXECVP if code is None else _PRLIMIT_FAILED).fullmatch(stderr)
    if not_executed and code in (None, 126, 127):
        missing = not_executed["why"] == _MISSING
        why = b"command not found" if missing else not_executed["why"]
        message = (not_executed["what"] + b": " + why).decode("utf-8", "replace")
        return report.adding(failure=Failure(kind="exec", message=message), status=(127 if missing else 126) << 8)
    if code is None:
        message = stderr.decode("utf-8", "replace").strip()[-300:]
        return report.adding(failure=Failure(kind="setup", message=message or "bwrap ended without a message"))
    if not 0 <= code <= _MOST:  # bwrap's first process inside has the guest's uid, so the guest may control it
        return report.adding(status=int(signal.SIGKILL))
    number = code - 128
    return report.adding(status=number if number in _SIGNALS else code << 8)


def _exit_code(status: bytes) -> int | None:
    for line in status.splitlines():
        try:
            code = json.loads(line).get("exit-code")
        except (ValueError, AttributeError):
            continue
        if isinstance(code, int):
            return code
    return None


def _is_setuid(path: str) -> bool:
    return bool(Path(path).stat().st_mode & stat.S_ISUID)
