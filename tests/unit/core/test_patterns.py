import fnmatch
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade.core import patterns

ALIKE = [
    ("a.png", "*.png", True),
    ("out/a.png", "*.png", False),
    ("out/a.png", "**/*.png", True),
    ("a.png", "**/*.png", True),
    ("out/a/b/c", "out/**", True),
    ("out", "out/**", True),
    ("outer/x", "out/**", False),
    ("a/b/c", "a/**/c", True),
    ("a/c", "a/**/c", True),
    ("a/b/d", "a/**/c", False),
    ("a", "**", True),
    ("x1", "x[0-9]", True),
    ("xa", "x[0-9]", False),
    ("xa", "x[!0-9]", True),
    ("x]", "x[]]", True),
    ("x[", "x[", True),
    ("x-", "x[a-]", True),
    ("", "*", True),
    ("line\nbreak", "line?break", True),
    ("a**b", "a**b", True),
]


@pytest.mark.parametrize(("path", "pattern", "expected"), ALIKE)
def test_matches_follows_the_table(path, pattern, expected):
    assert patterns.matches(path, pattern) is expected


@given(st.text("ab*?[]!-", max_size=8), st.text("ab*?[]!-", max_size=8))
def test_matches_single_name_as_a_shell_does(name, pattern):
    if "**" in pattern or not pattern:
        return
    assert patterns.matches(name, pattern) == (re.match(fnmatch.translate(pattern), name) is not None)


def test_matches_long_name_in_little_time():
    begin = time.perf_counter()
    assert not patterns.matches("a" * 255, "*a" * 60 + "b")
    assert not patterns.matches("/".join("a" * 60), "/".join(["**", "a"] * 30) + "/b")
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize("pattern", ["", "/a", "a//b", "../a", "a/./b", "a\0", "/".join("a" * 65)])
def test_problem_refuses_malformed_patterns(pattern):
    assert patterns.problem(pattern)
