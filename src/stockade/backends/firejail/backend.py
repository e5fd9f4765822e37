"""The firejail backend: the set-user-id program ``firejail`` builds the sandbox, stockade's warden enforces the limits.

For hosts where users may not create namespaces and firejail is installed. The command line is a pure function of plan,
job and the entries of the root folder. Inside, a small program (``inside.py``) takes the last steps and reports its
progress, because firejail's exit status does not tell a failed set-up from a failed guest.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stockade.backends.base import Availability, Traits, lacking, unusable
from stockade.backends.firejail.arguments import (
    CONFIGURATION,
    ENGINE_TASKS,
    OWN_HOSTS,
    PROGRAM,
    STATUS,
    WALLS,
    arguments,
)
from stockade.backends.firejail.capabilities import capabilities
from stockade.backends.shared.guest_environment import (
    OWN_NAMES,
    check_nesting,
    check_paths,
    check_reachable,
    environment,
)
from stockade.backends.shared.limits import LOOSE, filters_syscalls, groups, rlimits, watch
from stockade.core.dataclass import dataclass
from stockade.core.errors import JobError
from stockade.core.launch import Launch, encode_steps
from stockade.core.report import Failure
from stockade.core.strict_json import dumps
from stockade.linux import limits as kernel_limits
from stockade.linux import places
from stockade.planning import engines, syscall_filter
from stockade.policy.guarantees import Enforcement, Guarantee, Isolation

if TYPE_CHECKING:
    from stockade.core.launch import Step
    from stockade.core.report import Report
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job

_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}  # of firejail itself
_PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")
_START = f"exec(open({PROGRAM}).read()); main({CONFIGURATION}, {STATUS})"
_TRIAL = (*WALLS, "--net=none", "--x11=none", "--private-etc=passwd", *_PYTHON, "import ctypes")
_NEEDED = (
    *(re.split("[.=]", option)[0] for option in WALLS),
    "--net",
    "--keep-fd",
    "--private-cwd",
    "--private-etc",
    "--whitelist",
)
_REMEDIES = (
    (
        "not allowed to use",
        "use an account other than nobody; if /etc/firejail/firejail.users exists, it must name the account",
    ),
    ("getpwuid", "firejail serves only uids that have an account: create one for this uid"),
)
_NOTES = "/run/firejail"  # where firejail lists its sandboxes
_INODE_BYTES = 4096
_FEW_INODES = 65
_SIGNALS = frozenset(map(int, signal.valid_signals()))


@dataclass(frozen=True)
class Firejail:
    """Runs guests in firejail.

    ``engine`` is the engine to use; if unset, the backend looks for firejail on the host.
    """

    engine: engines.Engine | None = None

    name = "firejail"
    isolation = Isolation.NAMESPACES
    traits = Traits(shows_programs=True, no_capabilities_because="firejail drops all of them; use the native backend")

    def availability(self, facts: HostFacts) -> Availability:  # noqa: ARG002
        """Return whether firejail is installed, new enough, and works for this user."""
        engine = self._engine()
        if found := lacking(engine, _NEEDED, "firejail", "0.9.72"):
            return found
        if engine.trouble:
            remedy = next((remedy for text, remedy in _REMEDIES if text in engine.trouble), "see: stockade doctor")
            return unusable(" ".join(engine.trouble.split()), remedy)
        return Availability(usable=True)

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:  # noqa: ARG002
        """Return the enforcement of each guarantee on this host."""
        return capabilities(facts, self._engine())

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch. The reaper of the instance removes the run's folder."""
        place = places.name(secrets.token_hex(8))
        command = make_command(f"{place}/job")
        check_paths(plan.policy, plan.facts, command.packages)
        if not plan.policy.security.read_only_root:
            raise JobError(f"security.read_only_root: the {self.name} backend gives the guest no root of its own")
        if plan.policy.security.explain_denials:
            raise JobError(f"security.explain_denials: {self.name} does not pass on its filter's listener")
        check_nesting(plan.policy, self.name, command.packages)
        yield launch(plan, job, command, engine=self._engine(), place=place, root=_root())

    def translate(self, report: Report, stderr: bytes) -> Report:
        """Return the report with the guest's exit status in place of firejail's."""
        return translate(report, stderr)

    def _engine(self) -> engines.Engine:
        return self.engine or engines.look("firejail", _TRIAL, as_root=True)


