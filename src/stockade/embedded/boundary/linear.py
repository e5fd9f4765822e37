"""Bounds for regular expressions: a pattern is refused unless its work is a small power of the length of the text.

Backtracking is bad if one text can be divided between repeats in many ways. So a repeat may hold no other repeat and no
alternative. Two repeats that can match the same characters, with nothing between them that ends the first, multiply the
work by the length of the text. The bound counts that, and a pattern may do it twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MOST_LENGTH = 1000
MOST_NESTING = 20
MOST_STEPS = 5000
MOST_BRANCHES = 64
MOST_OVERLAPS = 2
MOST_WIDTH = 1 << 18
_OTHER_WORD, _OTHER_DIGIT, _OTHER_SPACE, _OTHER = range(256, 260)
_ALL = frozenset(range(260))
"""Characters by code point. The four numbers above 255 stand for all other words, digits, spaces, and the rest."""
_REFUSED = {
    codes.GROUPREF: "a backreference", codes.GROUPREF_EXISTS: "a conditional group",
}  # fmt: skip
_CATEGORIES: dict[Any, frozenset[int]] = {
    codes.CATEGORY_DIGIT: frozenset({*map(ord, "0123456789"), _OTHER_DIGIT}),
    codes.CATEGORY_SPACE: frozenset({code for code in range(256) if chr(code).isspace()} | {_OTHER_SPACE}),
    codes.CATEGORY_WORD: frozenset(
        {code for code in range(256) if chr(code).isalnum() or chr(code) == "_"} | {_OTHER_WORD, _OTHER_DIGIT}
    ),
}
_NEGATED = {
    codes.CATEGORY_NOT_DIGIT: codes.CATEGORY_DIGIT,
    codes.CATEGORY_NOT_SPACE: codes.CATEGORY_SPACE,
    codes.CATEGORY_NOT_WORD: codes.CATEGORY_WORD,
}


class PatternRefused(Exception):
    """The work of a pattern has no bound that is small enough."""


@dataclass(frozen=True)
class Shape:
    """Properties of a pattern that set its work: length, alternatives, and whether a failed start can be long."""

    length: int
    branches: int
    has_repeats: bool
    overlaps: int

    def steps(self, size: int, *, is_anchored: bool) -> int:
        """Return a bound for the steps on a text of ``size`` characters."""
        starts = 1 if is_anchored else size + 1
        each = self.length + (size if self.has_repeats else 0)
        return int(starts * each * self.branches * (size + 1) ** self.overlaps)


def shape(pattern: str, flags: int) -> Shape:
    """Return the shape of ``pattern``, or raise ``PatternRefused``."""
    if len(pattern) > MOST_LENGTH:
        raise PatternRefused(f"longer than {MOST_LENGTH:,} characters")
    depth = 0
    for char in pattern:
        depth += (char == "(") - (char == ")")
        if depth > MOST_NESTING:
            raise PatternRefused(f"groups nested deeper than {MOST_NESTING}")
    reader = _Reader(ignores_case=bool(flags & 2))
    tree = parser.parse(pattern, flags)
    reader.ignores_case = reader.ignores_case or bool(tree.state.flags & 2)
    reader.sequence(tree, _Open())
    return Shape(reader.length, reader.branches, reader.repeats > 0, reader.overlaps)


@dataclass
class _Open:
    """The characters that a repeat further left could still take or give back."""

    characters: frozenset[int] = frozenset()


class _Reader:
    """Walks the parsed pattern from left to right."""

    def __init__(self, *, ignores_case: bool) -> None:
        self.ignores_case = ignores_case
        self.length, self.branches, self.repeats, self.overlaps, self.width = 1, 1, 0, 0, 0

    def sequence(self, items: Any, before: _Open) -> None:
        """Walk the items of a sequence. ``before`` is changed to what is open after it."""
        for code, argument in items:
            self.length += 1
            if self.length > MOST_STEPS:
                raise PatternRefused(f"more than {MOST_STEPS:,} steps once its repeats are written out")
            if code in _REFUSED:
                raise PatternRefused(f"{_REFUSED[code]} is not available in scripts")
            if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, getattr(codes, "POSSESSIVE_REPEAT", None)):
                self._repeat(argument, before)
            elif code is codes.SUBPATTERN:
                if argument[1] & 2:
                    self.ignores_case = True
                self.sequence(argument[3], before)
            elif code is codes.BRANCH:
                self._branch(argument[1], before)
            elif code in (codes.ASSERT, codes.ASSERT_NOT, getattr(codes, "ATOMIC_GROUP", None)):
                raise PatternRefused("a look-around or an atomic group is not available in scripts")
            elif code is not codes.AT:
                self._one(self.characters(code, argument), before)

    @staticmethod
    def _one(characters: frozenset[int], before: _Open) -> None:
        """Walk past one character: a repeat that cannot take it ends before it."""
        if not characters & before.characters:
            before.characters = frozenset()

    def _repeat(self, argument: Any, before: _Open) -> None:
        low, high, body = argument
        if low == high and high <= 64:
            for _ in range(high):
                self.sequence(body, before)
            return
        if low == 0 and high == 1 and not _is_single(body):
            self._branch([body, []], before)
            return
        inside: frozenset[int] = frozenset()
        for code, inner in body:
            if code is codes.SUBPATTERN and len(inner[3]) == 1:
                code, inner = inner[3][0]  # noqa: PLW2901
            if code not in _SINGLE:
                raise PatternRefused("a repeat holds a repeat, an alternative or a group of several parts")
            inside |= self.characters(code, inner)
        if inside & before.characters:
            self._overlap(is_optional=high == 1)
        self.repeats += high != 1
        self.length += len(body) * (min(low, 1000) if low else 1)
        before.characters |= inside

    def _overlap(self, *, is_optional: bool) -> None:
        if is_optional:
            self.branches *= 2
        else:
            self.overlaps += 1
        if self.branches > MOST_BRANCHES or self.overlaps > MOST_OVERLAPS:
            raise PatternRefused("too many repeats that can match the same characters follow each other")

    def _branch(self, choices: Any, before: _Open) -> None:
        self.branches *= len(choices)
        if self.branches > MOST_BRANCHES:
            raise PatternRefused(f"more than {MOST_BRANCHES} ways through its alternatives")
        after: frozenset[int] = frozenset()
        for choice in choices:
            one = _Open(before.characters)
            self.sequence(choice, one)
            after |= one.characters
        before.characters = after

    def characters(self, code: Any, argument: Any) -> frozenset[int]:
        """Return the characters that a single item can match."""
        if code is codes.LITERAL:
            return self._cased(frozenset({_class_of(argument)}))
        if code is codes.IN:
            return self._set(argument)
        return _ALL

    def _set(self, items: Any) -> frozenset[int]:
        found: set[int] = set()
        above: set[int] = set()
        is_negated = False
        for code, argument in items:
            if code is codes.NEGATE:
                is_negated = True
            elif code is codes.LITERAL:
                (found if argument < 256 else above).add(_class_of(argument))
            elif code is codes.RANGE:
                self._range(argument[1] - argument[0])
                found.update(range(argument[0], min(argument[1], 255) + 1))
                above |= _ALL - frozenset(range(256)) if argument[1] > 255 else frozenset()
            elif code is codes.CATEGORY:
                found |= _category(argument)
            else:
                return _ALL
        if is_negated:
            return _ALL if self.ignores_case else _ALL - found
        return self._cased(frozenset(found | above))

    def _range(self, width: int) -> None:
        """Count the characters of a range. If case is ignored, CPython visits each of them to compile the pattern."""
        self.width += min(width, 1 << 16)
        if self.ignores_case and self.width > MOST_WIDTH:
            raise PatternRefused(f"sets of more than {MOST_WIDTH:,} characters, with IGNORECASE")

    def _cased(self, found: frozenset[int]) -> frozenset[int]:
        if not self.ignores_case:
            return found
        letters = {code for code in found if code < 256 and chr(code).isalpha()}
        other = {_class_of(ord(char)) for code in letters for char in chr(code).swapcase()}
        return found | other | ({_OTHER_WORD} if letters else set())


def _is_single(body: Any) -> bool:
    return len(body) == 1 and body[0][0] in _SINGLE


def _class_of(code: int) -> int:
    """Return the number that stands for a character."""
    if code < 256:
        return code
    char = chr(code)
    if char.isdigit():
        return _OTHER_DIGIT
    return _OTHER_SPACE if char.isspace() else _OTHER_WORD if char.isalnum() else _OTHER


def _category(argument: Any) -> frozenset[int]:
    if argument in _NEGATED:
        return _ALL - _CATEGORIES[_NEGATED[argument]]
    return _CATEGORIES.get(argument, _ALL)


_SINGLE = (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY)
