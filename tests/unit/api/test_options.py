"""The options of a run: typed on every public function, and checked by name when they are used."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import pytest

import stockade
from stockade import AsyncRunner, JobError, Runner
from stockade.api.job_arguments import job_from_source
from stockade.api.options import overlaid

TAKES_OPTIONS = [
    (stockade.run, "SingleRunOptions"),
    (stockade.run_command, "SingleCommandOptions"),
    *((each.run, "RunOptions") for each in (Runner, AsyncRunner)),
    *((each.run_command, "CommandOptions") for each in (Runner, AsyncRunner)),
    *((each.stream, "RunOptions") for each in (Runner, AsyncRunner)),
    *((each.stream_command, "CommandOptions") for each in (Runner, AsyncRunner)),
]


@pytest.mark.parametrize(("function", "expected"), TAKES_OPTIONS)
def test_public_function_declares_typed_options(function: Any, expected: str) -> None:
    assert inspect.signature(function).parameters["options"].annotation == f"Unpack[{expected}]"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("profile", "no option 'profile': a profile is policy='strict'"),
        ("langage", "no option 'langage': did you mean 'language'?"),
        ("inputs", "no option 'inputs': did you mean 'stdin'?"),
        ("polcy", "no option 'polcy': did you mean 'policy'?"),
        ("zzz", "no option 'zzz': the options are stdin"),
        (
            "hooks",
            "no option 'hooks': hooks are set for all runs of a Runner, as Runner\\(hooks=...\\), or of the process",
        ),
    ],
)
def test_run_unknown_option_suggests_a_name(name: str, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        stockade.run("1", **{name: 1})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("code", "did you mean 'source'?"),
        ("env", "did you mean 'environment'?"),
        ("wall_time", "did you mean 'timeout'?"),
        ("disk", "did you mean the field limits.disk of the policy? Write policy={'limits': {'disk': ...}}"),
        ("cwd", "did you mean the field filesystem.workspace of the policy?"),
    ],
)
def test_run_name_of_other_tools_suggests_ours(name: str, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        stockade.run("1", **{name: 1})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"limits": {"timeout": 5}}, "limits.timeout = 5: there is no such field; did you mean 'wall_time'?"),
        ({"limits": {"tiemout": 5}}, "limits.tiemout = 5: there is no such field; did you mean 'wall_time'?"),
        ({"tiemout": 5}, "tiemout = 5: there is no such field; did you mean 'limits.wall_time'?"),
        ({"network": {"hosts": []}}, "network.hosts = []: there is no such field; did you mean 'allow'?"),
    ],
)
def test_policy_unknown_field_suggests_ours(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(stockade.PolicyError, match=re.escape(words)):
        stockade.Policy(**fields)
    with pytest.raises(stockade.PolicyError, match=re.escape(words)):
        stockade.run("1", policy=fields)


def _nothing(**_options: Any) -> None:
    """Stand for the caller's hook."""


