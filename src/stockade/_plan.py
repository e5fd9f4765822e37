"""Planning: which mechanism holds each guarantee of a policy, and whether that is enough. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stockade._errors import PlanError
from stockade._frozen import FrozenDict
from stockade._guarantees import LIMITS, Enforcement, Guarantee, Strength

if TYPE_CHECKING:
    from stockade._facts import HostFacts
    from stockade._policy import Policy


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy that can be held here: the backend, and what holds each guarantee."""

    backend: str
    policy: Policy
    facts: HostFacts
    enforcement: Mapping[Guarantee, Enforcement]


def plan(policy: Policy, facts: HostFacts, backend: str, capabilities: Mapping[Guarantee, Enforcement]) -> Plan:
    """Return the plan for ``policy``, given what ``backend`` is capable of on this host.

    Raises ``PlanError`` with a sentence for every guarantee that is asked for and not held strongly enough.
    """
    enforcement = {}
    missing = {}
    for guarantee in Guarantee:
        if not policy.asks(guarantee):
            enforcement[guarantee] = Enforcement.absent(_not_asked(guarantee))
            continue
        held = _under_policy(guarantee, capabilities[guarantee], policy)
        floor = policy.floor(guarantee)
        enforcement[guarantee] = held
        if not held.strength.holds(floor):
            missing[guarantee.value] = _shortfall(guarantee, held, floor)
    if missing:
        raise PlanError(backend, missing)
    return Plan(backend, policy, facts, FrozenDict(enforcement))


def _not_asked(guarantee: Guarantee) -> str:
    if guarantee is Guarantee.NETWORK:
        return "the policy gives the host's network: services on its loopback and cloud metadata addresses are in reach"
    return "not asked for: unlimited"


def _under_policy(guarantee: Guarantee, held: Enforcement, policy: Policy) -> Enforcement:
    """Weaken what a backend can do in general by what this policy opens."""
    if guarantee is Guarantee.DISK and policy.filesystem.write:
        return Enforcement.absent(
            f"nothing bounds what is written below {', '.join(policy.filesystem.write)}; "
            f"places that the sandbox makes are held by {held.mechanism}"
        )
    if guarantee is Guarantee.IPC and policy.network == "host":
        note = "abstract unix sockets belong to the network, which is the host's"
        return Enforcement(held.mechanism, held.strength, note)
    return held


def _shortfall(guarantee: Guarantee, held: Enforcement, floor: Strength) -> str:
    have = "nothing holds it" if held.strength is Strength.ABSENT else f"{held.mechanism} is {held.strength} only"
    loosen = f"or accept less: accept={{{guarantee.value!r}: {held.strength.value!r}}}"
    lift = f", or lift it: limits={{{guarantee.value!r}: 'unlimited'}}" if guarantee in LIMITS else ""
    return f"{have}, {floor} is asked for ({held.note or 'no better mechanism here'}); {loosen}{lift}"
