"""The error about a lost agent."""

from __future__ import annotations

from typing import Any

import pytest

from stockade import Guarantee, Outcome
from stockade.api.sessions.link import Link
from stockade.runs.result import LimitState, Met, Result


class GoneProcess:
    """An agent's process that has ended before the first byte."""

    def __init__(self, result: Result) -> None:
        self.stdin = self
        self._result = result

    def write(self, _data: bytes, **_how: Any) -> None:
        raise BrokenPipeError

    def wait(self, _timeout: float | None = None) -> Result:
        return self._result


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (Met.MET, "; the limit on processes was met (pids.events max 1): create the sandbox with more"),
        (Met.UNKNOWN, ""),
    ],
)
def test_lost_agent_names_the_limit_that_refused_it_something(state: Met, said: str) -> None:
    states = {Guarantee.PROCESSES: LimitState(state, "pids.events max 1")}
    process: Any = GoneProcess(Result(Outcome.FAILED, exit_code=1, limits_met=states))
    with pytest.raises(EOFError) as caught:
        Link(process, "session_agent.py", longest=100)
    assert str(caught.value) == f"its agent has ended: failed with exit status 1{said}"
