"""The gvisor backend: runsc makes a container for each run, whose system calls a kernel in user space answers.

The bundle is that of the oci backend in runsc's words. runsc, its helper for files and gVisor's kernel descend from the
instance's reaper. So limits, watching and the end of everything are the warden's, as for every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stockade.backends.base import Availability, Traits, unusable
from stockade.core.errors import JobError
from stockade.core.loading import load
from stockade.languages.base import JOB_FOLDER
from stockade.policy.guarantees import Enforcement, Guarantee, Isolation

if TYPE_CHECKING:
    from stockade.core.launch import Launch
    from stockade.core.report import Report
    from stockade.planning.engines import Engine
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy
    from stockade.runs.job import Command, Job

_PACKAGE = "stockade.backends.gvisor"
"""Its other modules are loaded late: every selection loads all backends, and few look for runsc."""
_INSTEAD = "use the native backend, or leave it out"


@dataclass(frozen=True)
class Gvisor:
    """Runs guests in containers of gVisor.

    ``engine`` is the runsc to use; if unset, the backend looks for it on the host.
    """

    engine: Engine | None = None

    name = "gvisor"
    isolation = Isolation.USER_KERNEL
    traits = Traits(
        shows_programs=True,
        emulates=True,
        no_capabilities_because="they would open gVisor's own kernel to the guest; use native",
    )

    def availability(self, facts: HostFacts) -> Availability:
        """Return whether runsc is installed and works."""
        if facts.machine != "x86_64":
            return unusable(f"runsc is known to work on x86_64, and this host is {facts.machine}", "use native")
        available: Availability = load(f"{_PACKAGE}.runtime:availability")(self._engine())
        return available

    def capabilities(self, facts: HostFacts, policy: Policy) -> Mapping[Guarantee, Enforcement]:  # noqa: ARG002
        """Return the enforcement of each guarantee by gVisor's kernel, and by the control groups around it."""
        found: Mapping[Guarantee, Enforcement] = load(f"{_PACKAGE}.capabilities:capabilities")(facts)
        return found

    def check(self, job: Job) -> None:
        """Raise ``JobError`` for a job that needs the host's files or network."""
        for name, is_asked in (
            ("packages", bool(job.packages or job.requirements)),
            ("inputs", bool(job.inputs)),
            ("artifacts", bool(job.artifacts)),
            ("secrets", bool(job.secrets)),
            ("on_ask", job.on_ask is not None),
        ):
            if is_asked:
                raise JobError(f"{name}: the gvisor backend shares no folder and no network with a guest; {_INSTEAD}")

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch. It holds no resources: the bundle ends with the run's mount namespace."""
        self.check(job)
        _check(plan.policy)
        yield load(f"{_PACKAGE}.launching:launch")(plan, job, make_command(JOB_FOLDER), self._engine())

    def translate(self, report: Report, stderr: bytes) -> Report:
        """Return the report with the guest's exit status in place of runsc's."""
        translated: Report = load(f"{_PACKAGE}.launching:translate")(report, stderr, self._engine().path)
        return translated

    def _engine(self) -> Engine:
        found: Engine = self.engine or load(f"{_PACKAGE}.runtime:look")()
        return found


def _check(policy: Policy) -> None:
    """Refuse what a guest of gVisor cannot get, or what would be ignored."""
    files, security = policy.filesystem, policy.security
    for name, is_asked, reason in (
        ("filesystem.read", files.read, "it shows no path of the host but programs"),
        ("filesystem.write", files.write, "it shows no path of the host but programs"),
        ("filesystem.workspace", files.workspace != "empty", "it shows no path of the host but programs"),
        ("network='host'", policy.network == "host", "a guest has no network"),
        ("security.syscalls", security.syscalls != "standard", "gVisor's own kernel answers all calls"),
        ("security.syscalls_file", security.syscalls_file, "gVisor's own kernel answers all calls"),
        ("security.explain_denials", security.explain_denials, "gVisor's own kernel answers all calls"),
        ("security.read_only_root", not security.read_only_root, "the root is a folder of the host"),
    ):
        if is_asked:
            raise JobError(f"{name}: the gvisor backend does not support it: {reason}; {_INSTEAD}")
