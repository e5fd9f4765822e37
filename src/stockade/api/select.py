"""Selection of a backend: by the policy's needs, by the trust in the code, and then by the cost of a start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from stockade.backends import registry
from stockade.backends.base import Backend, planned
from stockade.core.dataclass import dataclass
from stockade.core.errors import BackendUnavailable, JobError, PlanError, StockadeError
from stockade.core.loading import loading
from stockade.policy import ceiling as _ceiling
from stockade.policy.guarantees import Guarantee, Isolation

if TYPE_CHECKING:
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.ceiling import Given
    from stockade.policy.model import Policy


class Trust(StrEnum):
    """How far the caller trusts the code."""

    TRUSTED = "trusted"
    """The author means well: the backend that starts fastest among those that hold the policy."""
    SEMI_TRUSTED = "semi-trusted"
    """At least namespaces, and every limit must be set."""
    UNTRUSTED = "untrusted"
    """A kernel of its own, unless the policy's ``isolation`` accepts less."""


_FLOORS = {
    Trust.TRUSTED: Isolation.PROCESS,
    Trust.SEMI_TRUSTED: Isolation.NAMESPACES,
    Trust.UNTRUSTED: Isolation.OWN_KERNEL,
}
_UNTRUSTED = "untrusted code (unless the policy says isolation='namespaces')"
_EVERY_LIMIT = (
    Guarantee.CPU_TIME, Guarantee.WALL_TIME, Guarantee.MEMORY, Guarantee.PROCESSES, Guarantee.OPEN_FILES,
    Guarantee.FILE_SIZE, Guarantee.DISK, Guarantee.OUTPUT,
)  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A backend, and whether it can hold one policy."""

    backend: Backend
    plan: Plan | None
    trouble: str = ""
    """Why it cannot be used: it is unavailable here, cannot hold the policy, or isolates too little."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The guarantees of the policy that it cannot hold, with a sentence for each."""
    would_hold: Callable[[], Mapping[str, str]] = dict
    """Return what the policy must accept so that the backend holds it; empty if accepting less does not help."""
    is_tried: bool = True
    """Whether it was asked at all. One that would be chosen last is not, where another one holds the policy."""


@dataclass(frozen=True)
class Selection:
    """The chosen backend, its plan, and the reason in a sentence."""

    backend: Backend
    plan: Plan
    reason: str


def select(
    policy: Policy, facts: HostFacts, trust: Trust | str | None = None, ceiling: Given | None = None
) -> Selection:
    """Return the first suitable backend for ``policy``, without a look at those after it.

    If ``trust`` is unset, the strongest backend is taken that isolates at least as the policy asks. Raises
    ``PlanError`` or ``BackendUnavailable``, with a sentence for each backend, if no backend is suitable. A backend that
    isolates less is never taken instead.
    """
    return first(candidates(policy, facts, trust, ceiling), trust)


def first(found: Iterable[Candidate], trust: Trust | str | None = None) -> Selection:
    """Return the first candidate that holds the policy, and in its reason the candidates before it."""
    passed: list[Candidate] = []
    for candidate in found:
        if candidate.plan is not None:
            return Selection(candidate.backend, candidate.plan, _reason(candidate, _trust(trust), passed))
        passed.append(candidate)
    raise _none_left(passed)


def candidates(
    policy: Policy, facts: HostFacts, trust: Trust | str | None = None, ceiling: Given | None = None
) -> Iterator[Candidate]:
    """Yield every backend in the order of preference, with its plan for ``policy`` under its ceilings.

    An emulator comes last, and to try one takes long: so it is not tried if a backend before it holds the policy.
    """
    given = _trust(trust)
    policy = _ceiling.applied(policy, ceiling, given)
    holder = ""
    for backend in _in_order(given):
        if holder and backend.traits.emulates:
            why = f"not tried: it is slow, and {holder} holds the policy; see: stockade plan --backend {backend.name}"
            yield Candidate(backend, None, why, is_tried=False)
            continue
        found = _consider(backend, policy, facts, given, ceiling)
        holder = holder or (backend.name if found.plan is not None else "")
        yield found


def named(
    backend: Backend,
    policy: Policy,
    facts: HostFacts,
    trust: Trust | str | None = None,
    ceiling: Given | None = None,
) -> Selection:
    """Return the selection of a backend that the caller named. Raises as ``planned`` and ``require_isolation`` do."""
    policy = _ceiling.applied(policy, ceiling, _trust(trust))
    require_isolation(backend, policy, trust)
    return Selection(backend, planned(backend, policy, facts), f"{backend.name}: named by the caller")


def require_isolation(backend: Backend, policy: Policy, trust: Trust | str | None = None) -> None:
    """Raise ``PlanError`` if ``backend`` isolates less than the policy or the trust requires."""
    trouble = _too_little(backend, policy, _trust(trust))
    if trouble:
        raise PlanError(backend.name, {"isolation": trouble})


