"""The first filter on commands matches words, not text. ``refuse`` wins, and an empty list means nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade import Policy, PolicyError
from stockade.policy import commands

WORDS = st.lists(st.text(alphabet="abc*?[]/ -'", min_size=1, max_size=4), min_size=1, max_size=4)


@pytest.mark.parametrize(("pattern", "argv", "expected"), [
    ("ls", ["ls"], True),
    ("ls", ["/bin/ls"], True),
    ("ls", ["ls", "-l"], False),
    ("ls *", ["ls", "-l", "/"], True),
    ("ls *", ["ls"], True),
    ("git push *", ["git", "push", "--force"], True),
    ("git push *", ["git", "log"], False),
    ("git push *", ["git"], False),
    ("/usr/bin/git log", ["/usr/bin/git", "log"], True),
    ("/usr/bin/git log", ["git", "log"], False),
    ("python?", ["python3"], True),
    ("rm -rf [/~]*", ["rm", "-rf", "/home"], True),
    ("echo 'a b'", ["echo", "a b"], True),
    ("echo a b", ["echo", "a b"], False),
])  # fmt: skip
def test_matches_pattern_compares_words(pattern, argv, expected):
    assert commands.matches(argv, pattern) is expected


def test_refusal_refuse_wins_and_empty_allows_none():
    assert commands.refusal(["git", "push"], ["git *"], ["git push *"]).startswith("commands.refuse: 'git push'")
    assert not commands.refusal(["git", "log"], ["git *"], ["git push *"])
    assert "allowed pattern: nothing" in commands.refusal(["ls"], [], [])
    assert not commands.refusal(["anything"], None, [])


@given(WORDS, WORDS)
def test_refusal_fewer_patterns_never_allow_more(argv, patterns):
    patterns = [pattern for pattern in patterns if _is_pattern(pattern)]
    wide = commands.refusal(argv, patterns, [])
    narrow = commands.refusal(argv, patterns[:1], [])
    assert not wide or narrow
    assert commands.refusal(argv, patterns, ["*", "* *"])


def _is_pattern(text):
    try:
        commands.split_pattern(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("pattern", ["", "   ", "'unclosed", "''"])
def test_policy_invalid_command_pattern_refused(pattern):
    with pytest.raises(PolicyError, match="commands"):
        Policy(commands={"allow": [pattern]})


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("git *", "git *", True), ("git *", "git log *", True), ("git *", "git log", True), ("git *", "git", True),
        ("git log", "git *", False), ("git * *", "git *", False), ("git *", "/usr/bin/git log", True),
        ("/usr/bin/git *", "git *", False), ("*", "git log", False), ("git ?", "git *", False), ("g*", "git", True),
        ("git 'a b'", "git 'a b'", True), ("git lo? *", "git log *", False), ("git [ab] *", "git [ab] c *", True),
    ],
)  # fmt: skip
def test_covers_uncertain_pattern_is_not_covered(wide, narrow, expected):
    assert commands.covers(wide, narrow) == expected
