"""``Remote``: a service as the ``backend`` of ``stockade.run``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stockade.api.elsewhere import Elsewhere
from stockade.core.errors import FieldProblem, JobError, PolicyError
from stockade.core.hints import known_options
from stockade.policy.model import Policy
from stockade.runs.events import LimitReached, OnWarning
from stockade.runs.job import Job
from stockade.runs.result import Result
from stockade.service.client import Client
from stockade.service.client_steps import TABLES, command, source_text
from stockade.workspace.artifacts import ArtifactLimits

_WHY = {
    "secrets": "their values stay in this process",
    "on_ask": "it is a function of this process",
    "caps": "the service bounds the artifacts",
    "stdin": "it is an open file or too large",
}
"""Why a field of a job cannot cross, if not since it is a path of this machine."""


class Remote(Elsewhere):
    """A service as the ``backend`` of ``stockade.run`` and ``run_command``: it gets the job, and plans and runs it.

    ``url``, ``api_key`` and ``patience`` are those of ``Client``. What cannot cross raises ``JobError`` or
    ``PolicyError`` before anything is sent: paths and interpreters of this machine, secrets, functions, and fields of
    the policy that the service's operator sets. Hooks, the audit log and the kill switch are the service's own.
    ``Result.backend`` names the backend and the address of the service.

    >>> stockade.run("print(6 * 7)", backend=stockade.Remote("http://127.0.0.1:8080", api_key="e2b_..."))
    """

    @known_options
    def __init__(self, url: str, api_key: str | None = None, *, patience: float = 60.0) -> None:
        self._client = Client(url, api_key, patience=patience)
        self._address = self._client._service.address

    def __repr__(self) -> str:
        """Return the address, and no key."""
        return f"<{type(self).__name__} {self._address}>"

    def run_job(self, job: Job, policy: Policy, on_warning: OnWarning | None) -> Result:
        """Run a job on the service and return its verdict. ``on_warning`` is called here, while the job runs."""
        what, run = _what(job), _request(job) | {"policy": _tables(policy)}
        result = self._client._run(what, run) if on_warning is None else self._followed(what, run, on_warning)
        return replace(result, backend=f"{result.backend} at {self._address}")

    def _followed(self, what: dict[str, Any], run: dict[str, Any], on_warning: OnWarning) -> Result:
        with self._client._streamed(what, run) as events:
            for event in events:
                if isinstance(event, LimitReached) and event.is_warning:
                    on_warning(event)
            return events.result


def _what(job: Job) -> dict[str, Any]:
    return command(job.argv) if job.source is None else source_text(job.source)


def _request(job: Job) -> dict[str, Any]:
    """Return the options of a request for a job. Raises ``JobError`` for a field that means something here only."""
    here = {
        "interpreter": job.interpreter,
        "packages": job.packages,
        "requirements": job.requirements,
        "secrets": job.secrets,
        "on_ask": job.on_ask,
        "caps": job.caps != ArtifactLimits(),
        "archive": job.executables,
        "inputs": job.inputs,
        "stdin": not isinstance(job.stdin, bytes | None),
    }
    for name, value in here.items():
        if value:
            raise JobError(f"{name}: {_WHY.get(name, 'it is of this machine')}, so a service cannot have it")
    fields: dict[str, Any] = {"stdin": job.stdin, "files": job.files, "environment": job.environment}
    fields |= {"artifacts": job.artifacts, "labels": job.labels}
    return fields if job.source is None else fields | {"language": job.language, "arguments": job.arguments}


def _tables(policy: Policy) -> dict[str, Any]:
    """Return what a request sets of a policy. Raises ``PolicyError`` for the fields that the operator sets."""
    default, reason = Policy(), f"a service takes {', '.join(TABLES)}; its operator sets the rest"
    problems = [
        FieldProblem(name, repr(getattr(policy, name))[:80], reason)
        for name in sorted(policy.model_fields_set - {*TABLES})
        if getattr(policy, name) != getattr(default, name)
    ]
    if problems:
        raise PolicyError(problems)
    found: dict[str, Any] = policy.model_dump(mode="json", exclude_unset=True, include={*TABLES})
    return found
