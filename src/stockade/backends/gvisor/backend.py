"""The gvisor backend: runsc makes a container for each run, whose system calls a kernel in user space answers.

The bundle is that of the oci backend in runsc's words. runsc, its helper for files and gVisor's kernel descend from the
instance's reaper. So limits, watching and the end of everything are the warden's, as for every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stockade.backends.base import Availability, Traits, unusable
from stockade.backends.shared import refusals
from stockade.core.dataclass import dataclass
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
_NO_PATHS = f"gVisor shows no path of the host but programs; {_INSTEAD}"
_NO_FOLDERS = f"gVisor shares no folder and no network with the host; {_INSTEAD}"
_OWN_CALLS = f"gVisor's own kernel answers all calls; {_INSTEAD}"


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
        no_signals_because="gVisor hides the guest's processes from the host; use cancel, or the native backend",
        refuses=refusals.refuses(
            {
                **dict.fromkeys(("filesystem.read", "filesystem.write", "filesystem.workspace"), _NO_PATHS),
                "network='host'": f"a guest of gVisor has no network; {_INSTEAD}",
                **dict.fromkeys(
                    ("security.syscalls", "security.syscalls_file", "security.explain_denials"), _OWN_CALLS
                ),
                "security.read_only_root": f"the root of the guest is a folder of the host; {_INSTEAD}",
                **dict.fromkeys(("packages", "inputs", "artifacts", "secrets", "on_ask"), _NO_FOLDERS),
            }
        ),
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
        refusals.check(self.name, job, self.traits.refuses)

    @contextmanager
    def prepare(self, plan: Plan, job: Job, make_command: Callable[[str], Command]) -> Iterator[Launch]:
        """Yield the launch. It holds no resources: the bundle ends with the run's mount namespace."""
        self.check(job)
        yield load(f"{_PACKAGE}.launching:launch")(plan, job, make_command(JOB_FOLDER), self._engine())

    def translate(self, report: Report, stderr: bytes) -> Report:
        """Return the report with the guest's exit status in place of runsc's."""
        translated: Report = load(f"{_PACKAGE}.launching:translate")(report, stderr, self._engine().path)
        return translated

    def _engine(self) -> Engine:
        found: Engine = self.engine or load(f"{_PACKAGE}.runtime:look")()
        return found
