"""Which commands may be passed on: patterns on the words of a command, looked at before anything starts.

A first filter for callers who pass commands on, not a wall: a program that is allowed may run any other.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase


def words_of(pattern: str) -> tuple[str, ...]:
    """Return the words of a pattern, quoted as for a shell; ``ValueError`` if it has none."""
    words = tuple(shlex.split(pattern))
    if not words or not words[0]:
        raise ValueError(f"{pattern!r}: a pattern begins with a program, such as 'git status' or 'git log *'")
    return words


def matches(argv: Sequence[str], pattern: str) -> bool:
    """Return whether the whole command matches.

    ``*``, ``?`` and ``[...]`` stand for characters of one word (fnmatch); a ``*`` that is the last word stands for any
    further words, none included. A program without ``/`` is compared by its last part: ``git`` is ``/usr/bin/git``.
    """
    program, *words = words_of(pattern)
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
    """Return whether the pattern ``wide`` certainly matches whatever ``narrow`` does.

    Of two patterns with wildcards that is said only of equal ones, and where all that ``wide`` leaves open is its end.
    """
    more, words = words_of(wide), words_of(narrow)
    if more == words:
        return True
    if not any(mark in word for word in words for mark in "*?["):
        return matches(words, wide)
    fixed = more[:-1]
    return len(more) > 1 and more[-1] == "*" and words[: len(fixed)] == fixed and "*" not in words[1 : len(fixed)]


def refusal(argv: Sequence[str], allow: Sequence[str] | None, refuse: Sequence[str]) -> str:
    """Return why a command is refused, an empty text if it is not: what is refused wins over what is allowed."""
    command = shlex.join(argv)
    for pattern in refuse:
        if matches(argv, pattern):
            return f"commands.refuse: {command!r} matches {pattern!r}"
    if allow is not None and not any(matches(argv, pattern) for pattern in allow):
        there = ", ".join(map(repr, allow)) or "nothing"
        return f"commands.allow: {command!r} is not among what is allowed: {there}"
    return ""
