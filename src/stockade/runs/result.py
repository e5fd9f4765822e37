"""The result of one run."""

from __future__ import annotations

import signal as signals
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from stockade.core.dataclass import dataclass
from stockade.core.errors import SetupError
from stockade.core.frozen import FrozenDict
from stockade.core.loading import loading
from stockade.core.text import joined, whole_head
from stockade.planning.denial import Denial
from stockade.policy.guarantees import Enforcement, Guarantee
from stockade.runs.errors import Cancelled, GuestFailed, ResourceExhausted, meant_attribute
from stockade.workspace.artifacts import Refused
from stockade.workspace.change_set import ChangeSet


class Outcome(StrEnum):
    """How a run ended, in one word."""

    COMPLETED = "completed"
    FAILED = "failed"
    CRASHED = "crashed"
    LIMIT_EXCEEDED = "limit_exceeded"
    CANCELLED = "cancelled"
    SANDBOX_FAILED = "sandbox_failed"


class Met(StrEnum):
    """Whether a limit was reached. ``UNKNOWN`` means that the kernel's refusal leaves no trace to read."""

    MET = "met"
    NOT_MET = "not met"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class LimitState:
    """Whether one limit was reached, and the counter that shows it."""

    state: Met
    evidence: str

    def as_json(self) -> dict[str, str]:
        """Return the state as JSON-compatible data."""
        return {"state": self.state.value, "evidence": self.evidence}


@dataclass(frozen=True)
class Usage:
    """Resources that the run used, in seconds and bytes; ``None`` where nothing counted it."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    peak_memory: int | None = None
    processes: int | None = None
    """The most tasks at one time."""
    output: int = 0
    """Bytes written to standard output and standard error, kept or not."""
    network_requests: int | None = None
    """Connections to the run's proxy, refused ones included; ``None`` without a bounded way out."""
    network_sent: int | None = None
    network_received: int | None = None


@dataclass(frozen=True)
class NetworkTarget:
    """Traffic with one target of ``network.allow``."""

    target: str
    """``HOST:PORT``; empty for all targets beyond those that are named."""
    requests: int
    sent: int
    received: int


@dataclass(frozen=True)
class NetworkRefusal:
    """Requests that the proxy refused for one reason."""

    target: str
    """``HOST:PORT``, or empty if the request named none that could be read."""
    reason: str
    count: int


@dataclass(frozen=True)
class NetworkUse:
    """The use that a run made of its way out, counted by its proxy: bytes each way, targets and refusals."""

    requests: int = 0
    """Connections to the proxy, refused ones included."""
    refused: int = 0
    sent: int = 0
    received: int = 0
    targets: tuple[NetworkTarget, ...] = ()
    refusals: tuple[NetworkRefusal, ...] = ()
    unnamed: int = 0
    """Refusals beyond those that ``refusals`` names."""
    error: str | None = None
    """Why the figures are missing or too low."""


