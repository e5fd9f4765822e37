"""The metered backend: a Python job runs in the metered interpreter, inside a sandbox of the native backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from stockade.backends.base import Availability, Traits
from stockade.backends.native.backend import Native
from stockade.core.errors import JobError
from stockade.embedded.boundary import prices
from stockade.embedded.boundary.attributes import PYTHONS
from stockade.embedded.worker.modules import modules_message
from stockade.languages import base as _base
from stockade.languages import registry as languages
from stockade.policy.guarantees import Enforcement, Guarantee, Strength
from stockade.runs.job import Command, Job

if TYPE_CHECKING:
    from stockade.core.launch import Launch
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy

_AGENT, _MODULES = f"{_base.JOB_FOLDER}/.agent/agent.py", f"{_base.JOB_FOLDER}/.engine/modules.json"
_SOURCE = Path(_base.__file__).parent / "agents" / "metered_agent.py"
_OPERATIONS = Enforcement(
    "metered interpreter",
    Strength.RUNTIME,
    f"exact: units of fuel by price list {prices.VERSION}; code that escaped from the interpreter could count less, "
    "and the other guarantees would still hold it",
)


class Metered:
    """Runs Python source in the metered interpreter. Its walls and all other limits are those of ``native``."""

    name = "metered"
    isolation = Native.isolation
    traits = Traits(
        maps_one_id=True,
        ignores_input=True,
        meters_scripts=True,
        no_capabilities_because="a metered script makes no system calls of its own",
    )

    def __init__(self) -> None:
        self._around = Native()

    def availability(self, facts: HostFacts) -> Availability:
        """Return whether the native backend can be used here."""
        return self._around.availability(facts)

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:
        """Return the enforcement of each guarantee: that of the sandbox, and the meter's count of operations."""
        return {**self._around.capabilities(facts, policy), Guarantee.OPERATIONS: _OPERATIONS}

    def check(self, job: Job) -> None:
        """Raise ``JobError`` for a job that needs more than a metered script has."""
        if job.source is None:
            raise JobError(f"argv: the metered backend runs Python source, and no command; {_INSTEAD}")
        if job.language != "python":
            raise JobError(f"language: the metered backend runs Python source, not {job.language}; {_INSTEAD}")
        for name, (is_asked, why) in _lacking(job).items():
            if is_asked:
                raise JobError(f"{name}: a metered script {why}; {_INSTEAD}")

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:  # noqa: ARG002
        """Yield the launch of the native backend for the metered interpreter."""
        self.check(job)
        command = _command(job, plan)
        with self._around.prepare(plan, job, lambda _folder: command) as launch:
            yield launch.adding(cold="the metered interpreter starts afresh for each script")


_INSTEAD = "use the native backend, or leave it out"


def _lacking(job: Job) -> dict[str, tuple[bool, str]]:
    """Return what a metered script lacks by the name of the option, with whether ``job`` asks for it."""
    return {
        "warm": (bool(job.warm), "starts in a fresh interpreter"),
        "arguments": (bool(job.arguments), "has no command line"),
        "stdin": (job.stdin is not None, "cannot read standard input"),
        "files": (bool(job.files or job.inputs), "cannot open files"),
        "artifacts": (bool(job.artifacts), "cannot write files"),
        "environment": (bool(job.environment), "cannot read environment variables"),
        "secrets": (bool(job.secrets), "has no network"),
        "on_ask": (job.on_ask is not None, "has no network"),
        "packages": (bool(job.packages or job.requirements), "imports only the modules on the page of the language"),
    }


def _command(job: Job, plan: Plan) -> Command:
    """Return the command that runs the job's source in the metered interpreter."""
    found = languages.find("python").interpreter(job.interpreter)
    if found.version[:2] not in PYTHONS:
        known = ", ".join(".".join(map(str, each)) for each in sorted(PYTHONS))
        raise JobError(f"interpreter: the metered backend is vetted for CPython {known}, not for {found.release}")
    script = f"{_base.JOB_FOLDER}/{job.name or 'main.py'}"
    most, caps = plan.policy.limits.figure(Guarantee.OPERATIONS), dict(plan.policy.languages.caps)
    if most is not None:
        caps["fuel"] = int(most)
    is_own = found == languages.find("python").interpreter()
    return Command(
        argv=(found.executable, "-I", "-B", _AGENT, _MODULES, json.dumps(caps), script),
        # The modules are too large for the part of a launch that instances apply ahead of demand.
        files={script: job.source or b"", _MODULES: modules_message(compiled=is_own)},
        agent=((_AGENT, _agent()),),
        readable=found.places,
        channel=True,
    )


@cache
def _agent() -> bytes:
    return _SOURCE.read_bytes()
