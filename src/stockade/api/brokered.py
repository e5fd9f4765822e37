"""The caller's part of a way out: secrets for the proxy of a run, and answers about names that are not listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from stockade.core import log, targets
from stockade.core.errors import JobError
from stockade.core.frozen import FrozenDict
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Job
    from stockade.runs.secret import Secret


@contextmanager
def opened(job: Job, policy: Policy) -> Iterator[int]:
    """Yield a descriptor for the proxy of the run, or -1 if ``job`` needs none.

    Raises ``JobError`` if the policy has no way out for what ``job`` asks.
    """
    if not job.secrets and job.on_ask is None:
        yield -1
        return
    with log.refusals():
        check(job.secrets, job.on_ask, policy)
        from stockade.client.broker import Broker  # few runs need it

        broker = Broker(job.secrets, job.on_ask)
    with broker:
        yield broker.theirs.fileno()


def with_secrets(plan: Plan, secrets: Mapping[str, Secret]) -> Plan:
    """Return the plan with names and hosts of ``secrets`` in the receipt of its network. No plan has their values."""
    if not secrets:
        return plan
    held = plan.enforcement[Guarantee.NETWORK]
    hosts = ", ".join(f"{name} for {' and '.join(secret.hosts)} alone" for name, secret in secrets.items())
    noted = replace(held, note=f"{held.note}; over verified TLS the proxy sets in the secret {hosts}")
    return replace(plan, enforcement=FrozenDict({**plan.enforcement, Guarantee.NETWORK: noted}))


def check(secrets: Mapping[str, Secret], on_ask: Callable[[str], bool] | None, policy: Policy) -> None:
    """Raise ``JobError`` if ``policy`` has no way out for ``secrets`` and ``on_ask``."""
    if not secrets and on_ask is None:
        return
    network = policy.way_out
    if network is None:
        field = "secrets" if secrets else "on_ask"
        needed = dict.fromkeys(each for secret in secrets.values() for each in secret.hosts)
        hosts = [*needed] or ["api.example.com:443"]
        ways = f"{' '.join(f'--allow {host}' for host in hosts):.200}, or network=Network(allow={hosts!r:.200})"
        raise JobError(f"{field}: a bounded way out is needed: {ways}")
    if on_ask is not None and not network.ask:
        raise JobError("on_ask: the policy asks nobody; set ask=True in its network, if its ceiling allows that")
    for name, secret in secrets.items():
        if secret.variable in policy.environment.inherit or name in policy.environment.inherit:
            raise JobError(f"secrets: environment.inherit would give the guest the value of {name}")
        for host in secret.hosts:
            target = targets.parse(host)
            if not any(targets.allows(pattern, target) for pattern in network.targets):
                raise JobError(f"secrets: {name} is for {host}, which network.allow does not list; add {host!r}")
            if not network.takes_secrets(target):
                raise JobError(
                    f"secrets: {name} is for {host}, to which no secret may go by network.secret_hosts of the policy "
                    "or of its ceiling"
                )
