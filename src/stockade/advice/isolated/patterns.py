"""Find regular expressions that backtrack badly, from the pattern alone. Nothing is matched.

A pattern becomes an automaton with one state for each character that it can read (Glushkov's construction). If a text
leads from a state back to it in two ways, each repetition of that text doubles the work of a failing match. If a loop
leads straight into another one over the same characters, the work grows with the square of the text's length.

Backreferences and lookarounds are treated as characters that no loop passes. Possessive and atomic groups never
backtrack, and count as one character.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Callable, Dict, List, NamedTuple, Set, Tuple

try:
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # before Python 3.11
    import sre_parse as _sre  # type: ignore[import-not-found,no-redef,unused-ignore]

LONGEST, MOST_STATES, MOST_STEPS = 2000, 200, 200_000
_UNBOUNDED = 64
"""A repetition of at least this many counts as unbounded."""
_CATEGORIES: Dict[str, Callable[[str], bool]] = {
    "DIGIT": str.isdigit,
    "SPACE": str.isspace,
    "WORD": lambda c: c.isalnum() or c == "_",
}
_NOTHING = 0
_Edge = Tuple[int, int]
_Pair = Tuple[int, int]


class TooLargeError(Exception):
    """The pattern is too large to judge."""


class _Part(NamedTuple):
    """A part of a pattern: the states in which it begins and ends, and whether it matches the empty text."""

    first: List[int]
    last: List[int]
    empty: bool


def problem(pattern: Any, flags: int = 0, *, whole: bool = False) -> str:
    """Return why ``pattern`` (text or bytes) with ``flags`` of ``re`` is a bad one, or an empty text.

    ``whole`` says that the match must reach the end of the text, as with ``re.fullmatch``. Otherwise a loop at the end
    of the pattern always succeeds, and costs nothing.
    """
    if len(pattern) > LONGEST:
        return f"the pattern has more than {LONGEST:,} characters, which is too long to judge"
    try:
        tree = _sre.parse(pattern, flags)
    except (re.error, OverflowError, ValueError) as error:
        return f"not a valid pattern: {error}"
    except RecursionError:
        return "the pattern is nested too deep to judge"
    automaton = _Automaton(pattern if isinstance(pattern, str) else pattern.decode("latin-1"), tree.state.flags)
    try:
        ends = _Part([], [], True) if whole else automaton.part(tree.data)
        if whole:
            automaton.sequence([automaton.part(tree.data), automaton.state(_NOTHING)])
    except TooLargeError:
        return f"the pattern has more than {MOST_STATES} characters and classes, which is too many to judge"
    try:
        return automaton.problem(set(ends.last))
    except TooLargeError:
        return "the pattern repeats too many parts within each other to be judged"


class _Automaton:
    """The states of a pattern, and the ways from each to the next."""

    def __init__(self, text: str, flags: int) -> None:
        literals = {*text.lower(), *text.upper()}
        self._alphabet = [*map(chr, range(9, 127)), *sorted(literals - set(map(chr, range(9, 127))))]
        self._flags = flags
        self._reads: List[int] = []
        self._ways: Counter[_Edge] = Counter()
        self._unbounded: Set[_Edge] = set()

    def state(self, reads: int) -> _Part:
        """Add a state that reads one of these characters, given as bits of their places in the alphabet."""
        if len(self._reads) >= MOST_STATES:
            raise TooLargeError
        self._reads.append(reads)
        return _Part([len(self._reads) - 1], [len(self._reads) - 1], False)

    def sequence(self, parts: List[_Part]) -> _Part:
        """Join parts one after another."""
        whole = _Part([], [], True)
        for part in parts:
            self._ways.update((p, q) for p in whole.last for q in part.first)
            whole = _Part(
                whole.first + part.first if whole.empty else whole.first,
                whole.last + part.last if part.empty else part.last,
                whole.empty and part.empty,
            )
        return whole

    def part(self, items: Any) -> _Part:
        """Return the part for a list of the parser's items."""
        return self.sequence([self._item(str(operation), value) for operation, value in items])

    def _item(self, operation: str, value: Any) -> _Part:
        if operation == "SUBPATTERN":
            return self.part(value[-1])
        if operation in ("BRANCH", "GROUPREF_EXISTS"):
            branches = value[1] if operation == "BRANCH" else value[1:]
            return self._either([self.part(branch or ()) for branch in branches])
        if operation in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(*value)
        if operation in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self.state(self._characters(operation, value))
        if operation == "AT" and "BEGINNING" in str(value) and "BOUNDARY" not in str(value):
            return _Part([], [], True)
        return self.state(_NOTHING)

    def _either(self, parts: List[_Part]) -> _Part:
        return _Part(
            [state for part in parts for state in part.first],
            [state for part in parts for state in part.last],
            any(part.empty for part in parts),
        )

    def _repeat(self, least: int, most: int, items: Any) -> _Part:
        inner = self.part(items)
        if most > 1 and least != most:
            edges = [(p, q) for p in inner.last for q in inner.first]
            self._ways.update(edges)
            if most >= _UNBOUNDED:
                self._unbounded.update(edges)
        return _Part(inner.first, inner.last, inner.empty or least == 0)

    def _characters(self, operation: str, value: Any) -> int:
        items = value if operation == "IN" else [(operation, value)]
        return sum(1 << n for n, c in enumerate(self._alphabet) if self._is_in(c, items))

    def _is_in(self, character: str, items: Any) -> bool:
        forms = {character, character.lower(), character.upper()} if self._flags & re.IGNORECASE else {character}
        negated = any(str(operation) == "NEGATE" for operation, _ in items)
        found = any(_holds(c, str(operation), value) for operation, value in items for c in forms)
        return found != negated

    def problem(self, ends: Set[int]) -> str:
        """Return why matching can take long, or an empty text. A loop over one of ``ends`` cannot fail."""
        ways: Dict[int, List[int]] = {n: [] for n in range(len(self._reads))}
        for p, q in self._ways:
            if self._reads[q]:
                ways[p].append(q)
        loops = _components(ways)
        for p, q in self._ways:
            twice = self._ways[p, q] > 1 and loops[p] == loops[q] and q in ways[p]
            if twice and self._can_fail(loops, p, ends):
                return _EXPONENTIAL
        pairs = self._pairs(ways)
        found = _components(pairs)
        distinct = {found[pair]: pair for pair in pairs if pair[0] != pair[1]}
        for pair in pairs:
            if pair[0] == pair[1] and found[pair] in distinct and self._can_fail(loops, pair[0], ends):
                return _EXPONENTIAL
        for p, q in self._unbounded & {(p, p) for p in ways}:
            for r in ways[p]:
                overlap = self._reads[q] & self._reads[r] and (r, r) in self._unbounded
                if overlap and loops[r] != loops[p] and r not in ends:
                    return _QUADRATIC
        return ""

    def _can_fail(self, loops: Dict[Any, int], state: int, ends: Set[int]) -> bool:
        """Return whether the loop through ``state`` is unbounded, and the pattern continues after it."""
        members = {n for n in range(len(self._reads)) if loops[n] == loops[state]}
        return not members & ends and any(p in members and q in members for p, q in self._unbounded)

    def _pairs(self, ways: Dict[int, List[int]]) -> Dict[_Pair, List[_Pair]]:
        """Return where two walkers that read the same text can go, from each pair of states that they can reach."""
        waiting: List[_Pair] = [(n, n) for n in ways]
        found: Dict[_Pair, List[_Pair]] = {}
        steps = 0
        while waiting:
            pair = waiting.pop()
            if pair in found:
                continue
            p, q = pair
            steps += len(ways[p]) * len(ways[q])
            if steps > MOST_STEPS:
                raise TooLargeError
            after = {(min(r, s), max(r, s)) for r in ways[p] for s in ways[q] if self._reads[r] & self._reads[s]}
            found[pair] = sorted(after)
            waiting += after
        return found


