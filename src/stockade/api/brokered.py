"""The caller's part of a way out: secrets for the proxy of a run, and answers about names that are not listed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stockade.core import log, targets
from stockade.core.errors import JobError

if TYPE_CHECKING:
    from stockade.policy.model import Policy
    from stockade.runs.job import Job


@contextmanager
def opened(job: Job, policy: Policy) -> Iterator[int]:
    """Yield a descriptor for the proxy of the run, or -1 if ``job`` needs none.

    Raises ``JobError`` if the policy has no way out for what ``job`` asks.
    """
    if not job.secrets and job.on_ask is None:
        yield -1
        return
    with log.refusals():
        _check(job, policy)
        from stockade.client.broker import Broker  # few runs need it

        broker = Broker(job.secrets, job.on_ask)
    with broker:
        yield broker.theirs.fileno()


def _check(job: Job, policy: Policy) -> None:
    network = policy.way_out
    if network is None:
        field = "secrets" if job.secrets else "on_ask"
        raise JobError(f"{field}: a bounded way out is needed, such as network=Network(allow=['api.example.com:443'])")
    if job.on_ask is not None and not network.ask:
        raise JobError("on_ask: the policy asks nobody; set ask=True in its network, if its ceiling allows that")
    for name, secret in job.secrets.items():
        if secret.variable in policy.environment.inherit or name in policy.environment.inherit:
            raise JobError(f"secrets: environment.inherit would give the guest the value of {name}")
        for host in secret.hosts:
            if not any(targets.allows(pattern, targets.parse(host)) for pattern in network.targets):
                raise JobError(f"secrets: {name} is for {host}, which network.allow does not list; add {host!r}")