def _consider(
    backend: Backend, policy: Policy, facts: HostFacts, trust: Trust | None, ceiling: Given | None
) -> Candidate:
    trouble = _too_little(backend, policy, trust)
    if trouble:
        return Candidate(backend, None, trouble)
    try:
        return Candidate(backend, planned(backend, policy, facts))
    except BackendUnavailable as error:
        return Candidate(backend, None, str(error).removeprefix(f"backend {backend.name!r}: "))
    except PlanError as error:
        accepting = partial(_accepting, backend, policy, facts, trust=trust, ceiling=ceiling, missing=[*error.missing])
        return Candidate(backend, None, f"cannot hold {', '.join(error.missing)}", error.missing, accepting)


def _accepting(
    backend: Backend,
    policy: Policy,
    facts: HostFacts,
    *,
    trust: Trust | None,
    ceiling: Given | None,
    missing: Sequence[str],
) -> Mapping[str, str]:
    """Return the strengths to accept so that ``backend`` holds ``policy``, found by planning with them."""
    with loading:
        from stockade.policy.resolve import with_layers

    if not {*missing} <= {each.value for each in Guarantee}:
        return {}  # a field that the backend refuses, whatever the policy accepts
    held = backend.capabilities(facts, policy)
    for strengths in (
        {name: held[Guarantee(name)].strength.value for name in missing},
        dict.fromkeys(missing, "absent"),
    ):
        try:
            less = _ceiling.applied(with_layers(policy, {"accepted": {"accept": strengths}}), ceiling, trust)
            planned(backend, less, facts)
        except StockadeError:
            continue
        return strengths
    return {}


def _too_little(backend: Backend, policy: Policy, trust: Trust | None) -> str:
    """Return what is missing for this trust and the policy's isolation; an empty text if nothing is."""
    floor, whose = _floor(policy, trust)
    if not backend.isolation.at_least(floor):
        return f"isolates by {backend.isolation.value} only, and {whose} asks for {floor.value}"
    lifted = [str(limit) for limit in _EVERY_LIMIT if not policy.asks(limit)] if trust is Trust.SEMI_TRUSTED else []
    return f"semi-trusted code needs every limit set, and the policy lifts {', '.join(lifted)}" if lifted else ""


def _floor(policy: Policy, trust: Trust | None) -> tuple[Isolation, str]:
    """Return the required isolation, and who requires it: the policy, the trust, or the profile.

    For untrusted code, the policy's ``isolation`` replaces the requirement. For semi-trusted code, it only raises it.
    """
    asked = _FLOORS[trust] if trust is not None else Isolation.PROCESS
    if policy.isolation is not None:
        own = Isolation(policy.isolation)
        if trust is not Trust.SEMI_TRUSTED or own.at_least(asked):
            return own, "the policy"
    if trust is Trust.UNTRUSTED:
        return asked, _UNTRUSTED
    return asked, f"{trust} code" if trust else "the profile"


def _trust(word: Trust | str | None) -> Trust | None:
    try:
        return None if word is None else Trust(word)
    except ValueError:
        raise JobError(f"trust: {word!r} is not a level of trust; there are: {', '.join(Trust)}") from None


def _in_order(trust: Trust | None) -> Iterator[Backend]:
    """Yield all backends, strongest first and then cheapest; for trusted code cheapest first. Emulators come last.

    The registry lists them by cost. Measured times do not change that order: one policy on one host always gets the
    same isolation. A backend is imported when its turn comes.
    """

    def order(name: str) -> tuple[bool, int]:
        isolation, emulates = registry.standing(name)
        return emulates, 0 if trust is Trust.TRUSTED else -isolation.rank

    yield from map(registry.find, sorted((*registry.BUILT_IN, *registry.others()), key=order))


def _reason(found: Candidate, trust: Trust | None, passed: list[Candidate]) -> str:
    kind = found.backend.isolation.value
    sort = "the cheapest to start" if trust is Trust.TRUSTED else "the strongest isolation"
    reason = f"{found.backend.name}: {sort} that holds the policy here ({kind})"
    if trust is Trust.UNTRUSTED and not found.backend.isolation.at_least(Isolation.OWN_KERNEL):
        reason += ", which the policy says is enough for untrusted code"
    if passed:
        reason += "; passed over: " + ", ".join(f"{each.backend.name} ({each.trouble})" for each in passed)
    return reason


def _none_left(seen: list[Candidate]) -> StockadeError:
    """Return the error that explains why no backend is suitable: one line for each, and first what works here."""
    if seen[0].missing:  # the first choice is available, so the caller can loosen what it lacks
        return PlanError(seen[0].backend.name, seen[0].missing)
    lines = [f"{each.backend.name}: {each.trouble}" for each in seen]
    works = next(((each, accept) for each in seen if (accept := each.would_hold())), None)
    if works is None:
        if any(_UNTRUSTED in each.trouble for each in seen):
            lines.insert(0, "works here, if the code may share the host's kernel: isolation='namespaces' in the policy")
        return BackendUnavailable("\n".join(["no backend can hold this policy here", *lines]))
    found, accept = works
    way = f"works here: accept={accept} (backend {found.backend.name}, isolation by {found.backend.isolation.value})"
    return BackendUnavailable("\n".join(["no backend can hold this policy here", way, *lines]), accept)
