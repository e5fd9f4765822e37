"""Run untrusted code: every resource is bounded, the host is out of reach, and the verdict can be trusted."""

from __future__ import annotations

from stockade.core.loading import load

TYPE_CHECKING = False  # importing ``typing`` would take a quarter of this module's import time
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_FACE = {
    "Advice": "advice.record",
    "AdviceKind": "advice.record",
    "AsyncRunner": "api.asynchronous.runner",
    "AsyncStream": "api.asynchronous.runner",
    "AsyncSandbox": "api.asynchronous.sandbox",
    "AsyncSandboxPool": "api.asynchronous.pool",
    "AsyncProcess": "api.asynchronous.process",
    "AsyncTerminal": "api.asynchronous.process",
    "AsyncInterpreter": "api.asynchronous.sessions",
    "AsyncShell": "api.asynchronous.sessions",
    "AsyncFiles": "api.asynchronous.sessions",
    "Audit": "observe.audit",
    "AuditError": "observe.chain",
    "BackendUnavailable": "core.errors",
    "Cancelled": "runs.errors",
    "Alert": "observe.monitor",
    "ArtifactLimits": "workspace.artifacts",
    "CellLimits": "api.sessions.records",
    "CellOutcome": "api.sessions.records",
    "CellOutput": "api.sessions.records",
    "CellResult": "api.sessions.records",
    "CellUsage": "api.sessions.records",
    "Display": "api.sessions.records",
    "ShellResult": "api.sessions.records",
    "Interpreter": "api.sessions.interpreter",
    "Shell": "api.sessions.shell",
    "Files": "api.sessions.files",
    "FileInfo": "api.sessions.files",
    "FileChange": "api.sessions.watch",
    "Watch": "api.sessions.watch",
    "AsyncWatch": "api.asynchronous.sessions",
    "FileRefused": "api.sessions.files",
    "SessionEnded": "api.sessions.link",
    "Change": "workspace.changes",
    "ChangeSet": "workspace.change_set",
    "AsyncClient": "service.async_client",
    "Client": "service.client",
    "AsyncRemoteFiles": "service.living.async_remote",
    "AsyncRemoteInterpreter": "service.living.async_remote",
    "AsyncRemoteSandbox": "service.living.async_remote",
    "AnyAsyncStream": "api.interface",
    "AnyAsyncTerminal": "api.interface",
    "AnyStream": "api.interface",
    "AnyTerminal": "api.interface",
    "AsyncRemoteStream": "service.streams",
    "RemoteStream": "service.streams",
    "AsyncRemoteTerminal": "service.living.async_remote_terminal",
    "Remote": "service.remote_backend",
    "RemoteFiles": "service.living.remote",
    "RemoteInterpreter": "service.living.remote",
    "RemoteSandbox": "service.living.remote",
    "RemoteTerminal": "service.living.remote_terminal",
    "RemoteSandboxOptions": "service.living.remote_steps",
    "CommandOptions": "api.options",
    "CommitError": "core.errors",
    "Denial": "planning.denial",
    "Enforcement": "policy.guarantees",
    "Finished": "runs.events",
    "Guarantee": "policy.guarantees",
    "Forward": "api.ports",
    "GuestError": "runs.result",
    "GuestFailed": "runs.errors",
    "Hooks": "runs.hooks",
    "HostFacts": "planning.facts",
    "Isolation": "policy.guarantees",
    "JobError": "core.errors",
    "LimitReached": "runs.events",
    "LimitState": "runs.result",
    "Monitor": "observe.monitor",
    "Network": "policy.parts.network",
    "NetworkRefusal": "runs.result",
    "NetworkTarget": "runs.result",
    "NetworkUse": "runs.result",
    "Outcome": "runs.result",
    "Output": "runs.events",
    "Plan": "planning.plan",
    "PlanError": "core.errors",
    "Policy": "policy.model",
    "PolicyError": "core.errors",
    "PolicyOptions": "api.options",
    "PortStream": "api.ports",
    "Process": "api.process",
    "Program": "batch.records",
    "ProtocolError": "core.errors",
    "Resolved": "policy.resolve",
    "RecordError": "batch.records",
    "RequirementError": "core.errors",
    "ResourceExhausted": "runs.errors",
    "Result": "runs.result",
    "ResultFormatError": "runs.errors",
    "RunOptions": "api.options",
    "RemoteOptions": "service.client_steps",
    "RemoteRun": "service.client_steps",
    "RemoteRunOptions": "service.client_steps",
    "ServiceError": "service.client_steps",
    "RunInfo": "runs.hooks",
    "Runner": "api.runner",
    "RunsCode": "api.interface",
    "StreamsCode": "api.interface",
    "Secret": "runs.secret",
    "Sandbox": "api.sandbox",
    "SandboxPool": "api.sandbox_pool",
    "SandboxClosed": "core.errors",
    "SetupError": "core.errors",
    "StockadeError": "core.errors",
    "Selection": "api.select",
    "Snapshot": "api.snapshots.store",
    "SnapshotRefused": "api.snapshots.stream",
    "Started": "runs.events",
    "Stream": "api.stream",
    "Strength": "policy.guarantees",
    "Terminal": "api.terminal",
    "Trust": "api.select",
    "Usage": "runs.result",
    "UsageReport": "runs.events",
    "Verdict": "batch.records",
    "Webhook": "observe.webhook",
    "aevaluate": "batch.calls",
    "call": "api.call",
    "check": "advice.check",
    "configure": "observe.configure",
    "evaluate": "batch.calls",
    "plan": "api.runner",
    "resolve": "policy.resolve",
    "run": "api.runner",
    "run_command": "api.runner",
    "select": "api.runner",
}
"""Public name to the private module that defines it, which is imported on first use."""

