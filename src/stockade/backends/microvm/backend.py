"""The microvm backend: a guest in a machine with a kernel of its own, which QEMU emulates in a native sandbox.

The launch of the guest is the native backend's, for the host that the machine is. It travels into a fresh copy of a
saved machine, where a warden like that of every run starts it. Around QEMU stands a second native sandbox. Its guest is
the program ``machine.py``, which takes the launch as a file, passes streams on, and passes on the inner report.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stockade.backends.base import Availability, Traits, planned, unusable
from stockade.backends.native.backend import Native
from stockade.backends.native.backend import launch as native_launch
from stockade.backends.shared import refusals
from stockade.core.errors import JobError
from stockade.core.loading import loading
from stockade.core.report import Failure
from stockade.languages import registry as languages
from stockade.languages.base import JOB_FOLDER
from stockade.policy.guarantees import Guarantee, Isolation
from stockade.policy.model import Policy
from stockade.runs.job import Command, Job

if TYPE_CHECKING:
    from stockade.backends.microvm.image import Image
    from stockade.core.launch import Launch
    from stockade.core.report import Report
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.guarantees import Enforcement

_PROGRAM, _LAUNCH = f"{JOB_FOLDER}/.machine/machine.py", f"{JOB_FOLDER}/launch"
_START_CPU = 5.0
"""Loading the state is the kernel's work, and would make the run a bad neighbour."""
_TASKS, _FILES, _SPACE = 32, 128, 1 << 20
"""Threads and descriptors of QEMU, and the disk for its log."""
_ACCEPT = {"memory": "supervisor", "swap": "absent", "cpu_rate": "absent"}
"""What the machine's own kernel holds, so that the host need not: all its memory is one bounded block."""
_OF_THE_MACHINE = (
    "peak_memory", "peak_sockets", "past_soft_memory", "peak_processes", "oom_kills", "oom_outside", "forks_refused",
    "disk_free", "inodes_free",
)  # fmt: skip
"""Readings that only the warden in the machine can make. Those of the warden outside are QEMU's."""
_CAUSES = ("memory", "setup")
"""For all else that ends a run, the warden outside ends it."""
_MOST_WORDS = 1000
_COUNTS, _STATUSES, _CALLS = range(1 << 64), range(1 << 16), range(-(1 << 31), 1 << 31)
_BUILD = "stockade images build microvm"
_REFUSED = (
    "filesystem.read", "filesystem.write", "filesystem.workspace", "network='host'", "security.host_uid",
    "packages", "inputs", "artifacts", "secrets", "on_ask",
)  # fmt: skip
_INSTEAD = "use the native backend, or leave it out"


class MicroVM:
    """Runs guests in machines of QEMU's, each a fresh copy of one that was saved when it was ready."""

    name = "microvm"
    isolation = Isolation.OWN_KERNEL
    traits = Traits(
        brings_programs=True,
        keeps_capabilities=True,
        maps_one_id=True,
        emulates=True,
        start="each run gets a copy of a machine that was saved when it was ready",
        no_signals_because="the guest is a process of the machine's own; use cancel, or the native backend",
        refuses=refusals.refuses(
            dict.fromkeys(_REFUSED, f"a machine shares no folder, no network and no user with the host; {_INSTEAD}")
        ),
    )

    def __init__(self) -> None:
        self._around = Native()

    def availability(self, facts: HostFacts) -> Availability:
        """Return whether an image is built, and the sandbox around QEMU can be made here."""
        around = self._around.availability(facts)
        if not around.usable:
            return around
        if facts.machine != "x86_64":
            return unusable(f"machines are built for x86_64, and this host is {facts.machine}", "use native")
        trouble = _look().trouble
        return unusable(trouble, _BUILD) if trouble else Availability(usable=True)

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:
        """Return the enforcement of each guarantee by the machine's kernel and by the sandbox around QEMU."""
        with loading:
            from stockade.backends.microvm.capabilities import capabilities

        return capabilities(facts, policy, _look())

    def check(self, job: Job) -> None:
        """Raise ``JobError`` for a job that needs files or packages of the host."""
        refusals.check(self.name, job, self.traits.refuses)

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch of the program that runs the machine. It holds no resources."""
        self.check(job)
        with loading:
            from stockade.backends.microvm import launching

        found = _look()
        if found.facts is None:
            raise JobError(f"{found.trouble}; {_BUILD}")
        inside = planned(self._around, plan.policy, found.facts)
        content = launching.encoded(native_launch(inside, job, make_command(JOB_FOLDER)))
        around = planned(self._around, _around(plan.policy, found), plan.facts)
        command = _command(found, content)
        made = native_launch(around, Job(argv=command.argv, stdin=job.stdin), command)
        yield made.adding(watch=made.watch.adding(setup_seconds=launching.SETUP_SECONDS, engine_cpu=_START_CPU))

    def translate(self, report: Report, stderr: bytes) -> Report:  # noqa: ARG002
        """Return the report with the guest's end and counters in place of those of the program around it."""
        return translate(report)


