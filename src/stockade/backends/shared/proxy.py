"""The proxy of a run, as its launch orders it and as the guest's environment names it. Pure functions of the plan."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from stockade.backends.shared.limits import filters_syscalls
from stockade.core.launch import ProxyOrder
from stockade.core.units import UNLIMITED
from stockade.planning import syscall_filter
from stockade.runs.secret import GATEWAY

if TYPE_CHECKING:
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Job

PORT = 3128
"""The proxy's port on the loopback of the guest's own network."""
_URL = f"http://127.0.0.1:{PORT}"
_PLACES = ("http_proxy", "https_proxy", "all_proxy")
_DIRECT = "localhost,127.0.0.1,::1"


def order(plan: Plan) -> ProxyOrder | None:
    """Return what the proxy of a run under ``plan`` may let through, or ``None`` if the policy has no way out."""
    network = plan.policy.way_out
    if network is None:
        return None
    return ProxyOrder(
        allow=tuple(map(str, network.targets)),
        connections=network.connections,
        requests=_bound(network.requests),
        sent=_bound(network.sent),
        received=_bound(network.received),
        rate=_bound(network.rate),
        connect_seconds=network.connect_time,
        idle_seconds=network.idle_time,
        asks=network.ask,
        ask_seconds=network.ask_time,
        filter=_filter(plan.facts.machine) if filters_syscalls(plan.facts) else b"",
    )


def variables(policy: Policy, job: Job) -> dict[str, str]:
    """Return the variables by which programs find the proxy. Servers of the guest itself stay direct."""
    if policy.way_out is None:
        return {}
    gateway = {GATEWAY: _URL} if job.secrets else {}
    places = {name: _URL for lower in _PLACES for name in (lower, lower.upper())}
    direct = dict.fromkeys(("no_proxy", "NO_PROXY"), _DIRECT)
    return {
        **places,
        **direct,
        **gateway,
        "npm_config_proxy": _URL,
        "npm_config_https_proxy": _URL,
        "NODE_USE_ENV_PROXY": "1",
    }


def _bound(figure: int | str) -> int | None:
    return None if figure == UNLIMITED else int(figure)


@lru_cache(maxsize=2)
def _filter(machine: str) -> bytes:
    return syscall_filter.of_proxy(machine)
