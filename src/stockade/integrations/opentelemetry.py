"""Spans of OpenTelemetry for runs. ``pip install 'stockade[otel]'``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stockade.core import strict_json
from stockade.core.errors import JobError
from stockade.observe.records import error_class
from stockade.runs.hooks import Hooks, RunInfo
from stockade.runs.result import Outcome

try:
    from opentelemetry import trace
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install it with: pip install 'stockade[otel]'", name=error.name) from error

if TYPE_CHECKING:
    from stockade.policy.model import Policy
    from stockade.runs.events import LimitReached
    from stockade.runs.result import Result

_NAMES = {"source": "stockade.run", "command": "stockade.run_command", "sandbox": "stockade.sandbox"}
_BY_THE_PROGRAM = (Outcome.COMPLETED, Outcome.FAILED)


def tracing_hooks(tracer_provider: TracerProvider | None = None) -> Hooks:
    """Return hooks that make a span of each run, for ``stockade.configure(hooks=...)`` or a ``Runner``.

    The parent of a span is the current span of the thread that starts the run. ``tracer_provider`` is the global one by
    default. A span has the backend, the policy's digest as in an audit log, the labels, the outcome, the limit and the
    usage. Warnings and limits are its events. It has no source, no arguments, no output and no value of the guest.

        stockade.configure(hooks=tracing_hooks())
    """
    if tracer_provider is not None and not isinstance(tracer_provider, TracerProvider):
        raise JobError(f"tracing_hooks: expected a TracerProvider of OpenTelemetry, not {tracer_provider!r:.80}")
    spans = _Spans(tracer_provider)
    return Hooks(
        on_start=spans.start,
        on_warning=spans.limit,
        on_limit=spans.limit,
        on_error=spans.error,
        on_finish=spans.finish,
        failures="record",
    )


class _Spans:
    """The spans of runs that have started and not ended."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._tracer = trace.get_tracer("stockade", tracer_provider=provider)
        self._open: dict[str, Span] = {}
        self._digest: tuple[Policy | None, str] = None, ""

    def start(self, info: RunInfo) -> None:
        """Start the span of a run."""
        self._open[info.id] = self._started(info)

    def limit(self, info: RunInfo, event: LimitReached) -> None:
        """Add an event to the span."""
        attributes = {"stockade.limit": event.guarantee.value, "used": event.used, "figure": event.figure}
        self._open[info.id].add_event(f"stockade.limit.{event.state}", attributes)

    def error(self, info: RunInfo, message: str) -> None:
        """End the span of a run without a verdict. A run that was refused before its start gets one as well."""
        span = self._open.pop(info.id, None) or self._started(info)
        _fail(span, error_class(message) or "abandoned")
        span.end()

    def finish(self, info: RunInfo, result: Result) -> None:
        """End the span of a run with its verdict; that of a run whose sandbox failed has ended with the error."""
        span = self._open.pop(info.id, None)
        if span is None:
            return
        span.set_attribute("stockade.outcome", result.outcome.value)
        if result.start:
            span.set_attribute("stockade.start", result.start)
        if result.limit is not None:
            span.set_attribute("stockade.limit", result.limit.value)
        if result.exit_code is not None:
            span.set_attribute("process.exit.code", result.exit_code)
        for name, value in vars(result.usage).items():
            if value is not None:
                span.set_attribute(f"stockade.usage.{name}", value)
        if result.denials:
            span.set_attribute("stockade.denied_calls", sum(each.count for each in result.denials))
        if result.outcome not in _BY_THE_PROGRAM:
            _fail(span, result.outcome.value)
        span.end()

    def _started(self, info: RunInfo) -> Span:
        attributes: dict[str, Any] = {
            "stockade.run.id": info.id,
            "stockade.backend": info.backend,
            "stockade.policy.digest": self._policy(info.policy),
        }
        if info.sandbox:
            attributes["stockade.sandbox.id"] = info.sandbox
        if info.language:
            attributes["stockade.language"] = info.language
        if info.argv:
            attributes["process.executable.name"] = Path(info.argv[0]).name
        attributes |= {f"stockade.label.{name}": value for name, value in info.labels.items()}
        return self._tracer.start_span(_NAMES[info.kind], kind=SpanKind.INTERNAL, attributes=attributes)

    def _policy(self, policy: Policy) -> str:
        known, digest = self._digest
        if policy is not known:
            digest = strict_json.digest(policy.model_dump(mode="json"))
            self._digest = policy, digest
        return digest


def _fail(span: Span, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))
