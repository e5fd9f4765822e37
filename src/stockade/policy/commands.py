"""Decide which commands callers may run, by patterns on the words of a command, before anything starts.

This is a first filter for callers who pass commands on, not a wall: an allowed program may run any other.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase


def split_pattern(pattern: str) -> tuple[str, ...]:
    """Return the words of a pattern, quoted as for a shell. Raise ``ValueError`` if it has none."""
    words = tuple(shlex.split(pattern))
    if not words or not words[0]:
        raise ValueError(f"{pattern!r}: a pattern must begin with a program, such as 'git status' or 'git log *'")
    return words


def matches(argv: Sequence[str], pattern: str) -> bool:
    """Return whether the whole command matches.

    ``*``, ``?`` and ``[...]`` stand for characters of one word (fnmatch). A ``*`` as the last word stands for any
    number of further words, even none. A program without ``/`` is compared with the last part of the path: ``git``
    matches ``/usr/bin/git``.
    """
    program, *words = split_pattern(pattern)
    name = argv[0] if "/" in program else argv[0].rpartition("/")[2]
    rest = list(argv[1:])
    if words and words[-1] == "*":
        words.pop()
        if len(rest) < len(words):
            return False
        rest = rest[: len(words)]
    return (
        fnmatchcase(name, program)
        and len(rest) == len(words)
        and all(fnmatchcase(word, part) for word, part in zip(rest, words, strict=True))
    )


def covers(wide: str, narrow: str) -> bool:
    """Return whether the pattern ``wide`` certainly matches every command that ``narrow`` matches.

    If both have wildcards, the answer is yes only for equal patterns, or if the last word of ``wide`` is its only
    wildcard.
    """
    more, words = split_pattern(wide), split_pattern(narrow)
    if more == words:
        return True
    if not any(mark in word for word in words for mark in "*?["):
        return matches(words, wide)
    fixed = more[:-1]
    return len(more) > 1 and more[-1] == "*" and words[: len(fixed)] == fixed and "*" not in words[1 : len(fixed)]


def refusal(argv: Sequence[str], allow: Sequence[str] | None, refuse: Sequence[str]) -> str:
    """Return why a command is refused; an empty text if it is allowed. ``refuse`` wins over ``allow``."""
    command = shlex.join(argv)
    for pattern in refuse:
        if matches(argv, pattern):
            return f"commands.refuse: {command!r} matches {pattern!r}"
    if allow is not None and not any(matches(argv, pattern) for pattern in allow):
        there = ", ".join(map(repr, allow)) or "nothing"
        return f"commands.allow: {command!r} matches no allowed pattern: {there}"
    return ""