def launch(
    plan: Plan, job: Job, command: Command, *, engine: engines.Engine, place: str, root: Sequence[str]
) -> Launch:
    """Return the launch of ``command``. The files of the command are written into the fresh folder ``place``."""
    policy, facts = plan.policy, plan.facts
    bound = None if policy.filesystem.workspace == "empty" else policy.filesystem.workspace
    workspace = bound or f"{place}/workspace"
    inputs = {name: os.path.realpath(name) for name in job.inputs}
    if facts.uid == 0:
        policy_paths = (*policy.filesystem.read, *policy.filesystem.write, *filter(None, [bound]), *command.packages)
        check_reachable((*command.argv[:1], *command.readable, *policy_paths, *inputs.values()))
    options = arguments(plan, command, place=place, workspace=workspace, inputs=tuple(inputs.values()), root=root)
    return Launch(
        argv=(engine.path, *options, *_PYTHON, _START),
        environment=_ENVIRONMENT,
        base=_base(privileged=facts.uid == 0),
        steps=(
            ("place", place),
            *_disk_steps(plan, job, command, place),
            ("folder", f"{place}/job", 0o755, False),
            ("folder", f"{place}/tmp", 0o700, True),
            ("file", f"{place}/{OWN_HOSTS}", OWN_NAMES, 0o644, False),
            *([("folder", workspace, 0o755, True)] if bound is None else []),
            *(("file", path, content, 0o644, False) for path, content in command.all_files.items()),
            ("become_for_engine",),
            *(
                ("file", f"{workspace}/{name}", content, job.mode_of(name), False)
                for name, content in job.files.items()
            ),
            *(("link", f"{workspace}/{name}", target) for name, target in inputs.items()),
            ("data", PROGRAM, _inside()),
            ("data", CONFIGURATION, _configuration(plan, job, command, place)),
        ),
        groups=groups(policy, ENGINE_TASKS + command.own_tasks - 1),
        watch=watch(policy, facts, ENGINE_TASKS, command.own_tasks, own_network=True),
        without_namespaces=True,
        host_uid=policy.security.host_uid if facts.uid == 0 else None,
        channel=command.channel,
    )


def translate(report: Report, stderr: bytes) -> Report:
    """Return the warden's report, corrected by what the program inside reported. A pure function.

    Like a shell, firejail reports a death by signal as 128 plus the signal's number. So a guest that exits with such a
    number counts as killed by that signal.
    """
    if report.cause is not None or report.failure or report.status is None or report.oom_kills:
        return report
    last = _last_progress(report.engine)
    if last.get("progress") == "not executed":
        missing = last["errno"] in (2, 20)  # ENOENT, ENOTDIR
        why = "command not found" if missing else os.strerror(last["errno"])
        failure = Failure(kind="exec", message=f"{last['reason']}: {why}")
        return report.adding(failure=failure, status=(127 if missing else 126) << 8)
    if last.get("progress") != "exec":
        message = str(last.get("reason") or stderr.decode("utf-8", "replace").strip()[-300:])
        return report.adding(failure=Failure(kind="setup", message=message or "firejail ended without a message"))
    if os.WIFEXITED(report.status):
        number = os.WEXITSTATUS(report.status) - 128
        return report.adding(status=number if number in _SIGNALS else report.status)
    return report


def _last_progress(status: bytes) -> dict[str, Any]:
    for line in reversed(status.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("errno"), int):
            return found
    return {}


@lru_cache(maxsize=2)
def _base(*, privileged: bool) -> bytes:
    """Return the first steps.

    If root starts the run, the run's uid gets an account: firejail refuses a uid without one.
    """
    steps: tuple[Step, ...] = (("session",), ("status", STATUS), *([("account", _NOTES)] if privileged else []))
    return encode_steps(steps)


def _disk_steps(plan: Plan, job: Job, command: Command, place: str) -> list[Step]:
    """Return the step that mounts one file system, which bounds all files of the guest. Only root can mount it."""
    figure = plan.policy.limits.figure(Guarantee.DISK)
    if plan.facts.uid != 0 or figure is None:
        return []
    contents = (*command.all_files.values(), *job.files.values())
    file_bytes = sum(-(-len(content) // _INODE_BYTES) * _INODE_BYTES for content in contents)
    names = _FEW_INODES + sum(name.count("/") + 1 for name in (*job.files, *job.inputs, *command.all_files))
    return [("sized_folder", place, int(figure) + file_bytes, max(names, int(figure) // _INODE_BYTES + names))]


def _configuration(plan: Plan, job: Job, command: Command, place: str) -> bytes:
    program = syscall_filter.program(plan, engine=True) if filters_syscalls(plan.facts) else b""
    fields = {
        "argv": command.argv,
        "environment": environment(plan.policy, job, command, home=f"{place}/tmp"),
        "limits": [(kernel_limits.BY_NAME[name], *pair) for name, pair in _limits(plan, command.own_tasks).items()],
        "filter": base64.b64encode(program).decode(),
        "channel": command.channel,
    }
    return dumps(fields).encode()


def _limits(plan: Plan, own_tasks: int) -> dict[str, tuple[int, int]]:
    """Return the resource limits. They are set inside, because firejail could not do its own work under them."""
    wanted = rlimits(plan.policy, plan.facts, own_tasks)
    if "nproc" in wanted:
        own = ENGINE_TASKS if plan.facts.uid == 0 else 1  # only one of them is inside firejail's user namespace
        count = wanted["nproc"][0] + (LOOSE if "pids" in plan.facts.cgroups else own)
        wanted["nproc"] = (count, count)
    return wanted


@lru_cache(maxsize=1)
def _inside() -> bytes:
    return Path(__file__).with_name("inside.py").read_bytes()


def _root() -> list[str]:
    """Return the entries of the host's root folder, except links: their targets are hidden or shown themselves."""
    return [entry.name for entry in os.scandir("/") if not entry.is_symlink()]
