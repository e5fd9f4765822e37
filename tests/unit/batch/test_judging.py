import pytest

from stockade import Guarantee, GuestError, Outcome, Result, Usage
from stockade.batch import judging
from stockade.batch.isolated.endings import GONE, NONSENSE, NOT_PLAIN, PASSED
from stockade.batch.records import Case, CaseVerdict, Program, VerdictKind

OK = Result(Outcome.COMPLETED, exit_code=0)
CASE = Case("1", expected="1\n")


def printed(data, **more):
    return Result(Outcome.COMPLETED, exit_code=0, stdout_bytes=data, **more)


@pytest.mark.parametrize(
    ("result", "kind", "limit"),
    [
        (printed(b"1\n"), "passed", None),
        (printed(b"2\n"), "wrong_output", None),
        (printed(b"\xff\n"), "wrong_output", None),
        (printed(b"1\n", stdout_omitted=5), "wrong_output", None),
        (Result(Outcome.FAILED, exit_code=1, stdout_bytes=b"1\n"), "failed", None),
        (Result(Outcome.CRASHED, signal=11, stdout_bytes=b"1\n"), "crashed", None),
        (Result(Outcome.LIMIT_EXCEEDED, limit=Guarantee.MEMORY, stdout_bytes=b"1\n"), "limit_exceeded", "memory"),
        (Result(Outcome.SANDBOX_FAILED, stdout_bytes=b"1\n"), "sandbox_failed", None),
        (Result(Outcome.CANCELLED, stdout_bytes=b"1\n"), "sandbox_failed", None),
    ],
)
def test_case_verdict_follows_outcome(result, kind, limit):
    verdict = judging.case_verdict(CASE, result)
    assert (verdict.verdict, verdict.limit) == (kind, limit)


def test_case_verdict_undecodable_output_is_wrong():
    assert judging.case_verdict(Case("1", expected="\ufffd"), printed(b"\xff")).verdict == "wrong_output"


PASS = Result(Outcome.COMPLETED, exit_code=0, value=PASSED)
UNEQUAL = Result(Outcome.FAILED, exit_code=1, error=GuestError("AssertionError", ""))
LIMIT = Result(Outcome.LIMIT_EXCEEDED, limit=Guarantee.CPU_TIME)


@pytest.mark.parametrize(
    ("test", "answer", "kind"),
    [
        (PASS, OK, "passed"),
        (PASS, Result(Outcome.CANCELLED), "passed"),
        (PASS, LIMIT, "limit_exceeded"),
        (PASS, Result(Outcome.SANDBOX_FAILED), "sandbox_failed"),
        (Result(Outcome.SANDBOX_FAILED), OK, "sandbox_failed"),
        (OK, PASS, "failed"),
        (UNEQUAL, OK, "wrong_output"),
        (UNEQUAL, Result(Outcome.CANCELLED), "wrong_output"),
        (Result(Outcome.FAILED, exit_code=1, error=GuestError("TypeError", "")), PASS, "failed"),
        (LIMIT, PASS, "failed"),
        (Result(Outcome.FAILED, exit_code=GONE), PASS, "failed"),
        (Result(Outcome.FAILED, exit_code=GONE), Result(Outcome.CANCELLED), "failed"),
        (Result(Outcome.FAILED, exit_code=GONE), Result(Outcome.CRASHED, signal=9), "crashed"),
        (Result(Outcome.FAILED, exit_code=NONSENSE), PASS, "failed"),
        (Result(Outcome.FAILED, exit_code=NOT_PLAIN), PASS, "not_judged"),
    ],
)
def test_isolated_verdict_only_test_reports_pass(test, answer, kind):
    assert judging.isolated_verdict(test, answer).verdict == kind


def test_shared_verdict_only_token_passes():
    assert judging.shared_verdict(Result(Outcome.COMPLETED, exit_code=0, value="t"), "t").verdict == "passed"
    assert judging.shared_verdict(OK, "t").verdict == "failed"
    assert judging.shared_verdict(Result(Outcome.FAILED, exit_code=1, value="t"), "t").verdict == "failed"
    assert judging.shared_verdict(UNEQUAL, "t").verdict == "wrong_output"


def case(name, kind, *, memory, reason=""):
    return CaseVerdict(name, kind, reason=reason, usage=Usage(1.0, 2.0, memory, 1, 3))


def test_program_verdict_is_first_failed_case():
    cases = [
        case("a", VerdictKind.PASSED, memory=5),
        case("b", VerdictKind.CRASHED, memory=None, reason="crashed by SIGSEGV"),
        case("c", VerdictKind.FAILED, memory=7),
    ]
    program = Program(id="p", problem="q", cases=(Case("a"), Case("b"), Case("c")))
    verdict = judging.program_verdict(program, cases, 2)
    assert (verdict.verdict, verdict.reason, verdict.attempts) == ("crashed", "case b: crashed by SIGSEGV", 2)
    assert verdict.usage == Usage(3.0, 6.0, 7, 1, 9)
    assert judging.program_verdict(program, cases[:1], 1).passed


def test_clipped_keeps_head_and_tail():
    assert judging.clipped(b"abc", 0, 10) == "abc"
    assert judging.clipped(b"abcdefghij", 0, 4) == "ab\n[... 6 bytes omitted ...]\nij"
    assert judging.clipped(b"abcdefghij", 5, 0) == "\n[... 15 bytes omitted ...]\n"
    assert judging.clipped(b"abc", 5, 10) == "ab\n[... 5 bytes omitted ...]\nc"
