"""Patterns on paths, matched in bounded time for any name: the matcher backtracks to the last star only.

``*`` and ``?`` match within one name, and ``[a-z]`` and ``[!a-z]`` match one letter of it. ``**`` as a whole part
matches any number of folders, including none. A pattern without a slash matches only at the top of the workspace.
"""

from __future__ import annotations

_MOST_PARTS = 64


def problem(pattern: str) -> str:
    """Return the reason why ``pattern`` is invalid; an empty text if it is valid."""
    parts = pattern.split("/")
    if not pattern or "\0" in pattern or pattern.startswith("/"):
        return "a pattern is relative to the workspace, such as '*.png' or 'out/**'"
    if {"", ".", ".."} & set(parts):
        return "a pattern has no '.', '..' or empty part in it"
    if len(parts) > _MOST_PARTS:
        return f"a pattern has at most {_MOST_PARTS} parts"
    return ""


def matches(path: str, pattern: str) -> bool:
    """Return whether ``path``, relative and without ``.`` or ``..``, matches the whole of ``pattern``."""
    return _match(path.split("/"), pattern.split("/"), _is_any_depth, _part_matches)


def _is_any_depth(part: object) -> bool:
    return part == "**"


def _is_star(letter: object) -> bool:
    return letter == "*"


def _part_matches(name: str, pattern: str) -> bool:
    return _match(name, _letters(pattern), _is_star, _letter_matches)


def _match(items, wanted, is_star, fits) -> bool:  # type: ignore[no-untyped-def]
    """Match a sequence against a pattern in which a star stands for any number of items.

    Only the last star is tried again, so the time is at most the product of the two lengths.
    """
    at = here = 0
    star = again = -1
    while at < len(items):
        if here < len(wanted) and is_star(wanted[here]):
            star, again = here, at
            here += 1
        elif here < len(wanted) and fits(items[at], wanted[here]):
            at += 1
            here += 1
        elif star >= 0:
            again += 1
            at, here = again, star + 1
        else:
            return False
    return all(map(is_star, wanted[here:]))


def _letters(pattern: str) -> list[str]:
    """Split a pattern into letters and bracketed sets. A bracket that is never closed is a letter."""
    found, at = [], 0
    while at < len(pattern):
        end = pattern.find("]", at + 3 if pattern[at + 1 : at + 2] == "!" else at + 2) if pattern[at] == "[" else -1
        end = end if end > 0 else at
        found.append(pattern[at : end + 1])
        at = end + 1
    return found


def _letter_matches(letter: str, wanted: str) -> bool:
    if len(wanted) == 1:
        return wanted in ("?", letter)
    inner = wanted[1:-1]
    unwanted, inner = inner[0] == "!", inner.removeprefix("!")
    return _in_set(letter, inner) != unwanted


def _in_set(letter: str, inner: str) -> bool:
    at = 0
    while at < len(inner):
        if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner):
            if inner[at] <= letter <= inner[at + 2]:
                return True
            at += 3
        else:
            if letter == inner[at]:
                return True
            at += 1
    return False
