"""The oci backend: an OCI runtime makes a container for each run, without a daemon and without root's rights.

``crun run`` is a child of the instance's reaper, and the guest a child of it. So limits, watching and the end of
everything are the warden's, as for every engine. The runtime's log and its pid file show whether the container started,
because the runtime's exit status does not tell a failed set-up from a failed guest.

The container's first process waits for its job. So it can be part of an instance that is made ahead of demand.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stockade.backends.base import Availability, Traits
from stockade.backends.oci import bundle, runtime
from stockade.backends.oci.capabilities import capabilities
from stockade.backends.shared.guest_environment import check_nesting, check_paths, check_reachable, environment
from stockade.backends.shared.limits import engine_rlimits, filters_syscalls, groups, rlimits, watch
from stockade.core.dataclass import dataclass
from stockade.core.errors import JobError
from stockade.core.launch import Launch, encode_steps
from stockade.core.report import Failure
from stockade.languages.base import JOB_FOLDER
from stockade.planning import engines, syscall_filter
from stockade.policy.guarantees import LIMITS, Enforcement, Guarantee, Isolation

if TYPE_CHECKING:
    from stockade.core.launch import Step
    from stockade.core.report import Report
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job

ENGINE_TASKS = 3
"""Tasks that are not the guest's: the runtime and its parent outside, and the first process of the container."""
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **bundle.COPY_FOLDER}  # of the runtime itself
_FORK = 0x01200011  # as fork(3) calls clone: CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID and SIGCHLD
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RUNTIME_BYTES = 1 << 17  # files that the runtime writes for itself, with a copy of config.json
_NOT_EXECUTED = re.compile(
    rb"(?:sh: (?:line )?1: (?:exec: )?|prlimit: failed to execute )(?P<what>.*): (?P<why>[^:\n]*)\n"
    rb"(?:sh: (?:line )?1: exec: .*: cannot execute: .*\n)?"
)
_MISSING = (b"not found", b"No such file or directory")
_SIGNALS = frozenset(map(int, signal.valid_signals()))


@dataclass(frozen=True)
class Oci:
    """Runs guests in containers of an OCI runtime.

    ``engine`` is the runtime to use; if unset, the backend looks for crun on the host.
    """

    engine: engines.Engine | None = None

    name = "oci"
    isolation = Isolation.NAMESPACES
    traits = Traits(
        shows_programs=True,
        maps_one_id=True,
        keeps_workspaces=True,
        start="after a run, a container waits for the next one under the same policy, unless the policy or the job "
        "shows paths of the host",
        no_capabilities_because="the container's user namespace owns nothing that a capability opens; use native",
    )

    def availability(self, facts: HostFacts) -> Availability:  # noqa: ARG002
        """Return whether the runtime is installed and works."""
        return runtime.availability(self._engine())

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:  # noqa: ARG002
        """Return the enforcement of each guarantee on this host."""
        return capabilities(facts, runtime.NAME, self._engine())

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch. It holds no resources: the bundle ends with the run's mount namespace."""
        command = make_command(JOB_FOLDER)
        check_paths(plan.policy, plan.facts, command.packages)
        _check(plan, job)
        check_nesting(plan.policy, runtime.NAME, command.packages)
        yield launch(plan, job, command, self._engine())

    def translate(self, report: Report, stderr: bytes) -> Report:
        """Return the report with the guest's exit status in place of the runtime's."""
        return translate(report, stderr, self._engine().path)

    def _engine(self) -> engines.Engine:
        return self.engine or runtime.look()


def launch(plan: Plan, job: Job, command: Command, engine: engines.Engine) -> Launch:
    """Return the launch of ``command``: the runtime with its arguments, and the steps that write the bundle."""
    policy, facts = plan.policy, plan.facts
    if facts.uid == 0:
        policy_paths = (*policy.filesystem.read, *policy.filesystem.writable, *command.packages)
        check_reachable((*command.argv[:1], *command.readable, *policy_paths, *map(os.path.abspath, job.inputs)))
    variables = environment(policy, job, command)
    check_variables(variables, "oci")
    limits, inner = engine_rlimits(rlimits(policy, facts, command.own_tasks), facts, _RUNTIME_BYTES)
    try:
        config = bundle.config(plan, job, command)
        code = bundle.job_code((*inner, *command.argv), variables)
    except UnicodeEncodeError as error:
        raise JobError(
            f"{error.object!r:.80}: the oci backend passes arguments, variables and paths as JSON, which holds no "
            "bytes that are not UTF-8; rename it, or use the native backend"
        ) from None
    waits = bundle.can_wait(plan, job, command)
    container: tuple[Step, ...] = (
        ("file", f"{bundle.BUNDLE}/config.json", config.encode(), 0o600, False),
        ("limits", limits),
        ("engine", bundle.JOB_PIPE, (engine.path, *_arguments(command)), _ENVIRONMENT, waits),
    )
    base, steps = bundle.base(plan, job), bundle.steps(plan, job, command)
    return Launch(
        argv=command.argv,
        environment={},
        base=encode_steps((*base, *container) if waits else base),
        steps=(*steps, *(() if waits else container), ("engine_job", code)),
        groups=groups(policy, ENGINE_TASKS + command.own_tasks - 1),
        watch=watch(policy, facts, ENGINE_TASKS, command.own_tasks, own_network=True),
        without_namespaces=True,
        host_uid=policy.security.host_uid if facts.uid == 0 else None,
        channel=command.channel,
    )


