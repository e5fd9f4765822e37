"""What the parts of the suite share: what a backend does not promise, and how to run something on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

import pytest

import stockade

if TYPE_CHECKING:
    from stockade.backends.base import Backend

Run = Callable[..., stockade.Result]
SLOWER = int(os.environ.get("STOCKADE_SLOWER", "1"))
"""How many times slower than usual this machine is (an emulated one, say)."""
PATIENT: Mapping[str, Any] = {"wall_time": 20 * SLOWER}
"""A bound for what hangs."""


class Expectations:
    """What may differ from backend to backend. The defaults are the strictest."""

    backend: ClassVar[str | Backend] = "native"
    accept: ClassVar[Mapping[str, str]] = {}
    """Guarantees that are held less strongly than usual, as ``Policy.accept`` takes them."""
    interpreter: ClassVar[str | None] = None
    """A Python that the guest can reach; unset, the caller's own."""
    own_root: ClassVar[bool] = True
    """The guest finds ``/workspace``, ``/tmp`` and ``/dev/shm`` of its own, and the rest of the host is not there."""
    unnamed_file: ClassVar[str] = "FileNotFoundError"
    """What opening a file of the host raises that the policy does not name, beside one that it does."""
    own_identity: ClassVar[bool] = True
    """``security.uid`` is what the guest sees, on a machine of another name."""
    root_can_be_writable: ClassVar[bool] = True
    tells_signals: ClassVar[bool] = True
    """An exit status of 128 and a signal's number is told from a death by that signal."""
    keeps_environment: ClassVar[frozenset[str]] = frozenset()
    """Variables that an engine adds."""
    disk: ClassVar[Mapping[str, int] | None] = {"": 1}
    """How many-th part of ``limits.disk`` each place has, or all together (the default), or ``None``: no bound."""
    disk_places: ClassVar[tuple[str, ...]] = ("/tmp", "/dev/shm", "/workspace")
    """Places that the guest may fill, as seen from its workspace."""
    explains_denials: ClassVar[bool] = True
    keeps_capabilities: ClassVar[bool] = True
    """What of ``security.capabilities`` can be kept at all is kept here; otherwise the plan refuses it."""
    keeps_workspaces: ClassVar[bool] = True
    """Files come out, and a project can be laid under or copied; otherwise all of it is refused."""
    hides: ClassVar[Mapping[str, bool]] = {"read": True, "write": True}
    """Whether names can be kept from the guest in a folder of the host that it reads, or writes for real."""
    start_seconds: ClassVar[float] = 0.0
    """What an engine's own start and end may take at most; both count towards the wall time."""
    tasks_astray: ClassVar[int] = 0
    """By how many the bound on processes may be off, where the caller's own count with the guest's."""

    @pytest.fixture
    def run(self, request: pytest.FixtureRequest) -> Run:
        """Run source through one of the two faces, which are one conversation: the name of test and class decides."""
        return self.run_in_task if crc32(f"{type(self).__name__}.{request.node.name}".encode()) % 2 else self.run_source

    def policy(self, **fields: Any) -> stockade.Policy:
        """Return a policy that accepts what this backend cannot hold."""
        return stockade.Policy(**fields | {"accept": {**self.accept, **fields.get("accept", {})}})

    def run_source(self, source: Any, *, policy: Mapping[str, Any] | None = None, **options: Any) -> stockade.Result:
        """Run source under the policy with these fields."""
        made = self.policy(**policy or {})
        return stockade.run(source, policy=made, backend=self.backend, **self._options(options))

    def run_in_task(self, source: Any, *, policy: Mapping[str, Any] | None = None, **options: Any) -> stockade.Result:
        """Do the same through the asyncio face."""

        async def once() -> stockade.Result:
            async with stockade.AsyncRunner(self.policy(**policy or {}), backend=self.backend) as box:
                return await box.run(source, **self._options(options))

        return asyncio.run(once())

    def run_command(
        self, argv: Sequence[str], *, policy: Mapping[str, Any] | None = None, **options: Any
    ) -> stockade.Result:
        """Run a command under the policy with these fields."""
        return stockade.run_command(argv, policy=self.policy(**policy or {}), backend=self.backend, **options)

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        is_python = options.get("language", "python") == "python"
        if self.interpreter is None or not is_python or {"interpreter", "packages"} & options.keys():
            return options
        return options | {"interpreter": self.interpreter}
