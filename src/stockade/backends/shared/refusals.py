"""The fields of a policy or of a job that a backend may be unable to honour, by name. Pure functions.

A backend lists what it refuses in ``Traits.refuses``. The plan then refuses such a policy, and ``check`` such a job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stockade.core.errors import JobError

if TYPE_CHECKING:
    from stockade.policy.model import Policy
    from stockade.runs.job import Job

_OF_POLICIES: Mapping[str, Callable[[Policy], object]] = {
    "filesystem.read": lambda policy: policy.filesystem.read,
    "filesystem.write": lambda policy: policy.filesystem.write,
    "filesystem.workspace": lambda policy: policy.filesystem.workspace != "empty",
    "network='host'": lambda policy: policy.network == "host",
    "security.syscalls": lambda policy: policy.security.syscalls != "standard",
    "security.syscalls_file": lambda policy: policy.security.syscalls_file,
    "security.explain_denials": lambda policy: policy.security.explain_denials,
    "security.read_only_root": lambda policy: not policy.security.read_only_root,
    "security.host_uid": lambda policy: policy.security.host_uid is not None,
}
_OF_JOBS: Mapping[str, Callable[[Job], object]] = {
    "packages": lambda job: job.packages or job.requirements,
    "inputs": lambda job: job.inputs,
    "artifacts": lambda job: job.artifacts,
    "secrets": lambda job: job.secrets,
    "on_ask": lambda job: job.on_ask is not None,
}


def refuses(fields: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``fields``, with the reason for each. Raises ``ValueError`` for a field that nothing would look for."""
    unknown = fields.keys() - _OF_POLICIES.keys() - _OF_JOBS.keys()
    if unknown:
        raise ValueError(f"there is no field {', '.join(sorted(unknown))} to refuse")
    return fields


def of_policy(policy: Policy, refused: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of ``policy`` that are among the ``refused`` ones, with the reason for each."""
    return {name: refused[name] for name, is_asked in _OF_POLICIES.items() if name in refused and is_asked(policy)}


def check(backend: str, job: Job, refused: Mapping[str, str]) -> None:
    """Raise ``JobError`` if ``job`` needs one of the ``refused`` fields."""
    for name, is_asked in _OF_JOBS.items():
        if name in refused and is_asked(job):
            raise JobError(f"{name}: the {backend} backend cannot give it: {refused[name]}")
