"""Each run is a span of OpenTelemetry, by the real SDK, and no span holds a word of the guest."""

import asyncio

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import stockade
from stockade import Hooks, JobError
from stockade.core import strict_json
from stockade.integrations.opentelemetry import tracing_hooks

SLOW = {"limits": {"wall_time": "300ms"}}


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    yield made
    made.shutdown()


@pytest.fixture
def hooks(provider):
    return tracing_hooks(provider)


def only(exporter):
    (span,) = exporter.get_finished_spans()
    return span


def test_span_has_policy_outcome_and_usage(exporter, hooks):
    runner = stockade.Runner(hooks=hooks)
    result = runner.run("raise SystemExit(3)", labels={"user": "ada"})
    span = only(exporter)
    found = span.attributes
    assert (span.name, found["stockade.language"], found["stockade.label.user"]) == ("stockade.run", "python", "ada")
    assert (found["stockade.outcome"], found["process.exit.code"]) == ("failed", 3)
    assert found["stockade.policy.digest"] == strict_json.digest(runner.policy.model_dump(mode="json"))
    assert found["stockade.usage.wall_seconds"] == result.usage.wall_seconds
    assert span.status.is_unset  # the program decided to end like this
    assert span.end_time - span.start_time >= result.usage.wall_seconds * 1e9


def test_limit_is_an_error_with_events(exporter, hooks):
    stockade.Runner(SLOW, hooks=hooks).run_command(["/bin/sleep", "9"])
    span = only(exporter)
    assert (span.name, span.attributes["process.executable.name"]) == ("stockade.run_command", "sleep")
    assert (span.attributes["error.type"], span.attributes["stockade.limit"]) == ("limit_exceeded", "wall_time")
    assert not span.status.is_ok
    assert [event.name for event in span.events] == ["stockade.limit.near", "stockade.limit.met"]
    assert span.start_time <= span.events[0].timestamp <= span.events[1].timestamp <= span.end_time


def test_no_word_of_the_guest_is_in_a_span(exporter, hooks):
    runner = stockade.Runner({"security": {"explain_denials": True}}, hooks=hooks)
    options = {"stdin": b"marker", "files": {"marker": "marker"}, "environment": {"X": "marker"}}
    runner.run("import sys; print('marker'); sys.stderr.write('marker'); raise ValueError('marker')", **options)
    runner.run_command(["sh", "-c", "echo marker"], **options)
    assert len(exporter.get_finished_spans()) == 2
    assert "marker" not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_current_span_is_the_parent(exporter, provider, hooks):
    with provider.get_tracer("caller").start_as_current_span("request") as request:
        stockade.Runner(hooks=hooks).run("1")
    run, _ = exporter.get_finished_spans()
    assert run.parent.span_id == request.get_span_context().span_id


def test_runs_side_by_side_have_the_parents_of_their_tasks(exporter, provider, hooks):
    tracer = provider.get_tracer("caller")

    async def one(runner, name):
        with tracer.start_as_current_span(name):
            await runner.run("1", labels={"name": name})

    async def both():
        async with stockade.AsyncRunner(hooks=hooks) as runner:
            await asyncio.gather(*(one(runner, name) for name in ("a", "b")))

    asyncio.run(both())
    spans = exporter.get_finished_spans()
    outer = {span.context.span_id: span.name for span in spans if span.name in ("a", "b")}
    inner = [span for span in spans if span.name == "stockade.run"]
    assert sorted(outer[span.parent.span_id] for span in inner) == ["a", "b"]
    assert all(outer[span.parent.span_id] == span.attributes["stockade.label.name"] for span in inner)


def test_run_without_a_verdict_ends_its_span(exporter, hooks):
    def refuse(_info):
        raise OSError("the log is full")

    stockade.configure(hooks=[hooks, Hooks(on_start=refuse)])
    try:
        with pytest.raises(OSError, match="the log is full"):
            stockade.run("1")
    finally:
        stockade.configure()
    assert only(exporter).attributes["error.type"] == "OSError"


def test_refused_job_has_a_span(exporter, hooks, tmp_path):
    with pytest.raises(JobError):
        stockade.Runner(hooks=hooks).run("1", packages=tmp_path / "missing")
    assert only(exporter).attributes["error.type"] == "JobError"
    assert "missing" not in only(exporter).to_json()


def test_sandbox_and_its_commands_name_each_other(exporter, hooks):
    with stockade.Sandbox.create(hooks=hooks) as sandbox:
        sandbox.run_command(["true"])
    command, living = exporter.get_finished_spans()
    assert (command.name, living.name) == ("stockade.run_command", "stockade.sandbox")
    assert command.attributes["stockade.sandbox.id"] == living.attributes["stockade.sandbox.id"] == sandbox.id


def test_bad_provider_is_refused():
    with pytest.raises(JobError, match="expected a TracerProvider"):
        tracing_hooks("console")
