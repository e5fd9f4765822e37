"""The launch of a run in gVisor: runsc with its arguments, and the steps that write the bundle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stockade.backends.gvisor import bundle
from stockade.backends.gvisor.capabilities import OWN_TASKS
from stockade.backends.gvisor.runtime import IN_NAMESPACES, OPTIONS
from stockade.backends.oci import backend as oci
from stockade.backends.oci import bundle as oci_bundle
from stockade.backends.oci.bundle import BUNDLE, STATE, STATUS_PATH
from stockade.backends.shared.guest_environment import check_reachable, environment
from stockade.backends.shared.limits import engine_rlimits, groups, rlimits, watch
from stockade.core.errors import JobError
from stockade.core.launch import Launch, encode_steps
from stockade.core.report import Failure
from stockade.core.strict_json import dumps

if TYPE_CHECKING:
    from stockade.core.report import Report
    from stockade.planning.engines import Engine
    from stockade.planning.plan import Plan
    from stockade.runs.job import Command, Job

_HELD_INSIDE = ("nofile", "fsize", "stack", "as")
_START_CPU = 2.0
"""The start is the host kernel's work, and would make the run a bad neighbour."""
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}  # of runsc itself
_OUTER = (
    'folder=$1 channel=$2; shift 2; exec 4<"$folder/result"; "$@" 3>&- 4<&-; status=$?; '
    '[ ! -s "$folder/end" ] || kill -9 $$; [ -z "$channel" ] || cat <&4 >&3; exit $status'
)
"""Runs runsc, and then passes the result on, from a file that is opened before the guest could replace it. If gVisor
ended before the guest, this shell ends by a signal."""
_LARGEST = 1 << 12  # a lower limit on files would hinder the first process


def launch(plan: Plan, job: Job, command: Command, engine: Engine) -> Launch:
    """Return the launch of ``command``."""
    policy, facts = plan.policy, plan.facts
    if facts.uid == 0:
        check_reachable((*command.argv[:1], *command.readable))
    variables = environment(policy, job, command)
    oci.check_variables(variables, "gvisor")
    wanted = rlimits(policy, facts, command.own_tasks)
    inside = {name: wanted[name] for name in _HELD_INSIDE if name in wanted}
    inside, inner = engine_rlimits(inside, facts, _LARGEST)
    first = bundle.first_process(copies=bundle.copies_files(policy, job), channel=command.channel)
    try:
        fields = oci_bundle.fields(plan, job, command, variables, (*first, *inner, *command.argv))
    except UnicodeEncodeError as error:
        raise JobError(
            f"{error.object!r:.80}: the gvisor backend passes arguments, variables and paths as JSON, which holds no "
            "bytes that are not UTF-8; rename it, or use the native backend"
        ) from None
    config = dumps(bundle.adapted(fields, policy, job, inside), compact=True)
    return Launch(
        argv=("/bin/sh", "-c", _OUTER, "sh", *_arguments(command, engine)),
        environment=_ENVIRONMENT,
        base=encode_steps(oci_bundle.base(plan, job)),
        steps=(
            *oci_bundle.steps(plan, job, command),
            *bundle.channel_steps(),
            ("file", f"{BUNDLE}/config.json", config.encode(), 0o600, False),
            ("limits", {}),
        ),
        groups=groups(policy, OWN_TASKS),
        watch=watch(policy, facts).adding(engine_cpu=_START_CPU, sampled_memory=None, counts_tasks=False),
        without_namespaces=True,
        host_uid=policy.security.host_uid if facts.uid == 0 else None,
        channel=command.channel,
    )


def _arguments(command: Command, engine: Engine) -> tuple[str, ...]:
    return (
        bundle.CHANNEL, "channel" if command.channel else "",
        *IN_NAMESPACES, engine.path, f"--root={STATE}", *OPTIONS, f"--log={STATUS_PATH}", "--log-format=json",
        "run", f"--bundle={BUNDLE}", f"--pid-file={STATUS_PATH}", "guest",
    )  # fmt: skip


def translate(report: Report, stderr: bytes, path: str) -> Report:
    """Return the warden's report, corrected by the log and the pid file of runsc at ``path``. A pure function.

    gVisor's kernel ends if it gets no thread.
    """
    early = report.status is not None and os.WIFSIGNALED(report.status)
    if early and report.forks_refused and report.failure is None and report.cause is None:
        return report.adding(cause="processes")
    found = oci.translate(report, stderr, path)
    trouble = ""
    if early and found.failure is not None and oci.started(report):
        trouble = "gVisor ended before the guest; somebody killed it, or the guest killed the container's first process"
    elif stderr.endswith(bundle.NOT_COPIED) and found.status == bundle.NOT_COPIED_STATUS << 8:
        trouble = bundle.NOT_COPIED.decode().strip()
    return found.adding(failure=Failure(kind="setup", message=f"{path}: {trouble}")) if trouble else found
