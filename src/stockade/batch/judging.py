"""Compute verdicts from the results of sandboxes: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stockade.batch.comparing import difference
from stockade.batch.isolated.endings import GONE, NONSENSE, NOT_PLAIN, NOT_RETURNED, NOT_TESTED, PASSED, UNEQUAL
from stockade.batch.quoting import asserted, compiler_error_line, last_error_line
from stockade.batch.records import Case, CaseVerdict, Program, Verdict, VerdictKind
from stockade.core.text import joined
from stockade.policy.guarantees import Guarantee
from stockade.runs.result import Outcome, Result, Usage

COMPILE = "compile"
"""The name of the only case of a program that could not be compiled."""
ISOLATED, SHARED = "test", "test, shared"
"""The name of the only case of an answer with a test: isolated from the test, or in one interpreter with it."""
KEPT = 2048
"""Bytes of each stream that a verdict keeps by default."""
_ENDINGS = {
    Outcome.FAILED: VerdictKind.FAILED,
    Outcome.CRASHED: VerdictKind.CRASHED,
    Outcome.LIMIT_EXCEEDED: VerdictKind.LIMIT_EXCEEDED,
    Outcome.SANDBOX_FAILED: VerdictKind.SANDBOX_FAILED,
    Outcome.CANCELLED: VerdictKind.SANDBOX_FAILED,  # only the batch cancels runs, and it then judges nothing more
}
_TEST_ENDINGS = {
    GONE: "the answer exited with status 0 during a call",
    NONSENSE: "the answer sent an invalid reply",
}
_UNCROSSED = {NOT_PLAIN: VerdictKind.NOT_JUDGED, NOT_RETURNED: VerdictKind.NOT_JUDGED, UNEQUAL: VerdictKind.FAILED}
"""Exit statuses of a test for a value that cannot cross; the last line of its standard error names the value."""
_WAY_OUT = ", which cannot cross between two sandboxes: judge it with tests='shared'"
_LONGEST_REASON = 500
_LAST_BYTES = 16 << 10  # of standard error that are searched for a reason


def program_verdict(program: Program, cases: Sequence[CaseVerdict], attempts: int) -> Verdict:
    """Return the verdict on a program, which is that of its first case that did not pass."""
    first = next((case for case in cases if case.verdict is not VerdictKind.PASSED), cases[0])
    named = f"case {first.name}: " if len(program.cases) > 1 and first.reason else ""
    return Verdict(
        id=program.id,
        verdict=first.verdict,
        problem=program.problem,
        limit=first.limit,
        reason=named + first.reason,
        usage=summed_usage(case.usage for case in cases),
        attempts=attempts,
        cases=tuple(cases),
    )


def summed_usage(usages: Iterable[Usage]) -> Usage:
    """Return the usage of several runs: the sum of seconds and output, the largest of memory and processes."""
    each = list(usages)
    return Usage(
        cpu_seconds=sum(usage.cpu_seconds for usage in each),
        wall_seconds=sum(usage.wall_seconds for usage in each),
        peak_memory=max((usage.peak_memory for usage in each if usage.peak_memory is not None), default=None),
        processes=max((usage.processes for usage in each if usage.processes is not None), default=None),
        output=sum(usage.output for usage in each),
        network_requests=_sum(usage.network_requests for usage in each),
        network_sent=_sum(usage.network_sent for usage in each),
        network_received=_sum(usage.network_received for usage in each),
    )


def _sum(figures: Iterable[int | None]) -> int | None:
    """Return the sum of the figures that were counted, or ``None`` if none was."""
    counted = [each for each in figures if each is not None]
    return sum(counted) if counted else None


def case_verdict(case: Case, result: Result, kept: int = KEPT) -> CaseVerdict:
    """Return the verdict on a case that the program was run on."""
    if not result.ok:
        return ended_badly(case.name, result, kept)
    reason = _difference(case, result)
    kind = VerdictKind.WRONG_OUTPUT if reason else VerdictKind.PASSED
    return _case(case.name, kind, reason, result, kept)


def _difference(case: Case, result: Result) -> str:
    if case.expected is None:
        return ""
    if result.stdout_truncated:
        return f"the output is {result.stdout_omitted} bytes longer than its limit"
    try:
        return difference(case, result.stdout_bytes.decode())
    except UnicodeDecodeError as error:
        return f"the output is not UTF-8, at byte {error.start + 1}"


def ended_badly(name: str, result: Result, kept: int = KEPT) -> CaseVerdict:
    """Return the verdict on a run that did not complete. Without an error, standard error gives the reason."""
    reason = result.summary()
    if result.error is None and result.outcome in (Outcome.FAILED, Outcome.CRASHED):
        reported = last_error_line(clipped(result.stderr_bytes, 0, _LAST_BYTES))
        reason += f": {reported}" if reported else ""
    return _case(name, _ENDINGS[result.outcome], reason, result, kept)


def not_compiled(tool: str, result: Result, kept: int = KEPT) -> CaseVerdict:
    """Return the verdict on a program that the compiler ``tool`` failed to compile."""
    if result.outcome is not Outcome.FAILED:
        return ended_badly(COMPILE, result, kept)
    reported = compiler_error_line(result.stderr_bytes.decode("utf-8", "replace"))
    return _case(COMPILE, VerdictKind.COMPILE_ERROR, f"{tool} failed: {reported}", result, kept)


def shared_verdict(result: Result, token: str, kept: int = KEPT, source: str = "") -> CaseVerdict:
    """Return the verdict on an answer and its test that ran as one program, whose last line has the value ``token``.

    ``source`` is that program.
    """
    if not result.ok:
        verdict = ended_badly(SHARED, result, kept)
        if verdict.verdict is VerdictKind.FAILED and result.error is not None and result.error.type == "NotTestedError":
            return replace(verdict, verdict=VerdictKind.NOT_TESTED, reason=_short(result.error.message))
        if verdict.verdict is VerdictKind.FAILED and _is_unequal(result):
            return replace(
                verdict,
                verdict=VerdictKind.WRONG_OUTPUT,
                reason=_short(verdict.reason + asserted(result.error, source)),
            )
        return verdict
    if result.value == token:
        return _case(SHARED, VerdictKind.PASSED, "", result, kept)
    return _case(SHARED, VerdictKind.FAILED, "the answer exited with status 0 before the end of the test", result, kept)


def isolated_verdict(test: Result, answer: Result, kept: int = KEPT, source: str = "") -> CaseVerdict:
    """Return the verdict on an answer that ran isolated from its test. Only the test's sandbox can report a pass.

    ``source`` is the test.
    """
    if Outcome.SANDBOX_FAILED in (test.outcome, answer.outcome):
        return ended_badly(ISOLATED, answer if answer.outcome is Outcome.SANDBOX_FAILED else test, kept)
    if answer.outcome is Outcome.LIMIT_EXCEEDED:
        return ended_badly(ISOLATED, answer, kept)
    if test.exit_code == GONE and answer.outcome in (Outcome.FAILED, Outcome.CRASHED):
        return ended_badly(ISOLATED, answer, kept)
    # The answer's standard output holds its replies, so only its standard error is kept.
    return replace(_case(ISOLATED, *_tested(test, source), answer, kept), stdout="")


def _tested(test: Result, source: str) -> tuple[VerdictKind, str]:
    """Return the verdict of the test's sandbox on an answer that met no limit."""
    if test.ok and test.value == PASSED:
        return VerdictKind.PASSED, ""
    if test.ok and isinstance(test.value, str) and test.value.startswith(NOT_TESTED):
        return VerdictKind.NOT_TESTED, test.value.removeprefix(NOT_TESTED)
    if test.limit is Guarantee.MEMORY:
        return VerdictKind.NOT_JUDGED, f"the test's own sandbox was {test.summary()}"
    if test.exit_code in _UNCROSSED:
        return _uncrossed(test, _UNCROSSED[test.exit_code])
    kind = VerdictKind.WRONG_OUTPUT if _is_unequal(test) else VerdictKind.FAILED
    return kind, _TEST_ENDINGS.get(test.exit_code or 0) or f"the test {test.summary()}{asserted(test.error, source)}"