def _look() -> Image:
    """Return the image. Its module is loaded late: every selection loads all backends, and few look for a machine."""
    with loading:
        from stockade.backends.microvm import image

    return image.look()


def _around(policy: Policy, found: Image) -> Policy:
    """Return the policy of the sandbox around QEMU: the times and the output of the guest, and QEMU's own needs."""
    limits: dict[str, Any] = {
        name: getattr(policy.limits, name) for name in ("cpu_time", "cpu_rate", "wall_time", "output")
    }
    limits |= {
        "memory": found.most_memory,
        "processes": _TASKS,
        "open_files": _FILES,
        "file_size": _SPACE,
        "disk": _SPACE,
    }
    return Policy(limits=limits, on_output=policy.on_output, accept={**_ACCEPT, **policy.accept})


def _command(found: Image, content: bytes) -> Command:
    python = languages.find("python").interpreter()
    return Command(
        argv=(python.executable, "-I", "-S", "-B", _PROGRAM, found.qemu, str(found.memory), found.state, _LAUNCH),
        files={_LAUNCH: content},
        agent=((_PROGRAM, _program()),),
        readable=(*python.places, found.state),
        channel=True,
    )


@cache
def _program() -> bytes:
    return Path(__file__).with_name("machine.py").read_bytes()


def translate(report: Report) -> Report:
    """Return the warden's report, completed by that of the warden in the machine. A pure function.

    A guest that took over the machine's kernel can invent that report. So it decides nothing that the warden outside
    has decided, and each of its values is checked.
    """
    line, _, channel = report.channel.partition(b"\n")
    kept = report.adding(
        channel=b"", denials=(), denials_truncated=False, **dict.fromkeys(_OF_THE_MACHINE),
    )  # fmt: skip
    if report.failure or report.oom_kills or report.oom_outside or report.cause is not None:
        return kept.adding(oom_kills=report.oom_kills or None, oom_outside=report.oom_outside)
    if report.status is None or os.WIFSIGNALED(report.status):
        return _failed(kept, "the program around the machine was killed from outside")
    try:
        inner = json.loads(line)
        if "trouble" in inner:
            return _failed(kept, str(inner["trouble"])[:_MOST_WORDS])
        return kept.adding(channel=channel, **_inner_fields(inner, report))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _failed(kept, "the machine ended without a report")


def _failed(report: Report, message: str) -> Report:
    return report.adding(failure=Failure(kind="setup", message=f"microvm: {message}"))


def _inner_fields(inner: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Return the fields of the inner report that count. Raises ``TypeError`` for a value of another type."""
    failure = inner["failure"]
    cause = inner["cause"]
    return {
        "status": None if inner["status"] is None else _number(inner["status"], _STATUSES),
        "started": inner["started"] is True,
        **{name: None if inner[name] is None else _number(inner[name]) for name in _OF_THE_MACHINE},
        "locks": _number(inner["locks"]),
        "cause": cause if cause in _CAUSES else None,
        "failure": None if failure is None else _failure(failure),
        "output": [max(mine, _number(its)) for mine, its in zip(report.output, inner["output"], strict=True)],
        "channel_overflow": report.channel_overflow or inner["channel_overflow"] is True,
        "denials": [_denial(*each) for each in inner["denials"]],
        "denials_truncated": inner["denials_truncated"] is True,
    }  # fmt: skip


def _failure(inner: Mapping[str, Any]) -> Failure:
    kind = inner["kind"] if inner["kind"] in ("setup", "init", "exec") else "setup"
    return Failure(kind=kind, message=str(inner["message"])[:_MOST_WORDS])


def _denial(number: object, count: object, words: Sequence[object]) -> tuple[int, int, tuple[int, ...]]:
    first, second, third, fourth, fifth, sixth = map(_number, words)
    return _number(number, _CALLS), _number(count), (first, second, third, fourth, fifth, sixth)


def _number(value: object, within: range = _COUNTS) -> int:
    if type(value) is not int or value not in within:
        raise TypeError(f"{value!r:.80} is not a reading")
    return value
