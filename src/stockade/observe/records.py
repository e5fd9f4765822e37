"""The end of a run as an audit log and a monitor see it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stockade.runs.hooks import ABANDONED, RunInfo
from stockade.runs.result import Outcome

if TYPE_CHECKING:
    from stockade.runs.result import Result

MOST_TEXT = 1 << 16
_CLASS = re.compile(r"([A-Z][A-Za-z]{1,60}): ")


def finish_fields(info: RunInfo, result: Result) -> dict[str, Any]:
    """Return the fields of the record of a verdict."""
    fields: dict[str, Any] = {
        "run": info.id,
        "labels": info.labels,
        "outcome": result.outcome.value,
        "limit": result.limit and result.limit.value,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "usage": {name: value for name, value in vars(result.usage).items() if value is not None},
    }
    if result.denials:
        fields["denials"] = {each.call: each.count for each in result.denials}
    if result.network is not None:
        fields["network"] = {each.target: each.requests for each in result.network.targets}
        fields["network_refused"] = result.network.refused
        if result.network.refusals:
            fields["network_refusals"] = _by_target(result)
    return fields


def error_fields(info: RunInfo, message: str) -> dict[str, Any]:
    """Return the fields of the record of a run without a verdict, or whose sandbox failed."""
    return {"run": info.id, "labels": info.labels, "message": message[:MOST_TEXT]}


def error_class(message: str) -> str:
    """Return the class of the error in the message of an ``on_error`` hook; empty if the caller left the run."""
    if message == ABANDONED:
        return ""
    named = _CLASS.match(message)
    return named[1] if named else str(Outcome.SANDBOX_FAILED)


@dataclass(frozen=True)
class Ended:
    """The end of one run, for the rules of a monitor."""

    at: float
    """Seconds since the epoch."""
    run: str
    labels: Mapping[str, str] = field(default_factory=dict)
    outcome: str = ""
    """The outcome of the verdict; empty without one."""
    limit: str = ""
    """The limit that ended the run."""
    signal: int = 0
    error: str = ""
    """The class of the error for which there is no verdict."""
    denials: Mapping[str, int] = field(default_factory=dict)
    """System calls that the filter refused, and how often."""
    refused: int = 0
    """Connections that the proxy refused."""
    refused_targets: tuple[str, ...] = ()

    @classmethod
    def of(cls, fields: Mapping[str, Any], at: float) -> Ended:
        """Return the end that a record describes. A field that is not what stockade writes counts as missing."""
        message, denials, targets = fields.get("message"), fields.get("denials"), fields.get("network_refusals")
        return cls(
            at=at,
            run=_text(fields.get("run")),
            labels=_texts(fields.get("labels")),
            outcome=_text(fields.get("outcome")),
            limit=_text(fields.get("limit")),
            signal=_number(fields.get("signal")),
            error=error_class(message) if isinstance(message, str) else "",
            denials={name: _number(count) for name, count in denials.items()} if isinstance(denials, Mapping) else {},
            refused=_number(fields.get("network_refused")),
            refused_targets=tuple(targets) if isinstance(targets, Mapping) else (),
        )


def time_of(record: Mapping[str, Any]) -> float:
    """Return the time of a record of an audit log in seconds since the epoch; 0 for one that cannot be read."""
    try:
        return datetime.fromisoformat(_text(record.get("at"))).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _by_target(result: Result) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in result.network.refusals if result.network is not None else ():
        found[each.target] = found.get(each.target, 0) + each.count
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> dict[str, str]:
    pairs = value.items() if isinstance(value, Mapping) else ()
    return {name: each for name, each in pairs if isinstance(each, str)}


def _number(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
