"""The base of all parts of the suite: the expectations of a backend, and helpers that run jobs on it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn
from zlib import crc32

import pytest

import stockade

if TYPE_CHECKING:
    from pathlib import Path

    from stockade.backends.base import Backend

Run = Callable[..., stockade.Result]
SLOWER = int(os.environ.get("STOCKADE_SLOWER", "1"))
"""How many times slower than usual this machine is, for example under emulation."""
PATIENT: Mapping[str, Any] = {"wall_time": 20 * SLOWER}
"""A limit on wall time that only a hanging run reaches."""


class Expectations:
    """The promises that the suite expects of a backend. The defaults are the strictest."""

    backend: ClassVar[str | Backend] = "native"
    accept: ClassVar[Mapping[str, str]] = {}
    """Guarantees that the backend holds less strongly than the default floor, in the form of ``Policy.accept``."""
    interpreter: ClassVar[str | None] = None
    """A Python that the guest can reach. If unset, the caller's own."""
    own_root: ClassVar[bool] = True
    """The guest has its own ``/workspace``, ``/tmp`` and ``/dev/shm``, and cannot see the rest of the host."""
    unnamed_file: ClassVar[str] = "FileNotFoundError"
    """The error when the guest opens a host file that the policy does not name, next to one that it names."""
    own_identity: ClassVar[bool] = True
    """The guest sees ``security.uid`` as its uid, and a host name of its own."""
    other_id: ClassVar[int] = errno.EPERM
    """The errno of a call that names an id other than the guest's own."""
    brings_programs: ClassVar[bool] = False
    """The guest's programs come from an image. The host's own are neither looked up nor shown."""
    slows_reads: ClassVar[bool] = True
    """The backend can hold ``limits.io_read`` where the host has the control group for it."""
    finds_names: ClassVar[bool] = True
    """The guest's own host name resolves, and its own uid and root have accounts."""
    has_terminals: ClassVar[bool] = True
    """The guest has pseudo-terminals of its own, apart from the host's."""
    bounds_terminals: ClassVar[bool] = True
    """The guest cannot use up the host's number of pseudo-terminals."""
    root_can_be_writable: ClassVar[bool] = True
    tells_signals: ClassVar[bool] = True
    """The result distinguishes an exit status of 128 plus a signal's number from a death by that signal."""
    keeps_environment: ClassVar[frozenset[str]] = frozenset()
    """Variables that an engine adds to the guest's environment."""
    disk: ClassVar[Mapping[str, int] | None] = {"": 1}
    """The divisor of ``limits.disk`` for each folder. The key ``""`` stands for all together, ``None`` for no bound."""
    disk_places: ClassVar[tuple[str, ...]] = ("/tmp", "/dev/shm", "/workspace")
    """Folders that the guest can fill, as paths from its workspace."""
    explains_denials: ClassVar[bool] = True
    keeps_capabilities: ClassVar[bool] = True
    """The guest can keep ``security.capabilities``. Otherwise the plan refuses them."""
    has_tight_filter: ClassVar[bool] = True
    """The guest can run under ``security.syscalls="tight"``. Otherwise the backend refuses that policy."""
    keeps_workspaces: ClassVar[bool] = True
    """Artifacts, overlays and copies of a project work. Otherwise the backend refuses them all."""
    shows_host_paths: ClassVar[bool] = True
    """The guest can see paths of the host that the policy names. Otherwise the plan refuses them."""
    has_host_network: ClassVar[bool] = True
    """The guest can use the host's network. Otherwise the plan refuses it."""
    takes_signals: ClassVar[bool] = True
    """A signal of the caller reaches the guest. Otherwise sending one is refused."""
    counts_tasks: ClassVar[bool] = True
    """The bound on processes is exact. Otherwise it counts threads of an engine, and the guest's number is unknown."""
    has_cpu_clock: ClassVar[bool] = True
    """The guest's own clock of CPU time shows what the host counts. Otherwise it only comes near."""
    has_data_limit: ClassVar[bool] = True
    """The backend can hold ``limits.data``. Otherwise the plan refuses it."""
    has_pipes: ClassVar[bool] = True
    """The guest's output streams are pipes to the guest, which can change their mode and size."""
    own_memory: ClassVar[int] = 0
    """Bytes of an engine that count with the guest's memory."""
    process_name: ClassVar[str] = ""
    """Part of the command line by which the host sees a guest, if not by the guest's own."""
    hides: ClassVar[Mapping[str, bool]] = {"read": True, "write": True}
    """Whether paths can be hidden in a host folder that the guest reads, and in one that it writes to directly."""
    start_seconds: ClassVar[float] = 0.0
    """The most seconds that an engine's own start and end take. Both count towards the wall time."""
    tasks_astray: ClassVar[int] = 0
    """The error of the bound on processes if the caller's own processes count with the guest's."""

    @pytest.fixture
    def run(self, request: pytest.FixtureRequest) -> Run:
        """Run source through the blocking or the asyncio interface. A hash of class and test name decides."""
        return self.run_in_task if crc32(f"{type(self).__name__}.{request.node.name}".encode()) % 2 else self.run_source

    def policy(self, **fields: Any) -> stockade.Policy:
        """Return a policy with these fields that accepts the guarantees this backend cannot hold."""
        return stockade.Policy(**fields | {"accept": {**self.accept, **fields.get("accept", {})}})

    def run_source(self, source: Any, *, policy: Mapping[str, Any] | None = None, **options: Any) -> stockade.Result:
        """Run source under a policy with these fields."""
        made = self.policy(**policy or {})
        return stockade.run(source, policy=made, backend=self.backend, **self._options(options))

    def run_in_task(self, source: Any, *, policy: Mapping[str, Any] | None = None, **options: Any) -> stockade.Result:
        """Run source through the asyncio interface, under a policy with these fields."""

        async def once() -> stockade.Result:
            async with stockade.AsyncRunner(self.policy(**policy or {}), backend=self.backend) as box:
                return await box.run(source, **self._options(options))

        return asyncio.run(once())

    def run_command(
        self, argv: Sequence[str], *, policy: Mapping[str, Any] | None = None, **options: Any
    ) -> stockade.Result:
        """Run a command under a policy with these fields."""
        return stockade.run_command(argv, policy=self.policy(**policy or {}), backend=self.backend, **options)

    def check_refused(self, field: str, **policy: Any) -> None:
        """Check that the plan refuses a policy with these fields, by the name of one of them."""
        with pytest.raises(stockade.PlanError) as caught:
            stockade.plan(self.policy(**policy), backend=self.backend)
        assert field in caught.value.missing

    def switch_off(self, reason: str) -> NoReturn:
        """End the test, because it is about what the backend does not promise. The report shows the reason."""
        pytest.xfail(reason)

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        is_python = options.get("language", "python") == "python"
        if self.interpreter is None or not is_python or {"interpreter", "packages"} & options.keys():
            return options
        return options | {"interpreter": self.interpreter}


def open_up(folder: Path, mode: int = 0o755) -> None:
    """Open ``folder`` to other users, because a guest can have a uid of its own."""
    folder.chmod(mode)
    for parent in folder.parents:
        if str(parent).startswith("/tmp/") and parent.owner() == folder.owner():
            parent.chmod(0o755)