@dataclass(frozen=True)
class GuestError:
    """The error that the guest's own interpreter reported, or the reason why the sandbox failed."""

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class Result:
    """How a run ended, which limit was hit, and what held each guarantee.

    ``outcome``, ``limit`` and ``usage`` come from the kernel and the warden; only a limit on operations comes from the
    guest's own interpreter. The guest chooses ``stdout``, ``stderr``, ``exit_code``, ``value``, ``value_repr`` and
    ``error``.
    """

    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None
    limit: Guarantee | None = None
    limits_met: Mapping[Guarantee, LimitState] = field(default_factory=FrozenDict)
    soft_memory: LimitState | None = None
    """Whether the run passed ``limits.soft_memory``; ``None`` if the policy sets none, or nothing ran."""
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    stdout_omitted: int = 0
    """Bytes left out between the head and the tail that were kept."""
    stderr_omitted: int = 0
    stdout_head: int = 0
    """The place in ``stdout_bytes`` where bytes were left out."""
    stderr_head: int = 0
    value: Any = None
    value_repr: str | None = None
    error: GuestError | None = None
    usage: Usage = Usage()
    backend: str = ""
    enforcement: Mapping[Guarantee, Enforcement] = field(default_factory=FrozenDict)
    network: NetworkUse | None = None
    """What the run did with its way out; ``None`` unless the policy's ``network`` is a table."""
    start: str = ""
    """``"warm"``: by a warm interpreter; ``"prewarmed"``: in a sandbox that was ready before; or ``"cold"``."""
    shared: str = ""
    """What the run shared with other runs of its kind; empty if its interpreter was started for it alone."""
    cold: str = ""
    """Why the source ran in a fresh interpreter; empty after a warm run, and after a command."""
    denials: tuple[Denial, ...] = ()
    """System calls that the filter refused; always empty unless ``security.explain_denials`` is set."""
    denials_truncated: bool = False
    """Whether the filter refused more calls than were counted."""
    artifacts: Mapping[str, bytes] = field(default_factory=FrozenDict)
    """The files that ``artifacts=[...]`` asked for: path in the workspace to content."""
    artifacts_refused: tuple[Refused, ...] = ()
    """Files that matched a pattern but were not collected, with the reasons."""
    artifacts_error: str | None = None
    """Why files may be missing altogether."""
    artifact_modes: Mapping[str, int] = field(default_factory=FrozenDict)
    """Permission bits of each artifact."""
    changes: ChangeSet = field(default_factory=ChangeSet)
    """What the run changed in its project; the host has none of it until ``changes.commit()``."""

    if not TYPE_CHECKING:  # a type checker would accept any attribute name

        def __getattr__(self, name):
            """Compute ``limits_met`` when it is first read."""
            tell = vars(self).get("_limits_met") if name == "limits_met" else None
            if tell is None:
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}{meant_attribute(name, type(self))}",
                    name=name,
                    obj=None,  # with it, Python would add a suggestion of its own
                )
            met = vars(self)["limits_met"] = tell()
            return met

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, for copies of any kind."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with exit status 0."""
        return self.outcome is Outcome.COMPLETED

    @property
    def stdout(self) -> str:
        """Standard output as text, with invalid UTF-8 replaced and a mark in the place of omitted bytes."""
        return _text(self.stdout_bytes, self.stdout_head, self.stdout_omitted)

    @property
    def stderr(self) -> str:
        """Standard error as text, like ``stdout``."""
        return _text(self.stderr_bytes, self.stderr_head, self.stderr_omitted)

    @property
    def stdout_truncated(self) -> bool:
        """Whether standard output had more bytes than were kept."""
        return self.stdout_omitted > 0

    @property
    def stderr_truncated(self) -> bool:
        """Whether standard error had more bytes than were kept."""
        return self.stderr_omitted > 0

    def check(self) -> Result:
        """Return this result if it is ``ok``; otherwise raise the error for its outcome.

        Raises ``ResourceExhausted``, ``GuestFailed``, ``Cancelled`` (all with ``.result``) or ``SetupError``.
        """
        match self.outcome:
            case Outcome.COMPLETED:
                return self
            case Outcome.SANDBOX_FAILED:
                raise SetupError(self.error.message if self.error else "the sandbox failed")
            case Outcome.LIMIT_EXCEEDED:
                raise ResourceExhausted(self.summary(), self)
            case Outcome.CANCELLED:
                raise Cancelled(self.summary(), self)
        raise GuestFailed(self.summary(), self)

    def summary(self) -> str:
        """Describe the outcome in a sentence."""
        match self.outcome:
            case Outcome.COMPLETED:
                return "completed"
            case Outcome.LIMIT_EXCEEDED:
                state = self.limits_met.get(self.limit) if self.limit else None
                return f"ended by its limit on {self.limit}" + (f": {state.evidence}" if state else "")
            case Outcome.CRASHED:
                return f"crashed by {_signal_name(self.signal)}"
            case Outcome.FAILED:
                detail = f": {self.error.type}: {self.error.message}" if self.error else ""
                return f"failed with exit status {self.exit_code}{detail}"
            case Outcome.CANCELLED:
                return "cancelled by the caller"
        return f"the sandbox failed: {self.error.message if self.error else 'no reason given'}"

    def __repr__(self) -> str:
        """Return the outcome, what the guest said and what it used, in one bounded line."""
        with loading:
            from stockade.runs import explanation

        return explanation.line(self)

    def explain(self) -> str:
        """Return all that this result says as text: output, usage, limits, what held each guarantee.

        Long texts are cut, and characters that control a terminal are escaped.
        """
        with loading:
            from stockade.runs import explanation

        return explanation.text(self)

    def _repr_html_(self) -> str:
        """Return what ``explain`` says as HTML. Notebooks show it."""
        with loading:
            from stockade.runs import explanation

        return explanation.page(self)

    def to_dict(self) -> dict[str, Any]:
        """Return every field as JSON-compatible data, bytes as base64, so that ``from_dict`` gives an equal result.

        The project behind ``changes`` is left out. Raises ``ResultFormatError`` for a value that JSON cannot hold.
        """
        with loading:
            from stockade.runs.result_data import dump

        return dump(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Return the result of which ``to_dict`` made ``data``. Raises ``ResultFormatError`` for any other data."""
        with loading:
            from stockade.runs.result_data import load

        return load(data)

    def as_json(self) -> dict[str, Any]:
        """Return a summary as JSON-compatible data, as the command line prints it, with the streams as text."""
        return {
            "outcome": self.outcome.value,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "limit": self.limit.value if self.limit else None,
            "limits_met": {key.value: met.as_json() for key, met in self.limits_met.items()},
            "soft_memory": self.soft_memory.as_json() if self.soft_memory else None,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "stdout_truncated": self.stdout_truncated,
            "stderr_truncated": self.stderr_truncated,
            "value": self.value,
            "value_repr": self.value_repr,
            "error": asdict(self.error) if self.error else None,
            "usage": asdict(self.usage),
            "network": asdict(self.network) if self.network else None,
            "backend": self.backend,
            "start": self.start,
            "shared": self.shared,
            "cold": self.cold,
            "denials": [asdict(denial) for denial in self.denials],
            "denials_truncated": self.denials_truncated,
            "artifacts": {path: len(content) for path, content in self.artifacts.items()},
            "artifacts_refused": [asdict(item) for item in self.artifacts_refused],
            "artifacts_error": self.artifacts_error,
            "changes": [{"path": item.path, "kind": item.kind, "type": item.type} for item in self.changes],
            "changes_refused": [asdict(item) for item in self.changes.refused],
            "changes_error": self.changes.error,
            "enforcement": {key.value: item.as_json() for key, item in self.enforcement.items()},
        }


_DEFAULTS = {
    each.name: each.default if each.default_factory is MISSING else each.default_factory()
    for each in fields(Result)
    if each.name not in ("outcome", "limits_met")
}


def deferring(limits_met: Callable[[], Mapping[Guarantee, LimitState]], **others: Any) -> Result:
    """Return a result that computes ``limits_met`` when it is first read: most callers never read it.

    ``others`` are the fields that differ from their defaults. They are not checked.
    """
    result = object.__new__(Result)
    vars(result).update(_DEFAULTS | others, _limits_met=limits_met)
    return result


def _text(data: bytes, head: int, omitted: int) -> str:
    if not omitted:
        return data.decode("utf-8", "replace")
    return joined(data[:head], data[head:], omitted) if len(data) > head else whole_head(data)


def _signal_name(number: int | None) -> str:
    try:
        return signals.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"
