"""Hints after a failed run, from its result alone."""

from __future__ import annotations

import pytest

from stockade import Guarantee, LimitState, Outcome, Policy, Result
from stockade.cli import hints
from stockade.runs.job import Job
from stockade.runs.result import Met

HINT = "the limit on memory may have been met, which no counter shows here; --limit memory=MORE raises it\n"
NO_COUNTER = "RLIMIT_DATA leaves no counter"


@pytest.mark.parametrize(
    ("state", "text", "hint"),
    [
        (Met.UNKNOWN, "Traceback (most recent call last):\nMemoryError\n", HINT),
        (Met.UNKNOWN, "main.rb:1: failed to allocate memory (NoMemoryError)", HINT),
        (Met.UNKNOWN, "terminate called after throwing an instance of 'std::bad_alloc'", HINT),
        (Met.UNKNOWN, "ValueError: 1", ""),
        (Met.NOT_MET, "MemoryError", ""),  # a counter shows that it was another limit
    ],
)
def test_refused_memory_without_a_counter_is_explained(
    state: Met, text: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    met = {Guarantee.MEMORY: LimitState(state, NO_COUNTER)}
    result = Result(Outcome.FAILED, exit_code=1, stderr_bytes=text.encode(), limits_met=met)
    hints.say_general(result, Policy(), Job(source=b"", stdin=b""), {})
    assert capsys.readouterr().err == (f"stockade: {hint}" if hint else "")
