"""The options of a run: typed on every public function, and checked by name when they are used."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import stockade
from stockade import AsyncRunner, Runner

TAKES_OPTIONS = [
    *((each.run, "RunOptions") for each in (stockade, Runner, AsyncRunner)),
    *((each.run_command, "CommandOptions") for each in (stockade, Runner, AsyncRunner)),
    *((each.stream, "RunOptions") for each in (Runner, AsyncRunner)),
    *((each.stream_command, "CommandOptions") for each in (Runner, AsyncRunner)),
]


@pytest.mark.parametrize(("function", "expected"), TAKES_OPTIONS)
def test_public_function_declares_typed_options(function: Any, expected: str) -> None:
    assert inspect.signature(function).parameters["options"].annotation == f"Unpack[{expected}]"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("langage", "no option 'langage': did you mean 'language'?"),
        ("inputs", "no option 'inputs': the options are stdin, files, .*, packages"),
        ("zzz", "no option 'zzz': the options are stdin"),
    ],
)
def test_run_unknown_option_suggests_a_name(name: str, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        stockade.run("1", **{name: 1})


def test_run_command_refuses_option_of_source() -> None:
    with pytest.raises(TypeError, match="a command does not take language; its options are stdin, files"):
        stockade.run_command(["true"], language="python")  # type: ignore[call-arg]


def test_runner_option_on_one_run_names_the_runner() -> None:
    with pytest.raises(TypeError, match=r"no option 'policy': .* Runner\(policy=...\)"):
        Runner().run("1", policy="strict")  # type: ignore[call-arg]
