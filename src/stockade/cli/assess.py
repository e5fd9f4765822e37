"""Assess a policy: the plan for all guarantees, even if some cannot be held. Pure functions over host facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from stockade.backends.base import Backend
from stockade.backends.shared import refusals
from stockade.core.errors import PlanError
from stockade.core.units import UNLIMITED
from stockade.planning import plan, syscall_filter
from stockade.planning.facts import HostFacts
from stockade.policy.guarantees import Enforcement, Guarantee, Strength
from stockade.policy.model import Policy


@dataclass(frozen=True)
class Assessment:
    """The mechanism of each guarantee, and the error that names the guarantees held too weakly."""

    enforcement: Mapping[Guarantee, Enforcement]
    error: PlanError | None

    @property
    def missing(self) -> Mapping[str, str]:
        """Maps each guarantee that is held too weakly to a sentence that says what is missing."""
        return self.error.missing if self.error else {}


def assess(policy: Policy, facts: HostFacts, backend: Backend) -> Assessment:
    """Return the plan for ``policy``, whether or not it can be held."""
    capabilities = backend.capabilities(facts, policy)
    syscall_filter.read(policy, facts, backend.isolation)
    traits, bounds = backend.traits, backend.traits.bounds_network
    planned = partial(plan.plan, bounds_network=bounds, meters_scripts=traits.meters_scripts)
    refused = refusals.of_policy(policy, traits.refuses)
    error = None
    try:
        planned(policy, facts, backend.name, capabilities, cannot_keep=traits.cannot_keep, refused=refused)
    except PlanError as caught:
        error = caught
    data = policy.model_dump()
    if error and "security.capabilities" in error.missing:
        data["security"]["capabilities"] = ()
    unbounded = plan.unbounded_network(policy, bounds_network=bounds)
    if unbounded:
        data["network"] = "none"
    if not traits.meters_scripts:
        data["languages"] |= dict.fromkeys(policy.languages.caps, UNLIMITED)
    content = Policy.parse(data | {"accept": dict.fromkeys(Guarantee, Strength.ABSENT)})
    enforcement = planned(content, facts, backend.name, capabilities).enforcement
    if unbounded:
        enforcement = {**enforcement, Guarantee.NETWORK: Enforcement.absent(unbounded)}
    return Assessment(enforcement, error)
