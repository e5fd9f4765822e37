"""``stockade.call`` refuses what cannot run in a sandbox before anything starts."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest

from stockade.api import call
from stockade.core.errors import JobError

FACTOR = 2


def plain(value: Any) -> Any:
    return value


def with_module(value: float) -> float:
    return math.sqrt(value)


def with_global(value: int) -> int:
    return sum(item * FACTOR for item in (value,))


def with_default(value: int = FACTOR) -> int:
    return value


def with_inner_names(value: int) -> int:
    import math as own

    class Box:
        size = value

    def double(number: int) -> int:
        return number * 2 if number else with_inner_names(0)

    return double(Box.size) + own.floor(0.5)


@functools.cache
def decorated(value: int) -> int:
    return value


async def coroutine(value: int) -> int:
    return value


def enclosed() -> Any:
    kept = 3

    def inner(value: int) -> int:
        return value + kept

    return inner


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (with_module, "uses math from outside"),
        (with_global, "uses FACTOR from outside"),
        (with_default, "uses FACTOR from outside"),
        (enclosed(), "uses kept from outside"),
        (decorated, "not a function made with def"),
        (coroutine, "is a coroutine function"),
        (lambda value: value, "lambda"),
        (len, "not a function made with def"),
        ("text", "not a function made with def"),
    ],
)
def test_call_refuses_a_function_that_needs_its_surroundings(function: Any, reason: str) -> None:
    with pytest.raises(JobError, match=reason):
        call.call(function, 1)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ((1, 2), r"values\[0\]"),
        ({"a": [0, {1: 2}]}, r"values\[0\]\['a'\]\[1\]"),
        (math.inf, r"values\[0\]"),
        ([b"bytes"], r"values\[0\]\[0\]"),
        ({"set": {1}}, r"values\[0\]\['set'\]"),
    ],
)
def test_call_refuses_a_value_that_is_not_plain_data(value: Any, place: str) -> None:
    with pytest.raises(JobError, match=place):
        call.call(plain, value)


def test_call_refuses_data_nested_too_deeply() -> None:
    value: list[Any] = []
    for _ in range(200):
        value = [value]
    with pytest.raises(JobError, match="nested more than"):
        call.call(plain, value)


def test_call_accepts_a_function_with_names_of_its_own() -> None:
    program = call._program(with_inner_names, (4,))
    assert program.startswith("from __future__ import annotations\ndef with_inner_names")
    compile(program, "program", "exec")
