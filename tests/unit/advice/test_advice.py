"""Advice out of a sandbox is checked field by field, since the sandbox has parsed hostile text."""

from __future__ import annotations

import pytest

from stockade import Advice, AdviceKind, JobError, Outcome, SetupError
from stockade.advice.check import LONGEST_SOURCE, _advice, check
from stockade.runs.result import Result

GOOD = [1, 2, "loop", "why"]


def test_advice_is_read_from_the_value() -> None:
    (advice,) = _advice(Result(Outcome.COMPLETED, value=[GOOD]))
    assert advice == Advice(1, 2, AdviceKind.LOOP, "why")
    assert str(advice) == "1:2: loop: why"
    assert advice.to_dict() == {"line": 1, "column": 2, "kind": "loop", "message": "why"}


@pytest.mark.parametrize(
    "item", [None, [], [1, 2, "loop"], [0, 1, "loop", ""], [True, 1, "loop", ""], [1, 1, "joke", ""], [1, 1, "loop", 5],
             [1, 1, "loop", "x" * 10_000], [1.0, 1, "loop", ""], [1, 1, ["loop"], ""]],
)  # fmt: skip
def test_advice_that_is_malformed_is_refused(item) -> None:
    with pytest.raises(JobError, match="malformed"):
        _advice(Result(Outcome.COMPLETED, value=[GOOD, item]))


def test_advice_of_an_unfinished_check_is_refused() -> None:
    with pytest.raises(JobError, match="nothing is known"):
        _advice(Result(Outcome.CRASHED, signal=11))
    with pytest.raises(JobError, match="nothing is known"):
        _advice(Result(Outcome.COMPLETED, value=None))
    with pytest.raises(SetupError):
        _advice(Result(Outcome.SANDBOX_FAILED))


def test_check_refuses_before_anything_starts() -> None:
    with pytest.raises(JobError, match="reads python only"):
        check("1", language="ruby")
    with pytest.raises(JobError, match="files: expected"):
        check("1", files="helper.py")
    with pytest.raises(JobError, match="leave out packages"):
        check("1", requirements=["x"], packages="/usr")
    with pytest.raises(JobError, match="too many to check"):
        check(b" " * (LONGEST_SOURCE + 1))