def _arguments(command: Command) -> tuple[str, ...]:
    return (
        f"--root={bundle.STATE}", "--cgroup-manager=disabled", f"--log=file:{bundle.STATUS_PATH}", "--log-format=json",
        "run", "--no-new-keyring", f"--bundle={bundle.BUNDLE}", f"--pid-file={bundle.STATUS_PATH}",
        *(("--preserve-fds=1",) if command.channel else ()), "guest",
    )  # fmt: skip


def _check(plan: Plan, job: Job) -> None:
    """Refuse what the runtime cannot do, and paths that a guest could replace by links."""
    policy = plan.policy
    if filters_syscalls(plan.facts) and not syscall_filter.allows(plan, "clone", (_FORK,)):
        raise JobError(
            "security.syscalls: the filter refuses fork, by which the first process in a container starts the guest's "
            "command; use another filter, or the native backend"
        )
    if not policy.security.read_only_root:
        raise JobError("security.read_only_root: the oci backend gives a guest no writable root; use native")
    if policy.security.explain_denials:
        raise JobError("security.explain_denials: crun does not pass on its filter's listener; use native")
    files = policy.filesystem
    covered = files.kept or (job.project is not None and job.project.hidden)
    if files.way == "write" and files.workspace != "empty" and covered:
        raise JobError(
            "filesystem.hidden and protected: crun would look these paths up in a folder where a guest can replace "
            "them by links; use access='copy', hidden=[] and no protected paths, or the native backend"
        )


def check_variables(variables: Mapping[str, str], backend: str) -> None:
    """Refuse variables that the shell, which is a container's first process, would drop."""
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            raise JobError(
                f"environment: {name!r}: the first process in a container of the {backend} backend is a shell, which "
                "drops variables with such names; use letters, digits and underscores, or the native backend"
            )


def translate(report: Report, stderr: bytes, path: str) -> Report:
    """Return the warden's report, corrected by the log and the pid file of the runtime at ``path``. A pure function.

    Like a shell, the runtime reports a death by signal as 128 plus the signal's number. So a guest that exits with such
    a number counts as killed by that signal.
    """
    if report.failure or report.oom_kills or (report.cause is not None and report.cause not in LIMITS):
        return report
    started, error = _status(report.engine)
    if error or not started:
        return report.adding(failure=Failure(kind="setup", message=f"{path}: {error or _silent(report, stderr)}"))
    if report.cause is not None or report.status is None:
        return report
    if os.WIFSIGNALED(report.status):
        number = os.WTERMSIG(report.status)
        message = f"{path}: signal {number} from outside ended the runtime, and the container with it"
        return report.adding(failure=Failure(kind="setup", message=message))
    code = os.WEXITSTATUS(report.status)
    not_executed = _NOT_EXECUTED.fullmatch(stderr)
    if not_executed and code in (126, 127):
        why = b"command not found" if not_executed["why"] in _MISSING else not_executed["why"]
        message = (not_executed["what"] + b": " + why).decode("utf-8", "replace")
        return report.adding(failure=Failure(kind="exec", message=message), status=code << 8)
    number = code - 128
    return report.adding(status=number if number in _SIGNALS else code << 8)


def started(report: Report) -> bool:
    """Return whether the runtime started the container, and logged no error."""
    begun, error = _status(report.engine)
    return begun and not error


def _status(text: bytes) -> tuple[bool, str]:
    """Return whether the runtime wrote the container's pid, and the first error of its log."""
    started = re.search(rb"^[0-9]+", text, re.MULTILINE) is not None
    for line in re.findall(rb"\{.*\}", text):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("level") == "error":
            return started, str(entry.get("msg"))
    return started, ""


def _silent(report: Report, stderr: bytes) -> str:
    if report.cause is not None:
        return f"the container had not started when the limit on {report.cause} was met"
    return stderr.decode("utf-8", "replace").strip()[-300:] or "the runtime ended before the container started"
