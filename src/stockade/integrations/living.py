"""Parts that adapters share: an agent's policy, the methods that they need of a sandbox, and words about its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from stockade.policy.guarantees import Guarantee
from stockade.runs.result import Outcome, Result

DEFAULT_POLICY: Mapping[str, Any] = {
    "limits": {
        "wall_time": "10min", "cpu_time": "10min", "memory": "1GiB", "disk": "512MiB", "file_size": "256MiB",
        "processes": 256, "open_files": 1024, "output": "20MiB",
    },
}  # fmt: skip
"""What an agent's task gets if nothing else is said: no network, and nothing of the host but its programs."""
_LATE = 124  # as timeout(1) reports it
_ADVICE = {
    Guarantee.WALL_TIME: "do less at a time, or start it in the background: COMMAND > log 2>&1 &",
    Guarantee.CPU_TIME: "do less at a time, or find a faster way",
    Guarantee.MEMORY: "work on smaller parts",
    Guarantee.OUTPUT: "write long output to a file, and read parts of it",
}


class SandboxFiles(Protocol):
    """The files of a living sandbox, as ``stockade.Sandbox.files`` has them."""

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a regular file."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file whole, with the folders above it."""


class LivingSandbox(Protocol):
    """A living sandbox: ``stockade.Sandbox``, or another object with its methods."""

    id: str

    @property
    def files(self) -> SandboxFiles:
        """The files of the sandbox."""

    @property
    def run_command(self) -> Any:
        """The method that runs a command and returns its ``Result``, with the arguments of ``Sandbox``'s."""


def lowered(sandbox: Any, limit: Guarantee, wanted: float | None) -> float | None:
    """Return what is lower, the limit of the sandbox's policy or ``wanted``."""
    policy = getattr(sandbox, "policy", None)
    own = None if policy is None else policy.limits.figure(limit)
    return min((each for each in (own, wanted) if each is not None), default=None)


def status_of(result: Result) -> int:
    """Return the exit status as a shell reports it: 128 and the signal, or 124 if the time was over."""
    if result.limit is Guarantee.WALL_TIME:
        return _LATE
    return 128 + (result.signal or 9) if result.exit_code is None else result.exit_code


def remark(result: Result) -> str:
    """Return why the sandbox ended the command, and what to do about it; empty if the command ended by itself."""
    if result.outcome in (Outcome.COMPLETED, Outcome.FAILED, Outcome.CRASHED):
        return ""
    advice = "" if result.limit is None else _ADVICE.get(result.limit, f"it needs less {result.limit}")
    return ": ".join(filter(None, (f"stockade: {result.summary()}", advice)))
