"""What results amount to: pure functions from the results of sandboxes to verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stockade._result import Outcome, Result, Usage
from stockade.batch.apart.endings import GONE, NONSENSE, NOT_PLAIN, PASSED
from stockade.batch.comparing import difference
from stockade.batch.records import Case, CaseVerdict, Program, Verdict, Word

COMPILE = "compile"
"""What the one case is called of a program that could not be compiled."""
APART, SHARED = "test", "test, shared"
"""What the one case is called of an answer that has a test: which of the two ways it was."""
KEPT = 2048
"""Bytes of a stream that a verdict keeps unless told otherwise."""
_ENDINGS = {
    Outcome.FAILED: Word.FAILED,
    Outcome.CRASHED: Word.CRASHED,
    Outcome.LIMIT_EXCEEDED: Word.LIMIT_EXCEEDED,
    Outcome.SANDBOX_FAILED: Word.SANDBOX_FAILED,
    Outcome.CANCELLED: Word.SANDBOX_FAILED,  # nobody called it off: the batch itself would not be here any more
}
_TEST_ENDINGS = {
    GONE: "exited with status 0 while a call was waiting for its value",
    NONSENSE: "replied with something that is no reply",
    NOT_PLAIN: "the test hands over something that is no plain data; judge it with tests='shared'",
}
_LONGEST_REASON = 500


def program_verdict(program: Program, cases: Sequence[CaseVerdict], attempts: int) -> Verdict:
    """Return the verdict on a program: that of its first case which did not pass."""
    first = next((case for case in cases if case.verdict is not Word.PASSED), cases[0])
    named = f"case {first.name}: " if len(program.cases) > 1 and first.reason else ""
    return Verdict(
        id=program.id,
        verdict=first.verdict,
        problem=program.problem,
        limit=first.limit,
        reason=named + first.reason,
        usage=together(case.usage for case in cases),
        attempts=attempts,
        cases=tuple(cases),
    )


def together(usages: Iterable[Usage]) -> Usage:
    """Return the usage of several runs: seconds and output added up, memory and processes the largest."""
    each = list(usages)
    return Usage(
        cpu_seconds=sum(usage.cpu_seconds for usage in each),
        wall_seconds=sum(usage.wall_seconds for usage in each),
        peak_memory=max((usage.peak_memory for usage in each if usage.peak_memory is not None), default=None),
        processes=max((usage.processes for usage in each if usage.processes is not None), default=None),
        output=sum(usage.output for usage in each),
    )


def case_verdict(case: Case, result: Result, kept: int = KEPT) -> CaseVerdict:
    """Return what became of one case of a program that was run on it."""
    if not result.ok:
        return ended_badly(case.name, result, kept)
    reason = _difference(case, result)
    word = Word.WRONG_OUTPUT if reason else Word.PASSED
    return _case(case.name, word, reason, result, kept)


def _difference(case: Case, result: Result) -> str:
    if case.expected is None:
        return ""
    if result.stdout_truncated:
        return f"printed {result.stdout_omitted} bytes more than its limit on output keeps"
    try:
        return difference(case, result.stdout_bytes.decode())
    except UnicodeDecodeError as error:
        return f"printed what is no UTF-8, at byte {error.start + 1}"


def ended_badly(name: str, result: Result, kept: int = KEPT) -> CaseVerdict:
    """Return the verdict on a run that did not complete."""
    return _case(name, _ENDINGS[result.outcome], result.summary(), result, kept)


def shared_verdict(result: Result, token: str, kept: int = KEPT) -> CaseVerdict:
    """Return what an answer and its test amount to that ran as one program: the test's last line says ``token``."""
    if not result.ok:
        told = ended_badly(SHARED, result, kept)
        if told.verdict is Word.FAILED and result.error is not None and result.error.type == "AssertionError":
            return replace(told, verdict=Word.WRONG_OUTPUT)
        return told
    if result.value == token:
        return _case(SHARED, Word.PASSED, "", result, kept)
    return _case(SHARED, Word.FAILED, "exited with status 0 before the end of the test", result, kept)


def apart_verdict(test: Result, answer: Result, kept: int = KEPT) -> CaseVerdict:
    """Return what a test and an answer that ran apart amount to. Only the test's own sandbox can say passed."""
    if Outcome.SANDBOX_FAILED in (test.outcome, answer.outcome):
        return ended_badly(APART, answer if answer.outcome is Outcome.SANDBOX_FAILED else test, kept)
    if answer.outcome is Outcome.LIMIT_EXCEEDED:
        return ended_badly(APART, answer, kept)
    if test.exit_code == GONE and answer.outcome in (Outcome.FAILED, Outcome.CRASHED):
        return ended_badly(APART, answer, kept)
    # What the answer's own standard output holds are its replies, so only its standard error is kept.
    return replace(_case(APART, *_tested(test), answer, kept), stdout="")


def _tested(test: Result) -> tuple[Word, str]:
    """Return what the test's own sandbox says of an answer that has met no limit."""
    if test.ok and test.value == PASSED:
        return Word.PASSED, ""
    if test.exit_code in _TEST_ENDINGS:
        return Word.FAILED, _TEST_ENDINGS[test.exit_code]
    unequal = test.error is not None and test.error.type == "AssertionError"
    return Word.WRONG_OUTPUT if unequal else Word.FAILED, f"the test {test.summary()}"


def _case(name: str, word: Word, reason: str, result: Result, kept: int) -> CaseVerdict:
    return CaseVerdict(
        name=name,
        verdict=word,
        reason=_short(reason),
        limit=result.limit.value if word is Word.LIMIT_EXCEEDED and result.limit else None,
        usage=result.usage,
        stdout=clipped(result.stdout_bytes, result.stdout_omitted, kept),
        stderr=clipped(result.stderr_bytes, result.stderr_omitted, kept),
        exit_code=result.exit_code,
    )


def clipped(data: bytes, omitted: int, kept: int) -> str:
    """Return the head and the tail of a stream as text, ``kept`` bytes in all, with a mark between them."""
    left_out = omitted + max(0, len(data) - kept)
    if not left_out:
        return data.decode("utf-8", "replace")
    kept = min(kept, len(data))
    head, tail = data[: kept - kept // 2], data[len(data) - kept // 2 :]
    marked = f"\n[... {left_out} bytes omitted ...]\n"
    return head.decode("utf-8", "replace") + marked + tail.decode("utf-8", "replace")


def _short(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 3] + "..."
