"""What a backend is: a name, an isolation and three questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from stockade.core.errors import BackendUnavailable
from stockade.planning import plan as _plan
from stockade.planning import syscall_filter

if TYPE_CHECKING:
    from stockade.core.launch import Launch
    from stockade.planning.engines import Engine
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.guarantees import Enforcement, Guarantee, Isolation
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job


@dataclass(frozen=True)
class Availability:
    """Whether a backend can be used on a host; if not, why, and what to do about it."""

    usable: bool
    reason: str = ""
    remedy: str = ""


def unusable(reason: str, remedy: str) -> Availability:
    """Return that a backend cannot be used, with why and what to do about it."""
    return Availability(usable=False, reason=reason, remedy=remedy)


def lacking(engine: Engine, options: Iterable[str], package: str, version: str) -> Availability | None:
    """Return what to install where ``engine`` is not there, or knows not all of ``options``; else ``None``.

    ``version`` of ``package`` is the first that has them.
    """
    if not engine.path:
        return unusable(engine.trouble, f"apt install {package}")
    missing = [option for option in options if engine.options and option not in engine.options]
    if not missing:
        return None
    number = ".".join(map(str, engine.version))
    return unusable(f"{engine.path} {number} has no {', '.join(missing)}", f"install {package} {version} or newer")


class Backend(Protocol):
    """One kind of wall around a guest."""

    @property
    def name(self) -> str:
        """A short noun."""

    @property
    def isolation(self) -> Isolation:
        """What stands between guest and host."""

    def availability(self, facts: HostFacts) -> Availability:
        """Return whether this backend can be used here."""

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:
        """Return the best this backend can do here for each guarantee, under a policy like this one."""

    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> AbstractContextManager[Launch]:
        """Return the launch of ``job``; leaving the context gives back what was taken for it.

        ``make_command`` gives the command, for the folder in which the guest will find the job's own files.
        """


@runtime_checkable
class ReportTranslator(Protocol):
    """A backend whose engine stands between the warden and the guest, and tells how the guest ended."""

    def translate(self, report: Mapping[str, Any], stderr: bytes) -> Mapping[str, Any]:
        """Return the warden's report with the engine's words (``report["engine"]``) worked in."""


def planned(backend: Backend, policy: Policy, facts: HostFacts) -> Plan:
    """Return the plan for ``policy`` on ``backend``.

    Raises ``PlanError`` naming every guarantee that cannot be held, ``BackendUnavailable`` where the backend cannot
    be used, ``PolicyError`` if the policy's own system-call filter is none.
    """
    require(backend, facts)
    own_filter = syscall_filter.read(policy, facts, backend.isolation)
    held = backend.capabilities(facts, policy)
    return _plan.plan(
        policy,
        facts,
        backend.name,
        held,
        own_filter=own_filter,
        isolation=backend.isolation,
        cannot_keep=cannot_keep(backend),
    )


def cannot_keep(backend: Backend) -> str:
    """Return why ``backend`` leaves a guest no capability, an empty text if it can; it says so in ``cannot_keep``."""
    return str(getattr(backend, "cannot_keep", "this backend leaves a guest none"))


def require(backend: Backend, facts: HostFacts) -> None:
    """Raise ``BackendUnavailable`` if ``backend`` cannot be used here at all."""
    available = backend.availability(facts)
    if not available.usable:
        raise BackendUnavailable(f"backend {backend.name!r}: {available.reason}; {available.remedy}")