_EXPONENTIAL = "its time can double with each letter of a text that nearly matches: a repeated part matches in two ways"
_QUADRATIC = "its time can grow with the square of the text: two repetitions of the same characters follow each other"


def _holds(character: str, operation: str, value: Any) -> bool:
    code = ord(character)
    if operation == "LITERAL":
        return bool(code == value)
    if operation == "NOT_LITERAL":
        return bool(code != value)
    if operation == "RANGE":
        return bool(value[0] <= code <= value[1])
    if operation == "ANY":
        return character != "\n"
    if operation == "CATEGORY":
        name = str(value).replace("CATEGORY_", "")
        test = _CATEGORIES.get(name.replace("NOT_", ""))
        return test is not None and test(character) != name.startswith("NOT_")
    return False


def _components(ways: Dict[Any, List[Any]]) -> Dict[Any, int]:
    """Return a number for each node; nodes that reach each other have the same one (Tarjan, without recursion)."""
    index: Dict[Any, int] = {}
    lowest: Dict[Any, int] = {}
    component: Dict[Any, int] = {}
    path: List[Any] = []
    for root, edges in ways.items():
        walk = [] if root in index else [(root, iter(edges))]
        if walk:
            index[root] = lowest[root] = len(index)
            path.append(root)
        while walk:
            node, rest = walk[-1]
            following = next(rest, None)
            if following is None:
                walk.pop()
                if walk:
                    lowest[walk[-1][0]] = min(lowest[walk[-1][0]], lowest[node])
                if lowest[node] == index[node]:
                    while node not in component:
                        component[path.pop()] = index[node]
            elif following not in index:
                index[following] = lowest[following] = len(index)
                path.append(following)
                walk.append((following, iter(ways[following])))
            elif following not in component:
                lowest[node] = min(lowest[node], index[following])
    return component
