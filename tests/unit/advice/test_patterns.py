"""The judgement of a pattern, held against the time that the engine really takes."""

from __future__ import annotations

import re
import time

import pytest

from stockade.advice.isolated.patterns import LONGEST, MOST_STATES, problem

EXPONENTIAL = [
    (r"(a+)+$", "a"),
    (r"(a*)*b", "a"),
    (r"(a.|ab)*c", "ab"),
    (r"(a|aa)+$", "a"),
    (r"^(\w+\s?)*$", "a"),
    (r"([a-z]{1,3})+!", "a"),
    (r"(a*b*)*c", "ab"),
    (r"(?i)(a.|Ab)+$", "ab"),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a"),
    (r"(x+x+)+y", "x"),
    (rb"(\d+)*$", b"1"),
    (r"^(?:.*?,)*(?:.*?,)*x", ","),
]
HARMLESS = [
    r"(a+)+", r"(a+b)+$", r"(\w+\s)+$", r"\d+-\d+-\d+$", r"^[^@]+@[^@]+$", r"(a|b)*c", r"(\d{4})+$", r"a{1,3}a{1,3}$",
    r"(?:\b\w+\b\s*)+$", r"([a-z]{1,3}){1,3}$", r"\s*,\s*", r"^(\d{1,3}\.){3}\d{1,3}$", r"", r"(?=a+)b", r"(.)\1+$",
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "piece"), EXPONENTIAL)
def test_problem_names_patterns_that_take_long(pattern, piece) -> None:
    assert problem(pattern)
    compiled = re.compile(pattern)
    end = b"\0" if isinstance(piece, bytes) else "\0"
    count = 4
    while count < 4000:  # the time must grow until it is seen, or the judgement would be wrong
        begin = time.perf_counter()
        compiled.match(piece * count + end)
        if time.perf_counter() - begin > 0.02:
            break
        count += max(1, count // 10)
    assert count < 4000


@pytest.mark.parametrize("pattern", HARMLESS)
def test_problem_passes_harmless_patterns(pattern) -> None:
    assert problem(pattern) == ""


def test_problem_whole_match_makes_the_end_fail() -> None:
    assert problem(r"(a+)+") == ""
    assert "double" in problem(r"(a+)+", whole=True)


def test_problem_names_adjacent_loops() -> None:
    assert "square" in problem(r"^\d+\d+$")
    assert "square" in problem(r".*.*=.")


@pytest.mark.parametrize("pattern", ["(", "a{5,1}", "[z-a]", "(?P<n>a)(?P<n>b)", "a{99999999999999999999}"])
def test_problem_reports_invalid_patterns(pattern) -> None:
    assert problem(pattern).startswith("not a valid pattern: ")


def test_problem_is_bounded() -> None:
    assert "too long to judge" in problem("a" * (LONGEST + 1))
    assert "too many to judge" in problem("a" * (MOST_STATES + 1))
    begin = time.perf_counter()
    assert problem("(" + "|".join(["[a-z]*"] * (MOST_STATES - 1)) + ")*!")
    problem("(" + "[a-z]?" * (MOST_STATES - 1) + ")!")
    assert time.perf_counter() - begin < 10
