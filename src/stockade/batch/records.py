"""What goes into a batch and what comes out of it: programs with their cases, and verdicts. Plain data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

from stockade.core.errors import StockadeError
from stockade.runs.result import Usage

_NONE_USED = Usage()
Compare = Literal["exact", "lines", "tokens", "floats"]
COMPARISONS: tuple[Compare, ...] = ("exact", "lines", "tokens", "floats")
TOLERANCE = 1e-6
"""How far a number may be off where numbers are compared and nothing else was said: absolutely, or relatively."""


class RecordError(StockadeError):
    """A program's record makes no sense: what is wrong with it, and with which value."""


class Word(StrEnum):
    """A verdict in one word."""

    PASSED = "passed"
    WRONG_OUTPUT = "wrong_output"
    FAILED = "failed"
    COMPILE_ERROR = "compile_error"
    CRASHED = "crashed"
    LIMIT_EXCEEDED = "limit_exceeded"
    NOT_TESTED = "not_tested"
    """The test came to its end and called nothing of the answer, or could not be run whole."""
    NOT_JUDGED = "not_judged"
    """The test and the answer would have to exchange what cannot cross between two sandboxes."""
    SANDBOX_FAILED = "sandbox_failed"

    @property
    def counts(self) -> bool:
        """Whether the verdict says something about the program, so that the program is a sample."""
        return self not in (Word.NOT_TESTED, Word.NOT_JUDGED, Word.SANDBOX_FAILED)


@dataclass(frozen=True)
class Case:
    """One run of a program: what it reads, and what it is to print."""

    name: str
    stdin: str = ""
    expected: str | None = None
    """Standard output as it should be; ``None``: to exit with status 0 is enough."""
    compare: Compare = "lines"
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Test:
    """A test in Python that calls the answer's functions, as HumanEval's and MBPP's do."""

    __test__ = False  # what pytest looks for in a class of this name

    answer: str
    """The whole source that is judged, a prompt that it continues included."""
    code: str
    """The test. It may use what ``setup`` defines, and the answer's functions by their names."""
    functions: tuple[str, ...]
    """What the test calls of the answer; a name may be that of a method of the answer's class ``Solution``."""
    setup: str = ""
    check: str = ""
    """The function that ``code`` defines and that is called with the answer's first function; empty: there is none."""
    shared: bool = False
    """Whether it can only run among the answer's own objects: it makes some of a class that the answer defines."""


@dataclass(frozen=True)
class Program:
    """One program to judge. Either ``source`` with its cases, or a ``test``."""

    id: str
    problem: str = ""
    """What it tries to solve: programs of one problem are counted together."""
    language: str = "python"
    source: str = ""
    cases: tuple[Case, ...] = ()
    test: Test | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the batch's own limits."""
    profile: str | None = None


@dataclass(frozen=True)
class CaseVerdict:
    """What became of one case."""

    name: str
    verdict: Word
    reason: str = ""
    limit: str | None = None
    usage: Usage = _NONE_USED
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What became of a program: the verdict of its first case that did not pass, the usage of all of them."""

    id: str
    verdict: Word
    number: int = 0
    """Where the program stands in its input, from 1 on: the line of a file."""
    problem: str = ""
    limit: str | None = None
    """The limit that ended it, by its name in the policy."""
    reason: str = ""
    usage: Usage = _NONE_USED
    attempts: int = 1
    """How often it was begun; more than once only where the sandbox itself failed."""
    cases: tuple[CaseVerdict, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return self.verdict is Word.PASSED

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as JSON-compatible data, in the order in which a person reads it."""
        return asdict(self)
