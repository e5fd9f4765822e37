"""The protocol of a backend: its name, its isolation, its traits and three methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from stockade.backends.shared import refusals
from stockade.core.dataclass import dataclass
from stockade.core.errors import BackendUnavailable
from stockade.core.frozen import FrozenDict
from stockade.planning import plan as _plan
from stockade.planning import syscall_filter

if TYPE_CHECKING:
    from stockade.core.launch import Launch
    from stockade.core.report import Report
    from stockade.planning.engines import Engine
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.guarantees import Enforcement, Guarantee, Isolation
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job


@dataclass(frozen=True)
class Availability:
    """Whether a backend can be used on a host, and if not, the reason and the remedy."""

    usable: bool
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Traits:
    """Facts about a backend that hold on every host. The defaults promise nothing."""

    keeps_workspaces: bool = False
    """The backend honours ``job.project`` and ``job.artifacts``. Otherwise every job that needs them is refused."""
    collects_names: bool = False
    """The names of files that a guest leaves can be collected under every policy, at no cost of a guarantee."""
    keeps_capabilities: bool = False
    """The guest can keep ``security.capabilities``. Otherwise the plan refuses a policy that asks for some."""
    shows_programs: bool = False
    """A guest sees the programs of the host at the paths of ``HostFacts.system``, and no others by itself."""
    brings_programs: bool = False
    """The guest's programs and interpreters come from an image, and none of the host's is looked up."""
    no_capabilities_because: str = "this backend gives a guest no capabilities"
    """The reason that this refusal gives."""
    refuses: Mapping[str, str] = field(default_factory=FrozenDict)
    """The fields of a policy or of a job that the backend cannot honour, each with the reason and what to do instead:
    see ``shared.refusals``. The plan refuses such a policy."""
    no_signals_because: str = ""
    """Why a signal of the caller reaches no guest, and what to do instead; empty if it does. Sending one is refused."""
    keeps_sandboxes: bool = False
    """A launch of this backend can be split for a living sandbox: see ``shared.living``."""
    maps_one_id: bool = False
    """The guest has a user namespace that maps no id except ``security.uid``."""
    bounds_network: bool = False
    """The backend gives the guest no way out but the proxy of ``launch.proxy``. Otherwise the plan refuses a policy
    whose ``network`` is a table."""

    meters_scripts: bool = False
    """A meter in the interpreter holds the caps of ``policy.languages``, such as ``frames``. Otherwise the plan refuses
    a policy that sets one."""
    ignores_input: bool = False
    """A guest cannot read standard input, so the command line passes none on."""
    emulates: bool = False
    """Programs run many times slower than elsewhere. So the backend is chosen only if nothing else isolates enough."""
    start: str = ""
    """What a run finds ready, as a sentence without its full stop; empty if it always begins from nothing."""

    @property
    def cannot_keep(self) -> str:
        """Return why a guest can keep no capability, or an empty text if it can."""
        return "" if self.keeps_capabilities else self.no_capabilities_because or Traits.no_capabilities_because


def unusable(reason: str, remedy: str) -> Availability:
    """Return the availability of a backend that cannot be used, with the reason and the remedy."""
    return Availability(usable=False, reason=reason, remedy=remedy)


def lacking(engine: Engine, options: Iterable[str], package: str, version: str) -> Availability | None:
    """Return what to install if ``engine`` is missing or lacks one of ``options``, else ``None``.

    ``version`` is the first version of ``package`` that has all of them.
    """
    if not engine.path:
        return unusable(engine.trouble, f"apt install {package}")
    missing = [option for option in options if engine.options and option not in engine.options]
    if not missing:
        return None
    number = ".".join(map(str, engine.version))
    return unusable(f"{engine.path} {number} has no {', '.join(missing)}", f"install {package} {version} or newer")


class Backend(Protocol):
    """A way to isolate a guest from the host.

    All members are required: ``registry.find`` refuses an object without ``traits``. ``traits = Traits()`` is a valid
    value that promises nothing. A backend can also implement ``ReportTranslator``, ``JobChecker``,
    ``LaunchRepeater``, ``ImageRunner`` or ``PackageIsolator``.
    """

    @property
    def name(self) -> str:
        """A short noun."""

    @property
    def isolation(self) -> Isolation:
        """The kind of barrier between guest and host."""

    @property
    def traits(self) -> Traits:
        """The facts about this backend that hold on every host."""

    def availability(self, facts: HostFacts) -> Availability:
        """Return whether this backend can be used here."""

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:
        """Return the strongest enforcement of each guarantee that this backend offers here under ``policy``."""

    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> AbstractContextManager[Launch]:
        """Return a context manager that yields the launch of ``job``, and on exit releases what the launch holds.

        ``make_command`` returns the command. Its argument is the folder in which the guest finds the job's own files.
        """


@runtime_checkable
class ReportTranslator(Protocol):
    """A backend whose engine stands between warden and guest, and reports itself how the guest ended."""

    def translate(self, report: Report, stderr: bytes) -> Report:
        """Return the warden's report, corrected by what the engine reported in ``report.engine``."""


@runtime_checkable
class JobChecker(Protocol):
    """A backend that runs only some kinds of jobs."""

    def check(self, job: Job) -> None:
        """Raise ``JobError`` for a job that this backend never runs. Nothing was provided or started for it yet."""


@runtime_checkable
class ImageRunner(Protocol):
    """A backend whose guests run in an image."""

    def with_image(self, image: str) -> Backend:
        """Return the backend for guests in ``image``, named by tag or digest."""


@runtime_checkable
class LaunchRepeater(Protocol):
    """A backend whose launches can be sent again with only the source changed."""

    def repeats(self, plan: Plan, job: Job) -> bool:
        """Return whether the launch of a job that differs from ``job`` only in its source differs only in that."""


@runtime_checkable
class PackageIsolator(Protocol):
    """A backend that can show a folder of packages so that the guest reaches no socket in it."""

    def shows_through_overlay(self, plan: Plan, folder: str) -> bool:
        """Return whether the launch shows ``folder``, the packages of a job, in this way."""


def planned(backend: Backend, policy: Policy, facts: HostFacts) -> Plan:
    """Return the plan for ``policy`` on ``backend``.

    Raises ``PlanError`` with every guarantee that the backend cannot hold, ``BackendUnavailable`` if the backend
    cannot be used here, and ``PolicyError`` if the policy's own system-call filter is invalid.
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
        cannot_keep=backend.traits.cannot_keep,
        maps_one_id=backend.traits.maps_one_id,
        bounds_network=backend.traits.bounds_network,
        meters_scripts=backend.traits.meters_scripts,
        refused=refusals.of_policy(policy, backend.traits.refuses),
    )


def require(backend: Backend, facts: HostFacts) -> None:
    """Raise ``BackendUnavailable`` if ``backend`` cannot be used here at all."""
    available = backend.availability(facts)
    if not available.usable:
        raise BackendUnavailable(f"backend {backend.name!r}: {available.reason}; {available.remedy}")
