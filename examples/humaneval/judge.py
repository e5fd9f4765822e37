"""Two ways to judge an answer, and what their verdicts are made of.

*shared*: answer and test in one interpreter, in one sandbox. Passed means that the run completed and that a
token, drawn for this run, came back as the value of the last line. An answer that is set on it finds the token
(in the source, in a frame, in memory) and says it without having been tested.

*apart*: the answer in one sandbox, the test in another. The answer sees the arguments of each call and nothing
else; the test sees plain data and nothing else; and the verdict is what the test's own sandbox says.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from examples.humaneval.problems import Problem

from stockade import AsyncRunner, Outcome, Policy, Result, Runner
from stockade.batch.isolated.endings import GONE, NONSENSE, PASSED
from stockade.batch.isolated.jobs import answer_job, shared_source, tester_job
from stockade.batch.isolated.link import link
from stockade.batch.records import Test

MODES = ("shared", "apart")

_BOUNDS: Mapping[str, Any] = {
    "memory": "128MiB",
    "processes": 8,
    "open_files": 64,
    "disk": "16MiB",
    "file_size": "16MiB",
    "output": "256KiB",
}
_TEST_BOUNDS: Mapping[str, Any] = {"processes": 1, "output": "4MiB", "disk": "4MiB"}
_PATIENCE = 10  # seconds that a test may take beyond its answer


@dataclass(frozen=True)
class Verdict:
    """``passed``, ``failed``, ``incomplete`` (ended well before the test's end), ``crashed``,
    ``limit_exceeded:NAME`` or ``sandbox_failed``."""

    word: str
    reason: str = ""


class Judge:
    """Policies for answers and tests, held against this host once. Raises ``PlanError`` as ``Runner`` does."""

    def __init__(self, *, cpu_seconds: float, wall_seconds: float) -> None:
        policy = Policy(
            limits={**_BOUNDS, "cpu_time": cpu_seconds, "wall_time": wall_seconds},
            on_output="kill",
        )
        patient = wall_seconds + _PATIENCE
        self._answers = AsyncRunner(policy, backend=Runner(policy).backend)  # raises now, not at the first answer
        self._shared = self._answers
        self._tests = AsyncRunner(Policy(limits={**_TEST_BOUNDS, "cpu_time": patient, "wall_time": patient}))

    async def judge(self, mode: str, problem: Problem, source: str) -> Verdict:
        """Return the verdict on the answer ``source`` in one of ``MODES``."""
        return await (self.shared if mode == "shared" else self.apart)(problem, source)

    async def shared(self, problem: Problem, source: str) -> Verdict:
        """Judge in one interpreter: good against accidents and clumsy tricks, not against a determined answer."""
        token = secrets.token_hex(16)
        result = await self._shared.run(shared_source(as_test(problem, source), token))
        return shared_verdict(result, token)

    async def apart(self, problem: Problem, source: str) -> Verdict:
        """Judge from another sandbox."""
        wanted = as_test(problem, source)
        test, answer = await link((self._tests, tester_job(wanted)), (self._answers, answer_job(wanted, {})))
        return isolated_verdict(test, answer)


def as_test(problem: Problem, source: str) -> Test:
    """Return the problem's test of ``source``. Its helpers come from the prompt on the test's side as well."""
    functions = (problem.entry_point,)
    return Test(answer=source, code=problem.test, functions=functions, setup=problem.prompt, check="check")


def shared_verdict(result: Result, token: str) -> Verdict:
    """Return what a run of answer and test together amounts to."""
    if not result.ok:
        return _ended_badly(result)
    if result.value == token:
        return Verdict("passed")
    return Verdict("incomplete", "exited with status 0 before the end of the test")


def isolated_verdict(test: Result, answer: Result) -> Verdict:
    """Return what a test and an answer that ran apart amount to. Only the test's own sandbox can say passed."""
    if Outcome.SANDBOX_FAILED in (test.outcome, answer.outcome):
        return _ended_badly(answer if answer.outcome is Outcome.SANDBOX_FAILED else test)
    if answer.outcome is Outcome.LIMIT_EXCEEDED:
        return _ended_badly(answer)
    if test.ok and test.value == PASSED:
        return Verdict("passed")
    if test.exit_code == GONE:
        if answer.ok:
            return Verdict("incomplete", "exited with status 0 while a call was waiting for its value")
        return _ended_badly(answer)
    if test.exit_code == NONSENSE:
        return Verdict("failed", "replied with something that is no reply")
    return Verdict("failed", f"the test {test.summary()}")


def _ended_badly(result: Result) -> Verdict:
    name = result.outcome.value
    return Verdict(f"{name}:{result.limit}" if result.limit else name, result.summary())
