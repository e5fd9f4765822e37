"""What results amount to: pure functions from the results of sandboxes to verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stockade.batch.comparing import difference
from stockade.batch.isolated.endings import GONE, NONSENSE, NOT_PLAIN, NOT_RETURNED, NOT_TESTED, PASSED, UNEQUAL
from stockade.batch.quoting import asserted, compiler_words, last_words
from stockade.batch.records import Case, CaseVerdict, Program, Verdict, Word
from stockade.core.text import joined
from stockade.policy.guarantees import Guarantee
from stockade.runs.result import Outcome, Result, Usage

COMPILE = "compile"
"""What the one case is called of a program that could not be compiled."""
ISOLATED, SHARED = "test", "test, shared"
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
}
_UNCROSSED = {NOT_PLAIN: Word.NOT_JUDGED, NOT_RETURNED: Word.NOT_JUDGED, UNEQUAL: Word.FAILED}
"""Exit statuses of a test for what cannot cross between two sandboxes; the last line of its stderr says what."""
_WAY_OUT = ", which cannot cross between two sandboxes: judge it with tests='shared'"
_LONGEST_REASON = 500
_LAST_BYTES = 16 << 10  # of standard error, in which a reason is looked for


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
    """Return the verdict on a run that did not complete. Where the run itself gives no reason, its last words do."""
    reason = result.summary()
    if result.error is None and result.outcome in (Outcome.FAILED, Outcome.CRASHED):
        reported = last_words(clipped(result.stderr_bytes, 0, _LAST_BYTES))
        reason += f": {reported}" if reported else ""
    return _case(name, _ENDINGS[result.outcome], reason, result, kept)


def not_compiled(tool: str, result: Result, kept: int = KEPT) -> CaseVerdict:
    """Return the verdict on a program of which the compiler ``tool`` made nothing."""
    if result.outcome is not Outcome.FAILED:
        return ended_badly(COMPILE, result, kept)
    reported = compiler_words(result.stderr_bytes.decode("utf-8", "replace"))
    return _case(COMPILE, Word.COMPILE_ERROR, f"{tool} does not compile it: {reported}", result, kept)


def shared_verdict(result: Result, token: str, kept: int = KEPT, source: str = "") -> CaseVerdict:
    """Return what an answer and its test amount to that ran as one program: the test's last line says ``token``.

    ``source`` is that program.
    """
    if not result.ok:
        verdict = ended_badly(SHARED, result, kept)
        if verdict.verdict is Word.FAILED and result.error is not None and result.error.type == "NotTestedError":
            return replace(verdict, verdict=Word.NOT_TESTED, reason=_short(result.error.message))
        if verdict.verdict is Word.FAILED and _is_unequal(result):
            return replace(
                verdict, verdict=Word.WRONG_OUTPUT, reason=_short(verdict.reason + asserted(result.error, source))
            )
        return verdict
    if result.value == token:
        return _case(SHARED, Word.PASSED, "", result, kept)
    return _case(SHARED, Word.FAILED, "exited with status 0 before the end of the test", result, kept)


def isolated_verdict(test: Result, answer: Result, kept: int = KEPT, source: str = "") -> CaseVerdict:
    """Return what a test and an answer that ran apart amount to. Only the test's own sandbox can say passed.

    ``source`` is the test.
    """
    if Outcome.SANDBOX_FAILED in (test.outcome, answer.outcome):
        return ended_badly(ISOLATED, answer if answer.outcome is Outcome.SANDBOX_FAILED else test, kept)
    if answer.outcome is Outcome.LIMIT_EXCEEDED:
        return ended_badly(ISOLATED, answer, kept)
    if test.exit_code == GONE and answer.outcome in (Outcome.FAILED, Outcome.CRASHED):
        return ended_badly(ISOLATED, answer, kept)
    # What the answer's own standard output holds are its replies, so only its standard error is kept.
    return replace(_case(ISOLATED, *_tested(test, source), answer, kept), stdout="")


def _tested(test: Result, source: str) -> tuple[Word, str]:
    """Return what the test's own sandbox says of an answer that has met no limit."""
    if test.ok and test.value == PASSED:
        return Word.PASSED, ""
    if test.ok and isinstance(test.value, str) and test.value.startswith(NOT_TESTED):
        return Word.NOT_TESTED, test.value.removeprefix(NOT_TESTED)
    if test.limit is Guarantee.MEMORY:
        return Word.NOT_JUDGED, f"the test's own sandbox was {test.summary()}"
    if test.exit_code in _UNCROSSED:
        return _uncrossed(test, _UNCROSSED[test.exit_code])
    word = Word.WRONG_OUTPUT if _is_unequal(test) else Word.FAILED
    return word, _TEST_ENDINGS.get(test.exit_code or 0) or f"the test {test.summary()}{asserted(test.error, source)}"


def _uncrossed(test: Result, word: Word) -> tuple[Word, str]:
    """Return the verdict on a value that cannot cross, with what the test's sandbox says of it."""
    lines = test.stderr_bytes[-_LAST_BYTES:].decode("utf-8", "replace").split("\n")
    reported = next((line for line in reversed(lines) if line), "a value")
    return word, reported + (_WAY_OUT if word is Word.NOT_JUDGED else "")


def _is_unequal(result: Result) -> bool:
    return result.error is not None and result.error.type == "AssertionError"


def _case(name: str, word: Word, reason: str, result: Result, kept: int) -> CaseVerdict:
    return CaseVerdict(
        name=name,
        verdict=word,
        reason=_short(reason),
        limit=result.limit.value if word is Word.LIMIT_EXCEEDED and result.limit else None,
        usage=result.usage,
        stdout=clipped(result.stdout_bytes, result.stdout_omitted, kept, result.stdout_head),
        stderr=clipped(result.stderr_bytes, result.stderr_omitted, kept, result.stderr_head),
        exit_code=result.exit_code,
    )


def clipped(data: bytes, omitted: int, kept: int, hole: int = 0) -> str:
    """Return the head and the tail of a stream as text, ``kept`` bytes in all, with a mark between them.

    ``hole`` is where in ``data`` the omitted bytes would be, if that is in the middle.
    """
    if not omitted and len(data) <= kept:
        return data.decode("utf-8", "replace")
    kept = min(kept, len(data))
    end, begin = kept - kept // 2, len(data) - kept // 2
    if omitted and 0 < hole < len(data):
        end, begin = min(end, hole), max(begin, hole)
    return joined(data[:end], data[begin:], omitted + begin - end)


def _short(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 3] + "..."
