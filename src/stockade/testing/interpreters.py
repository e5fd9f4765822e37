"""Ruby and JavaScript under one suite. ``LanguageSamples`` holds the source of each test in both languages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import stockade
from stockade import Guarantee, Outcome, Strength
from stockade.runs.result import Met
from stockade.testing.base import PATIENT, SLOWER, Expectations, Run

_MEMORY = {"limits": {"memory": "128MiB", **PATIENT}}


@dataclass(frozen=True)
class LanguageSamples:
    """A language: its name, its interpreter, and source for each test."""

    name: str
    program: str
    suffix: str
    hello: str
    """Prints ``snow ☃`` and every argument, each on its own line."""
    echo: str
    """Copies standard input to standard output."""
    exit_with_3: str
    fail: str
    """Raises an error with the message ``bad é``, inside a function, on line 2."""
    error: str
    broken: str
    """Has a syntax error."""
    helper: tuple[str, str, str]
    """The name and content of a file, and source that uses it and has the value 42."""
    values: tuple[tuple[str, Any, str | None], ...]
    """Source, expected value, and expected text of the value."""
    fill_memory: str
    start_program: str
    """Starts a program. The value is ``True`` if that is refused."""
    start_thread: str
    """Starts a thread. The value is ``True`` if that is refused."""
    flood: str
    """Prints 2,000 times ``x`` without a line end."""


RUBY = LanguageSamples(
    name="ruby", program="ruby", suffix=".rb",
    hello="puts 'snow ☃', *ARGV",
    echo="print STDIN.read",
    exit_with_3="exit 3",
    fail="def f\n  raise ArgumentError, 'bad é'\nend\nf",
    error="ArgumentError",
    broken="x = = 1",
    helper=("helper.rb", "X = 42", "require 'helper'\nX"),
    values=(
        ("1 + 1", 2, "2"), ("{a: [1, nil, 2.5], 'é' => 'x'}", {"a": [1, None, 2.5], "é": "x"}, None),
        ("Float::NAN", None, "NaN"), ("1..2", None, "1..2"), ("nil", None, None), ("a = []; a << a", None, "[[...]]"),
        ("x = 3\nputs x", None, None), ("", None, None), ("10 ** 5000; :done", "done", ":done"),
    ),
    fill_memory="a = []; loop { a << 'x' * 100_000 }",
    start_program="Process.wait(spawn('true')); false",
    start_thread="begin; Thread.new { sleep 1 }; false; rescue ThreadError; true; end",
    flood="print 'x' * 2000",
)  # fmt: skip
JAVASCRIPT = LanguageSamples(
    name="javascript", program="node", suffix=".js",
    hello="console.log(['snow ☃', ...process.argv.slice(2)].join('\\n'))",
    echo="process.stdin.pipe(process.stdout)",
    exit_with_3="process.exit(3)",
    fail="function f() {\n  throw new TypeError('bad é')\n}\nf()",
    error="TypeError",
    broken="let x = = 1",
    helper=("helper.js", "module.exports = 42", "require('./helper')"),
    values=(
        ("1 + 1", 2, "2"), ("({a: [1, null, 2.5], 'é': 'x'})", {"a": [1, None, 2.5], "é": "x"}, None),
        ("NaN", None, "NaN"), ("new Map([[1, 2]])", None, "Map(1) { 1 => 2 }"), ("undefined", None, None),
        ("const a = []; a.push(a); a", None, "<ref *1> [ [Circular *1] ]"), ("const x = 3; console.log(x)", None, None),
        ("", None, None), ("Promise.resolve('done')", "done", "'done'"),
        ("import { join } from 'node:path'\nexport default join('a', await Promise.resolve('b'))", "a/b", "'a/b'"),
    ),
    fill_memory="const a = []; while (true) a.push(new Array(1000).fill(Math.random()))",
    start_program="const done = require('child_process').spawnSync('true'); done.error?.code === 'EAGAIN'",
    start_thread="const { Worker } = require('worker_threads')\nlet code\n"
    "try { new Worker('0', { eval: true }) } catch (error) { code = error.code }\ncode === 'ERR_WORKER_INIT_FAILED'",
    flood="process.stdout.write('x'.repeat(2000))",
)  # fmt: skip
_VALUES = [
    pytest.param(samples, *case, id=f"{samples.name}-{number}")
    for samples in (RUBY, JAVASCRIPT)
    for number, case in enumerate(samples.values)
]


class InterpretersContract(Expectations):
    """Ruby and JavaScript source gets the same promises as Python source."""

    @pytest.fixture(params=[RUBY, JAVASCRIPT], ids=lambda samples: str(samples.name))
    def other(self, request: pytest.FixtureRequest) -> Iterator[LanguageSamples]:
        """Provide each installed language in turn."""
        samples: LanguageSamples = request.param
        _require(samples)
        yield samples

    def test_arguments_and_unicode_arrive(self, run: Run, other: LanguageSamples) -> None:
        result = run(other.hello, language=other.name, arguments=["a", "b c", "é"])
        assert (result.outcome, result.stdout) == (Outcome.COMPLETED, "snow ☃\na\nb c\né\n"), result.stderr

    def test_input_arrives_unchanged(self, run: Run, other: LanguageSamples) -> None:
        data = "é\n".encode() * 10_000
        result = run(other.echo, language=other.name, stdin=data, policy={"limits": {**PATIENT, "output": "1MiB"}})
        assert result.stdout_bytes == data

    def test_exit_status_is_reported(self, run: Run, other: LanguageSamples) -> None:
        result = run(other.exit_with_3, language=other.name)
        assert (result.outcome, result.exit_code, result.error) == (Outcome.FAILED, 3, None)

    def test_error_has_only_own_frames(self, run: Run, other: LanguageSamples) -> None:
        result = run(other.fail, language=other.name)
        assert (result.outcome, result.exit_code) == (Outcome.FAILED, 1)
        assert result.error is not None
        assert (result.error.type, result.error.message) == (other.error, "bad é")
        for text in (result.error.traceback, result.stderr):
            assert f"/main{other.suffix}:2" in text
            assert "bad é" in text
            assert ".agent" not in text

    def test_source_with_syntax_error_fails(self, other: LanguageSamples) -> None:
        result = self.run_source(other.broken, language=other.name)
        assert (result.outcome, result.exit_code) == (Outcome.FAILED, 1)
        assert result.error is not None
        assert result.error.type == "SyntaxError"
        assert f"main{other.suffix}:1" in result.error.traceback

    @pytest.mark.parametrize(("samples", "source", "value", "text"), _VALUES)
    def test_values_are_reported(self, samples: LanguageSamples, source: str, value: Any, text: str | None) -> None:
        _require(samples)
        result = self.run_source(source, language=samples.name)
        assert (result.outcome, result.value) == (Outcome.COMPLETED, value), result.stderr
        assert result.value_repr == text or (text is None and value is not None)

    def test_language_follows_suffix(self, tmp_path: Path, other: LanguageSamples) -> None:
        path = tmp_path / f"job{other.suffix}"
        path.write_text(other.fail, encoding="utf-8")
        error = self.run_source(path, interpreter=None).error
        assert error is not None
        assert f"/job{other.suffix}:2" in error.traceback

    def test_job_files_can_be_required(self, other: LanguageSamples) -> None:
        name, content, source = other.helper
        assert self.run_source(source, language=other.name, files={name: content}).value == 42

    def test_process_limit_of_one_allows_only_the_interpreter(self, other: LanguageSamples) -> None:
        strict = {"limits": {"processes": 1 + self.tasks_astray, **PATIENT}}
        result = self.run_source("1 + 1", language=other.name, policy=strict)
        assert (result.outcome, result.value) == (Outcome.COMPLETED, 2), result.stderr
        assert result.usage.processes in (1, None)
        if result.limits_met[Guarantee.PROCESSES].state is not Met.UNKNOWN:
            assert result.limits_met[Guarantee.PROCESSES].state is Met.NOT_MET
        if self.tasks_astray or not self.counts_tasks:
            return
        for source in (other.start_program, other.start_thread):
            policy = {"limits": {"processes": 1, "wall_time": 3 * SLOWER}}
            result = self.run_source(source, language=other.name, policy=policy)
            waited = source == RUBY.start_program  # Ruby tries to fork again every second, without end
            assert (result.limit is Guarantee.WALL_TIME) if waited else (result.value is True), result
            assert result.limits_met[Guarantee.PROCESSES].state is not Met.NOT_MET

    def test_two_processes_allow_one_more(self, other: LanguageSamples) -> None:
        policy = {"limits": {"processes": 2 + self.tasks_astray, **PATIENT}}
        for source in (other.start_program, other.start_thread):
            result = self.run_source(source, language=other.name, policy=policy)
            assert (result.outcome, result.value) == (Outcome.COMPLETED, False), result.stderr
            assert result.usage.processes in (1, 2, None)

    def test_memory_exceeded_ends_run(self, other: LanguageSamples) -> None:
        result = self.run_source(other.fill_memory, language=other.name, policy=_MEMORY)
        assert not result.ok
        if result.enforcement[Guarantee.MEMORY].strength is Strength.KERNEL:
            assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.MEMORY)

    def test_endless_loop_ends_at_wall_time(self, other: LanguageSamples) -> None:
        source = "while true\nend" if other is RUBY else "while (true);"
        result = self.run_source(source, language=other.name, policy={"limits": {"wall_time": 1}})
        assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, Guarantee.WALL_TIME)

    def test_output_is_bounded_and_counted(self, other: LanguageSamples) -> None:
        result = self.run_source(other.flood, language=other.name, policy={"limits": {"output": 1000}})
        assert (result.outcome, len(result.stdout_bytes)) == (Outcome.COMPLETED, 1000)
        assert result.limits_met[Guarantee.OUTPUT].state is Met.MET

    def test_tight_filter_allows_no_second_program(self, other: LanguageSamples) -> None:
        source = (
            "begin; spawn('true'); false; rescue SystemCallError; true; end"
            if other is RUBY
            else "Boolean(require('child_process').spawnSync('true').error)"
        )
        policy = {"security": {"syscalls": "tight"}}
        if not self.has_tight_filter:
            with pytest.raises((stockade.JobError, stockade.PlanError), match=r"security\.syscalls"):
                self.run_source(source, language=other.name, policy=policy)
            return
        result = self.run_source(source, language=other.name, policy=policy)
        assert (result.outcome, result.value) == (Outcome.COMPLETED, True), result.stderr

    def test_invalid_interpreter_is_named(self, other: LanguageSamples) -> None:
        if self.brings_programs:
            return
        for interpreter in ("/no/such/program", "/etc/passwd", "/bin/true"):
            with pytest.raises(stockade.JobError, match=interpreter):
                self.run_source("1", language=other.name, interpreter=interpreter)


def _require(samples: LanguageSamples) -> None:
    if shutil.which(samples.program) is None:
        pytest.skip(f"{samples.program} is not installed")
