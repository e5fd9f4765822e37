"""The report: the warden's final readings of one run, from which the caller computes the verdict.

A report crosses the socket as plain data. Fields without a default come from every run; a reading is ``None`` where
nothing on this host counts it.
"""

from __future__ import annotations

from stockade.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self


class Failure(Record):
    """The reason why a sandbox, or the command in it, did not start or did not last."""

    kind: str
    """``"setup"`` or ``"init"`` for a failure of the sandbox, ``"exec"`` for a command that could not be executed."""
    message: str


class MeterReport(Record):
    """The final state of a run's clock and counters. Memory and disk space are in bytes."""

    status: int | None
    """The wait status of the guest's first process; ``None`` if its init died with it."""
    started: bool
    """Whether the program began."""
    wall_seconds: float
    cpu_seconds: float
    cpu_source: str
    """``"cgroup"``, or ``"sampled"`` where no control group counts CPU time."""
    peak_memory: int | None
    peak_sockets: int | None
    """The peak of socket buffers that the kernel counts apart."""
    locks: int
    """Locks on files at the last look."""
    past_soft_memory: int | None
    """The memory in use when it was first seen past the soft limit."""
    peak_processes: int | None
    oom_kills: int | None
    """Processes that the kernel killed for memory within the run's own limit."""
    oom_outside: int | None
    """Processes that the kernel killed for memory outside of the run's own limit."""
    forks_refused: int | None
    engine: bytes = b""
    """The status channel of an engine, unparsed."""
    disk_free: int | None
    inodes_free: int | None


class Report(MeterReport):
    """The warden's final word on a run: the meter's report, the cause of the end, output and refused calls."""

    cause: str | None
    """The first reason why the warden ended the run: a limit, ``"cancelled"``, ``"caller_gone"`` or ``"setup"``.
    ``None`` if the guest ended by itself."""
    failure: Failure | None
    collect_trouble: str = ""
    """The reason why files are missing; empty if none is."""
    proxy: bytes | None = None
    """The account of the run's proxy, unparsed: empty if the guest made no connection, ``None`` if there is no way out.
    """
    proxy_trouble: str = ""
    """The reason why the account is missing or ends early."""
    warm: bool = False
    """Whether a warm worker forked the guest."""
    prewarmed: bool = False
    """Whether the sandbox was ready before the run came."""
    cold: str = ""
    """Why a fresh interpreter ran the source; empty after a warm run and after a command."""
    pending: bool = False
    """Whether the guest's only process was killed, and not yet reaped, at the time of the report."""
    output: Sequence[int]
    """Bytes written to stdout and to stderr."""
    tails: Sequence[bytes]
    """The last bytes of stdout and of stderr that were kept and not sent before."""
    channel: bytes
    """The content of the result channel, written by the guest: untrusted and unparsed."""
    channel_overflow: bool
    denials: Sequence[tuple[int, int, tuple[int, ...]]]
    """Number, count and first arguments of each system call that the filter refused."""
    denials_truncated: bool

    def as_wire(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return self.as_dict() | {"failure": None if self.failure is None else self.failure.as_dict()}

    @classmethod
    def from_wire(cls, fields: Mapping[str, Any]) -> Self:
        """Return the report behind ``as_wire``. Raises ``TypeError`` if a field is missing or unknown."""
        failure = fields.get("failure")
        return cls(**{**fields, "failure": None if failure is None else Failure(**failure)})
