"""Run code nobody vouches for: every resource bounded, the host out of reach, a verdict that can be trusted."""

from __future__ import annotations

from stockade._loading import load

TYPE_CHECKING = False  # ``typing`` itself takes a quarter of the time that this import has
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_FACE = {
    "AsyncSandbox": "_async",
    "AsyncStream": "_async",
    "BackendUnavailable": "_errors",
    "Cancelled": "_errors",
    "Caps": "_artifacts",
    "Change": "_changes",
    "CommitError": "_errors",
    "Denial": "_result",
    "Enforcement": "_guarantees",
    "Finished": "_events",
    "Guarantee": "_guarantees",
    "GuestError": "_result",
    "GuestFailed": "_errors",
    "HostFacts": "_facts",
    "Isolation": "_guarantees",
    "JobError": "_errors",
    "LimitReached": "_events",
    "LimitState": "_result",
    "Outcome": "_result",
    "Output": "_events",
    "Plan": "_plan",
    "PlanError": "_errors",
    "Policy": "_policy",
    "PolicyError": "_errors",
    "Program": "batch.records",
    "ProtocolError": "_errors",
    "Resolved": "_resolve",
    "RecordError": "batch.records",
    "ResourceExhausted": "_errors",
    "Result": "_result",
    "Sandbox": "_sandbox",
    "SetupError": "_errors",
    "StockadeError": "_errors",
    "Selection": "_select",
    "Started": "_events",
    "Stream": "_stream",
    "Strength": "_guarantees",
    "Trust": "_select",
    "Usage": "_result",
    "UsageReport": "_events",
    "Verdict": "batch.records",
    "aevaluate": "batch.calls",
    "evaluate": "batch.calls",
    "plan": "_sandbox",
    "resolve": "_resolve",
    "run": "_sandbox",
    "run_command": "_sandbox",
    "select": "_sandbox",
}
"""Public name to the private module that defines it; imported when first asked for."""

__all__ = ["__version__", *_FACE]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _FACE:
        raise AttributeError(f"module 'stockade' has no attribute {name!r}")
    value = load(f"stockade.{_FACE[name]}:{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)


if TYPE_CHECKING:
    from stockade._artifacts import Caps as Caps
    from stockade._async import AsyncSandbox as AsyncSandbox
    from stockade._async import AsyncStream as AsyncStream
    from stockade._changes import Change as Change
    from stockade._errors import BackendUnavailable as BackendUnavailable
    from stockade._errors import Cancelled as Cancelled
    from stockade._errors import CommitError as CommitError
    from stockade._errors import GuestFailed as GuestFailed
    from stockade._errors import JobError as JobError
    from stockade._errors import PlanError as PlanError
    from stockade._errors import PolicyError as PolicyError
    from stockade._errors import ProtocolError as ProtocolError
    from stockade._errors import ResourceExhausted as ResourceExhausted
    from stockade._errors import SetupError as SetupError
    from stockade._errors import StockadeError as StockadeError
    from stockade._events import Finished as Finished
    from stockade._events import LimitReached as LimitReached
    from stockade._events import Output as Output
    from stockade._events import Started as Started
    from stockade._events import UsageReport as UsageReport
    from stockade._facts import HostFacts as HostFacts
    from stockade._guarantees import Enforcement as Enforcement
    from stockade._guarantees import Guarantee as Guarantee
    from stockade._guarantees import Isolation as Isolation
    from stockade._guarantees import Strength as Strength
    from stockade._plan import Plan as Plan
    from stockade._policy import Policy as Policy
    from stockade._resolve import Resolved as Resolved
    from stockade._resolve import resolve as resolve
    from stockade._result import Denial as Denial
    from stockade._result import GuestError as GuestError
    from stockade._result import LimitState as LimitState
    from stockade._result import Outcome as Outcome
    from stockade._result import Result as Result
    from stockade._result import Usage as Usage
    from stockade._sandbox import Sandbox as Sandbox
    from stockade._sandbox import plan as plan
    from stockade._sandbox import run as run
    from stockade._sandbox import run_command as run_command
    from stockade._sandbox import select as select
    from stockade._select import Selection as Selection
    from stockade._select import Trust as Trust
    from stockade._stream import Stream as Stream
    from stockade.batch.calls import aevaluate as aevaluate
    from stockade.batch.calls import evaluate as evaluate
    from stockade.batch.records import Program as Program
    from stockade.batch.records import RecordError as RecordError
    from stockade.batch.records import Verdict as Verdict
