"""The living instances of one warden, by name."""

from __future__ import annotations

from stockade.warden import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.launch import Launch
    from stockade.warden.run.run import Run
    from stockade.warden.run.sandbox_execution import SandboxExecution

_REMEMBERED = 1000
"""Ended sandboxes whose end is remembered for late execs."""


class Sandboxes:
    """Finds the living instance in which an exec has to start."""

    def __init__(self) -> None:
        self._open: dict[str, SandboxExecution] = {}
        self._ended: dict[str, str] = {}

    def add(self, name: str, sandbox: SandboxExecution) -> None:
        """Accept execs for ``sandbox`` from now on."""
        self._open[name] = sandbox

    def remove(self, name: str, why: str) -> None:
        """Accept no more execs, and answer with ``why``."""
        if self._open.pop(name, None) is not None:
            self._ended[name] = why
            if len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]

    def begin(self, run: Run, launch: Launch) -> None:
        """Start ``run`` in its sandbox. Its limits are those of a sandbox that was admitted, so it does not queue."""
        sandbox = self._open.get(launch.sandbox)
        if sandbox is None:
            run.refuse(self._ended.get(launch.sandbox, protocol.SANDBOX_ENDED))
        else:
            sandbox.begin(run, launch)