@pytest.mark.parametrize(
    ("function", "values", "name", "words"),
    [
        (stockade.run, (), "code", "did you mean 'source'?"),
        (stockade.run_command, (), "command", "did you mean 'argv'?"),
        (Runner.run, (None,), "code", "did you mean 'source'?"),
        (AsyncRunner.run, (None,), "script", "did you mean 'source'?"),
        (Runner.stream, (None,), "code", "did you mean 'source'?"),
        (Runner, (), "polcy", "did you mean 'policy'?"),
        (AsyncRunner, (), "tiemout", "did you mean 'timeout'?"),
        (stockade.plan, (), "polcy", "did you mean 'policy'?"),
        (stockade.select, (), "trsut", "did you mean 'trust'?"),
        (stockade.check, (), "code", "did you mean 'source'?"),
        (stockade.configure, (), "plicy", "did you mean 'policy'?"),
        (stockade.Audit, ("log",), "rotat", "did you mean 'rotate'?"),
        (stockade.Hooks, (), "on_end", "did you mean 'on_finish'?"),
        (stockade.Secret, ("value",), "host", "did you mean 'hosts'?"),
        (stockade.Secret.from_env, ("VARIABLE",), "host", "did you mean 'hosts'?"),
        (stockade.ArtifactLimits, (), "file", "did you mean 'files'?"),
        (stockade.CellLimits, (), "outptu", "did you mean 'output'?"),
        (stockade.SandboxPool, (_nothing,), "sise", "did you mean 'size'?"),
        (stockade.Client, ("http://127.0.0.1:1",), "patiense", "did you mean 'patience'?"),
        (stockade.Sandbox.interpreter, (None,), "langauge", "did you mean 'language'?"),
        (stockade.Interpreter.run, (None, "1"), "tiemout", "did you mean 'timeout'?"),
        (stockade.Interpreter.run, (None,), "code", "did you mean 'source'?"),
        (stockade.Shell.run, (None, "ls"), "tiemout", "did you mean 'timeout'?"),
        (stockade.Files.write, (None, "a", "b"), "parent", "did you mean 'parents'?"),
    ],
)
def test_public_function_unknown_argument_suggests_ours(
    function: Any, values: tuple[Any, ...], name: str, words: str
) -> None:
    with pytest.raises(TypeError, match=f"no option '{name}': {re.escape(words)}"):
        called = function(*values, **{name: 1})
        asyncio.run(called)


def test_policy_options_win_over_the_policy() -> None:
    given = stockade.Policy(limits={"wall_time": 9, "memory": "32MiB"})
    found = overlaid(given, {"timeout": 2, "network": "host", "processes": None})
    assert found == stockade.Policy(limits={"wall_time": 2, "memory": "32MiB"}, network="host")
    assert overlaid("strict", {"memory": "1GiB"}) == stockade.Policy.profile("strict", limits={"memory": "1GiB"})
    assert overlaid({"limits": {"wall_time": 1}}, {"cpu_time": 1}).limits.wall_time == 1


def test_policy_option_invalid_value_names_the_option() -> None:
    with pytest.raises(stockade.PolicyError, match=r"limits.wall_time = -1: must not be negative \(argument timeout\)"):
        overlaid(None, {"timeout": -1})


def test_policy_options_stay_below_the_ceiling() -> None:
    runner = Runner(timeout=50, ceiling={"limits": {"wall_time": 5}})
    assert runner.policy.limits.wall_time == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"files": ["a"]}, "files: expected a mapping"),
        ({"arguments": "ab"}, "arguments: expected a list of texts"),
        ({"environment": "a"}, "environment: expected a mapping"),
        ({"interpreter": 3}, "interpreter: expected a path"),
        ({"archive": 3}, "archive: expected a path"),
        ({"caps": 3}, "caps: expected a stockade.ArtifactLimits"),
        ({"stdin": "\ud800"}, "stdin: .* half of a surrogate pair"),
    ],
)
def test_run_option_of_a_wrong_type_names_the_option(options: dict[str, Any], words: str) -> None:
    with pytest.raises(stockade.JobError, match=words):
        stockade.run("1", **options)


def test_runner_option_of_a_run_names_the_run() -> None:
    with pytest.raises(TypeError, match=r"language is set for each run, as Runner\(\).run\(source, language=...\)"):
        Runner(language="ruby")  # type: ignore[call-arg]


def test_run_command_refuses_option_of_source() -> None:
    with pytest.raises(TypeError, match="a command does not take language; its options are stdin, files"):
        stockade.run_command(["true"], language="python")  # type: ignore[call-arg]


def test_runner_option_on_one_run_names_the_runner() -> None:
    for name in ("policy", "polcy"):
        with pytest.raises(TypeError, match=rf"no option '{name}': .* Runner\(policy=...\)"):
            Runner().run("1", **{name: "strict"})  # type: ignore[arg-type]


def test_source_that_is_the_name_of_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.py").write_text("1")
    with pytest.raises(JobError, match=r"pass Path\('here.py'\)"):
        job_from_source("here.py")
    assert job_from_source("other.py").source == b"other.py"
