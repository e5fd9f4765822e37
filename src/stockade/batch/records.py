"""The data of a batch: programs with their cases, and verdicts. Plain data, without I/O."""

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
"""The default tolerance of a comparison of numbers, both absolute and relative."""


class RecordError(StockadeError):
    """The record of a program is invalid. The message names the field, its value and the reason."""


class VerdictKind(StrEnum):
    """The kind of a verdict: how a program, or one of its cases, ended."""

    PASSED = "passed"
    WRONG_OUTPUT = "wrong_output"
    FAILED = "failed"
    COMPILE_ERROR = "compile_error"
    CRASHED = "crashed"
    LIMIT_EXCEEDED = "limit_exceeded"
    NOT_TESTED = "not_tested"
    """The test ended without a call of the answer's functions, or a part of it could not run."""
    NOT_JUDGED = "not_judged"
    """The test and the answer would have to exchange a value that cannot cross between two sandboxes."""
    SANDBOX_FAILED = "sandbox_failed"

    @property
    def counts(self) -> bool:
        """Whether the verdict says something about the program, so that pass@k counts the program as a sample."""
        return self not in (VerdictKind.NOT_TESTED, VerdictKind.NOT_JUDGED, VerdictKind.SANDBOX_FAILED)


@dataclass(frozen=True)
class Case:
    """The input of a run of a program, and the output that is expected."""

    name: str
    stdin: str = ""
    expected: str | None = None
    """The expected standard output; ``None``: exit status 0 is enough."""
    compare: Compare = "lines"
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Test:
    """A test in Python that calls the answer's functions, as HumanEval's and MBPP's do."""

    __test__ = False  # tells pytest that the class is not a test

    answer: str
    """The whole source to judge, including the prompt that the answer continues."""
    code: str
    """The test. It may use what ``setup`` defines, and the answer's functions by their names."""
    functions: tuple[str, ...]
    """The answer's functions that the test calls; a name may be that of a method of the answer's class ``Solution``."""
    setup: str = ""
    check: str = ""
    """A function that ``code`` defines and that is called with the answer's first function; empty if there is none."""
    shared: bool = False
    """Whether the test must run in the answer's interpreter, because it makes objects of a class of the answer."""


@dataclass(frozen=True)
class Program:
    """A program to judge: either a ``source`` with its cases, or a ``test``."""

    id: str
    problem: str = ""
    """The problem that the program tries to solve; programs of one problem are counted together."""
    language: str = "python"
    source: str = ""
    cases: tuple[Case, ...] = ()
    test: Test | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    """The limits that differ from the batch's own."""
    profile: str | None = None


@dataclass(frozen=True)
class CaseVerdict:
    """The result of a case."""

    name: str
    verdict: VerdictKind
    reason: str = ""
    limit: str | None = None
    usage: Usage = _NONE_USED
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The result of a program: the verdict of its first case that did not pass, and the usage of all cases."""

    id: str
    verdict: VerdictKind
    number: int = 0
    """The position of the program in its input, from 1; in a file, the number of its line."""
    problem: str = ""
    limit: str | None = None
    """The limit that ended the program, by its name in the policy."""
    reason: str = ""
    usage: Usage = _NONE_USED
    attempts: int = 1
    """How often the program was started; more than once only if the sandbox itself failed."""
    cases: tuple[CaseVerdict, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return self.verdict is VerdictKind.PASSED

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as JSON-compatible data, in an order that suits a reader."""
        return asdict(self)