def _uncrossed(test: Result, kind: VerdictKind) -> tuple[VerdictKind, str]:
    """Return the verdict on a value that cannot cross, with the line that the test's sandbox wrote about it."""
    lines = test.stderr_bytes[-_LAST_BYTES:].decode("utf-8", "replace").split("\n")
    reported = next((line for line in reversed(lines) if line), "a value")
    return kind, reported + (_WAY_OUT if kind is VerdictKind.NOT_JUDGED else "")


def _is_unequal(result: Result) -> bool:
    return result.error is not None and result.error.type == "AssertionError"


def _case(name: str, kind: VerdictKind, reason: str, result: Result, kept: int) -> CaseVerdict:
    return CaseVerdict(
        name=name,
        verdict=kind,
        reason=_short(reason),
        limit=result.limit.value if kind is VerdictKind.LIMIT_EXCEEDED and result.limit else None,
        usage=result.usage,
        stdout=clipped(result.stdout_bytes, result.stdout_omitted, kept, result.stdout_head),
        stderr=clipped(result.stderr_bytes, result.stderr_omitted, kept, result.stderr_head),
        exit_code=result.exit_code,
    )


def clipped(data: bytes, omitted: int, kept: int, hole: int = 0) -> str:
    """Return the head and the tail of a stream as text, ``kept`` bytes in all, with a mark between them.

    ``hole`` is the position in ``data`` of the omitted bytes, if it is in the middle.
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
