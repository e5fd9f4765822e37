"""Choosing a backend: by what the policy needs, by how far the code is trusted, then by what a start costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from stockade import _costs
from stockade._errors import BackendUnavailable, PlanError, StockadeError
from stockade._guarantees import Guarantee, Isolation
from stockade.backends import registry
from stockade.backends.base import Backend, planned

if TYPE_CHECKING:
    from stockade._facts import HostFacts
    from stockade._plan import Plan
    from stockade._policy import Policy


class Trust(StrEnum):
    """How far code is trusted."""

    TRUSTED = "trusted"
    """Its author means well: any backend that holds the policy, the one that starts first."""
    SEMI_TRUSTED = "semi-trusted"
    """Namespaces at least, and every limit set."""
    UNTRUSTED = "untrusted"
    """A kernel of its own, unless the policy's ``isolation`` says that less is enough."""


_FLOORS = {
    Trust.TRUSTED: Isolation.PROCESS,
    Trust.SEMI_TRUSTED: Isolation.NAMESPACES,
    Trust.UNTRUSTED: Isolation.OWN_KERNEL,
}
_EVERY_LIMIT = (
    Guarantee.CPU_TIME, Guarantee.WALL_TIME, Guarantee.MEMORY, Guarantee.PROCESSES, Guarantee.OPEN_FILES,
    Guarantee.FILE_SIZE, Guarantee.DISK, Guarantee.OUTPUT,
)  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """What was found of one backend under one policy."""

    backend: Backend
    plan: Plan | None
    trouble: str = ""
    """Why it is not to be had: it cannot be used here, cannot hold the policy, or isolates too little."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """What it cannot hold of the policy, with a sentence each."""
    isolates_too_little: bool = False
    start_seconds: float | None = None
    """The fastest whole run so far, from earlier processes of this user; ``None``: not measured."""


@dataclass(frozen=True)
class Selection:
    """The backend that was chosen, its plan, and why, in a sentence."""

    backend: Backend
    plan: Plan
    reason: str


def select(policy: Policy, facts: HostFacts, trust: Trust | str | None = None) -> Selection:
    """Return the backend for ``policy``.

    Unset, ``trust`` leaves the policy's least isolation as the floor, and the strongest backend is taken.
    Raises ``PlanError`` or ``BackendUnavailable``, with a sentence for each backend, if there is none: what isolates
    less than the floor is never taken instead.
    """
    trust = None if trust is None else _trust(trust)
    seen: list[Candidate] = []
    for backend in _in_order(trust):
        found = consider(backend, policy, facts, trust)
        if found.plan is not None:
            return Selection(backend, found.plan, _reason(found, trust, seen))
        seen.append(found)
    raise none_left(seen)


def named(backend: Backend, policy: Policy, facts: HostFacts, trust: Trust | str | None = None) -> Selection:
    """Return the selection of a backend that the caller named. Raises as ``planned`` does, or for what trust asks."""
    found = consider(backend, policy, facts, None if trust is None else _trust(trust))
    if found.plan is None and (found.isolates_too_little or found.missing):
        raise PlanError(backend.name, found.missing or {"isolation": found.trouble})
    return Selection(backend, found.plan or planned(backend, policy, facts), f"{backend.name}: asked for by name")


def consider(backend: Backend, policy: Policy, facts: HostFacts, trust: Trust | None = None) -> Candidate:
    """Return what there is to say of ``backend`` under ``policy``."""
    cost = _costs.known().get(backend.name)
    floor = least_isolation(policy, trust)
    if not backend.isolation.at_least(floor):
        trouble = f"isolates by {backend.isolation.value} only, and {_whose(policy, trust)} asks for {floor.value}"
        return Candidate(backend, None, trouble, isolates_too_little=True, start_seconds=cost)
    if trust is Trust.SEMI_TRUSTED:
        lifted = [str(limit) for limit in _EVERY_LIMIT if not policy.asks(limit)]
        if lifted:
            trouble = f"semi-trusted code needs every limit set, and the policy lifts {', '.join(lifted)}"
            return Candidate(backend, None, trouble, isolates_too_little=True, start_seconds=cost)
    try:
        return Candidate(backend, planned(backend, policy, facts), start_seconds=cost)
    except BackendUnavailable as error:
        trouble = str(error).removeprefix(f"backend {backend.name!r}: ")
        return Candidate(backend, None, trouble, start_seconds=cost)
    except PlanError as error:
        trouble = f"cannot hold {', '.join(error.missing)}"
        return Candidate(backend, None, trouble, error.missing, start_seconds=cost)


def candidates(policy: Policy, facts: HostFacts, trust: Trust | str | None = None) -> list[Candidate]:
    """Return every backend there is, in the order in which they would be taken."""
    trust = None if trust is None else _trust(trust)
    return [consider(backend, policy, facts, trust) for backend in _in_order(trust)]


def least_isolation(policy: Policy, trust: Trust | None) -> Isolation:
    """Return the floor: the policy's own word, or what the trust asks for, or the profile's."""
    if policy.isolation is not None:
        own = Isolation(policy.isolation)
        needed = _FLOORS[trust] if trust is Trust.SEMI_TRUSTED else own
        return needed if needed.at_least(own) else own
    return _FLOORS[trust] if trust is not None else Isolation.PROCESS


def _trust(word: Trust | str) -> Trust:
    try:
        return Trust(word)
    except ValueError:
        raise PlanError("any", {"trust": f"{word!r} is no trust; there are: {', '.join(Trust)}"}) from None


def _in_order(trust: Trust | None) -> Iterable[Backend]:
    """Strongest first, then cheapest; for trusted code cheapest first.

    The registry has them by cost, and what was measured here does not change that: one policy on one host should
    always get the same walls.
    """
    found = [registry.find(name) for name in (*registry.BUILT_IN, *registry.others())]
    return found if trust is Trust.TRUSTED else sorted(found, key=lambda backend: -backend.isolation.rank)


def _whose(policy: Policy, trust: Trust | None) -> str:
    if policy.isolation is not None:
        return "the policy"
    if trust is Trust.UNTRUSTED:
        return "untrusted code (unless the policy says isolation='namespaces')"
    return f"{trust} code" if trust else "the profile"


def _reason(found: Candidate, trust: Trust | None, passed: list[Candidate]) -> str:
    kind = found.backend.isolation.value
    sort = "the cheapest to start" if trust is Trust.TRUSTED else "the strongest isolation"
    said = f"{found.backend.name}: {sort} that holds the policy here ({kind})"
    if trust is Trust.UNTRUSTED:
        said += ", which the policy says is enough for untrusted code"
    if passed:
        said += "; passed over: " + "; ".join(f"{each.backend.name}, for {each.trouble}" for each in passed)
    return said


def none_left(seen: list[Candidate]) -> StockadeError:
    """Return the error that says why no backend is to be had."""
    if seen[0].missing:  # the first choice can be used, so what it lacks is what to loosen
        return PlanError(seen[0].backend.name, seen[0].missing)
    lines = [
        f"{each.backend.name}: " + ("; ".join(f"{key}: {why}" for key, why in each.missing.items()) or each.trouble)
        for each in seen
    ]
    return BackendUnavailable(f"no backend can hold this policy here: {'; '.join(lines)}")