__all__ = ["__version__", *_FACE]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import the public name that is used for the first time."""
    if name not in _FACE:
        # With the module, Python would suggest a name as well.
        raise AttributeError(f"module 'stockade' has no attribute {name!r}{_meant(name)}", name=name, obj=None)
    value = load(f"stockade.{_FACE[name]}:{name}")
    globals()[name] = value
    return value


def _meant(name: str) -> str:
    near = "" if name.startswith("__") else load("stockade.core.errors:nearest")(name, _FACE)
    return f"; did you mean {near!r}?" if near else ""


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)


if TYPE_CHECKING:
    from stockade.advice.check import check as check
    from stockade.advice.record import Advice as Advice
    from stockade.advice.record import AdviceKind as AdviceKind
    from stockade.api.asynchronous.pool import AsyncSandboxPool as AsyncSandboxPool
    from stockade.api.asynchronous.process import AsyncProcess as AsyncProcess
    from stockade.api.asynchronous.process import AsyncTerminal as AsyncTerminal
    from stockade.api.asynchronous.runner import AsyncRunner as AsyncRunner
    from stockade.api.asynchronous.runner import AsyncStream as AsyncStream
    from stockade.api.asynchronous.sandbox import AsyncSandbox as AsyncSandbox
    from stockade.api.asynchronous.sessions import AsyncFiles as AsyncFiles
    from stockade.api.asynchronous.sessions import AsyncInterpreter as AsyncInterpreter
    from stockade.api.asynchronous.sessions import AsyncShell as AsyncShell
    from stockade.api.asynchronous.sessions import AsyncWatch as AsyncWatch
    from stockade.api.call import call as call
    from stockade.api.interface import AnyAsyncStream as AnyAsyncStream
    from stockade.api.interface import AnyAsyncTerminal as AnyAsyncTerminal
    from stockade.api.interface import AnyStream as AnyStream
    from stockade.api.interface import AnyTerminal as AnyTerminal
    from stockade.api.interface import RunsCode as RunsCode
    from stockade.api.interface import StreamsCode as StreamsCode
    from stockade.api.options import CommandOptions as CommandOptions
    from stockade.api.options import PolicyOptions as PolicyOptions
    from stockade.api.options import RunOptions as RunOptions
    from stockade.api.ports import Forward as Forward
    from stockade.api.ports import PortStream as PortStream
    from stockade.api.process import Process as Process
    from stockade.api.runner import Runner as Runner
    from stockade.api.runner import plan as plan
    from stockade.api.runner import run as run
    from stockade.api.runner import run_command as run_command
    from stockade.api.runner import select as select
    from stockade.api.sandbox import Sandbox as Sandbox
    from stockade.api.sandbox_pool import SandboxPool as SandboxPool
    from stockade.api.select import Selection as Selection
    from stockade.api.select import Trust as Trust
    from stockade.api.sessions.files import FileInfo as FileInfo
    from stockade.api.sessions.files import FileRefused as FileRefused
    from stockade.api.sessions.files import Files as Files
    from stockade.api.sessions.interpreter import Interpreter as Interpreter
    from stockade.api.sessions.link import SessionEnded as SessionEnded
    from stockade.api.sessions.records import CellLimits as CellLimits
    from stockade.api.sessions.records import CellOutcome as CellOutcome
    from stockade.api.sessions.records import CellOutput as CellOutput
    from stockade.api.sessions.records import CellResult as CellResult
    from stockade.api.sessions.records import CellUsage as CellUsage
    from stockade.api.sessions.records import Display as Display
    from stockade.api.sessions.records import ShellResult as ShellResult
    from stockade.api.sessions.shell import Shell as Shell
    from stockade.api.sessions.watch import FileChange as FileChange
    from stockade.api.sessions.watch import Watch as Watch
    from stockade.api.snapshots.store import Snapshot as Snapshot
    from stockade.api.snapshots.stream import SnapshotRefused as SnapshotRefused
    from stockade.api.stream import Stream as Stream
    from stockade.api.terminal import Terminal as Terminal
    from stockade.batch.calls import aevaluate as aevaluate
    from stockade.batch.calls import evaluate as evaluate
    from stockade.batch.records import Program as Program
    from stockade.batch.records import RecordError as RecordError
    from stockade.batch.records import Verdict as Verdict
    from stockade.core.errors import BackendUnavailable as BackendUnavailable
    from stockade.core.errors import CommitError as CommitError
    from stockade.core.errors import JobError as JobError
    from stockade.core.errors import PlanError as PlanError
    from stockade.core.errors import PolicyError as PolicyError
    from stockade.core.errors import ProtocolError as ProtocolError
    from stockade.core.errors import RequirementError as RequirementError
    from stockade.core.errors import SandboxClosed as SandboxClosed
    from stockade.core.errors import SetupError as SetupError
    from stockade.core.errors import StockadeError as StockadeError
    from stockade.observe.audit import Audit as Audit
    from stockade.observe.chain import AuditError as AuditError
    from stockade.observe.configure import configure as configure
    from stockade.observe.monitor import Alert as Alert
    from stockade.observe.monitor import Monitor as Monitor
    from stockade.observe.webhook import Webhook as Webhook
    from stockade.planning.denial import Denial as Denial
    from stockade.planning.facts import HostFacts as HostFacts
    from stockade.planning.plan import Plan as Plan
    from stockade.policy.guarantees import Enforcement as Enforcement
    from stockade.policy.guarantees import Guarantee as Guarantee
    from stockade.policy.guarantees import Isolation as Isolation
    from stockade.policy.guarantees import Strength as Strength
    from stockade.policy.model import Policy as Policy
    from stockade.policy.parts.network import Network as Network
    from stockade.policy.resolve import Resolved as Resolved
    from stockade.policy.resolve import resolve as resolve
    from stockade.runs.errors import Cancelled as Cancelled
    from stockade.runs.errors import GuestFailed as GuestFailed
    from stockade.runs.errors import ResourceExhausted as ResourceExhausted
    from stockade.runs.errors import ResultFormatError as ResultFormatError
    from stockade.runs.events import Finished as Finished
    from stockade.runs.events import LimitReached as LimitReached
    from stockade.runs.events import Output as Output
    from stockade.runs.events import Started as Started
    from stockade.runs.events import UsageReport as UsageReport
    from stockade.runs.hooks import Hooks as Hooks
    from stockade.runs.hooks import RunInfo as RunInfo
    from stockade.runs.result import GuestError as GuestError
    from stockade.runs.result import LimitState as LimitState
    from stockade.runs.result import NetworkRefusal as NetworkRefusal
    from stockade.runs.result import NetworkTarget as NetworkTarget
    from stockade.runs.result import NetworkUse as NetworkUse
    from stockade.runs.result import Outcome as Outcome
    from stockade.runs.result import Result as Result
    from stockade.runs.result import Usage as Usage
    from stockade.runs.secret import Secret as Secret
    from stockade.service.async_client import AsyncClient as AsyncClient
    from stockade.service.client import Client as Client
    from stockade.service.client_steps import RemoteOptions as RemoteOptions
    from stockade.service.client_steps import RemoteRun as RemoteRun
    from stockade.service.client_steps import RemoteRunOptions as RemoteRunOptions
    from stockade.service.client_steps import ServiceError as ServiceError
    from stockade.service.living.async_remote import AsyncRemoteFiles as AsyncRemoteFiles
    from stockade.service.living.async_remote import AsyncRemoteInterpreter as AsyncRemoteInterpreter
    from stockade.service.living.async_remote import AsyncRemoteSandbox as AsyncRemoteSandbox
    from stockade.service.living.async_remote_terminal import AsyncRemoteTerminal as AsyncRemoteTerminal
    from stockade.service.living.remote import RemoteFiles as RemoteFiles
    from stockade.service.living.remote import RemoteInterpreter as RemoteInterpreter
    from stockade.service.living.remote import RemoteSandbox as RemoteSandbox
    from stockade.service.living.remote_steps import RemoteSandboxOptions as RemoteSandboxOptions
    from stockade.service.living.remote_terminal import RemoteTerminal as RemoteTerminal
    from stockade.service.remote_backend import Remote as Remote
    from stockade.service.streams import AsyncRemoteStream as AsyncRemoteStream
    from stockade.service.streams import RemoteStream as RemoteStream
    from stockade.workspace.artifacts import ArtifactLimits as ArtifactLimits
    from stockade.workspace.change_set import ChangeSet as ChangeSet
    from stockade.workspace.changes import Change as Change
