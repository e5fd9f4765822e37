"""Two ways to judge an answer, and what their verdicts are made of.

*shared*: answer and test in one interpreter, in one sandbox. Passed means that the run completed and that a
token, drawn for this run, came back as the value of the last line. An answer that is set on it finds the token
(in the source, in a frame, in memory) and says it without having been tested.

*apart*: the answer in one sandbox, the test in another. The answer sees the arguments of each call and nothing
else; the test sees plain data and nothing else; and the verdict is what the test's own sandbox says.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.humaneval import tester
from examples.humaneval.link import link
from examples.humaneval.problems import Problem

from stockade import AsyncSandbox, Outcome, Policy, Result, Sandbox
from stockade._job import Job
from stockade._sandbox import job_from_source

MODES = ("shared", "apart")

_HERE = Path(__file__).parent
_CODEC = "examples/humaneval/codec.py"
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
    """Policies for answers and tests, held against this host once. Raises ``PlanError`` as ``Sandbox`` does."""

    def __init__(self, *, cpu_seconds: float, wall_seconds: float) -> None:
        policy = Policy(
            limits={**_BOUNDS, "cpu_time": cpu_seconds, "wall_time": wall_seconds},
            on_output="kill",
        )
        patient = wall_seconds + _PATIENCE
        self._answers = Sandbox(policy)
        self._shared = AsyncSandbox(policy)
        self._tests = Sandbox(Policy(limits={**_TEST_BOUNDS, "cpu_time": patient, "wall_time": patient}))

    async def judge(self, mode: str, problem: Problem, source: str) -> Verdict:
        """Return the verdict on the answer ``source`` in one of ``MODES``."""
        return await (self.shared if mode == "shared" else self.apart)(problem, source)

    async def shared(self, problem: Problem, source: str) -> Verdict:
        """Judge in one interpreter: good against accidents and clumsy tricks, not against a determined answer."""
        token = secrets.token_hex(16)
        result = await self._shared.run(f"{source}\n\n{problem.test}\n\ncheck({problem.entry_point})\n{token!r}\n")
        return shared_verdict(result, token)

    async def apart(self, problem: Problem, source: str) -> Verdict:
        """Judge from another sandbox."""
        test, answer = await link((self._tests, testing(problem)), (self._answers, answering(problem, source)))
        return apart_verdict(test, answer)


def testing(problem: Problem) -> Job:
    """Return the job of testing: the prompt and the test, and not a word of the answer."""
    wanted = {"prompt": problem.prompt, "test": problem.test, "entry_point": problem.entry_point}
    return _job("tester.py", {"problem.json": json.dumps(wanted)})


def answering(problem: Problem, source: str) -> Job:
    """Return the job of answering: the answer, and not a word of the test."""
    return _job("server.py", {"answer.py": source, "entry_point": problem.entry_point})


def _job(program: str, files: dict[str, str]) -> Job:
    files = {**files, _CODEC: (_HERE / "codec.py").read_text(encoding="utf-8")}
    return job_from_source((_HERE / program).read_text(encoding="utf-8") + "\n\nmain()\n", files=files)


def shared_verdict(result: Result, token: str) -> Verdict:
    """Return what a run of answer and test together amounts to."""
    if not result.ok:
        return _ended_badly(result)
    if result.value == token:
        return Verdict("passed")
    return Verdict("incomplete", "exited with status 0 before the end of the test")


def apart_verdict(test: Result, answer: Result) -> Verdict:
    """Return what a test and an answer that ran apart amount to. Only the test's own sandbox can say passed."""
    if Outcome.SANDBOX_FAILED in (test.outcome, answer.outcome):
        return _ended_badly(answer if answer.outcome is Outcome.SANDBOX_FAILED else test)
    if answer.outcome is Outcome.LIMIT_EXCEEDED:
        return _ended_badly(answer)
    if test.ok and test.value == tester.PASSED:
        return Verdict("passed")
    if test.exit_code == tester.GONE:
        if answer.ok:
            return Verdict("incomplete", "exited with status 0 while a call was waiting for its value")
        return _ended_badly(answer)
    if test.exit_code == tester.NONSENSE:
        return Verdict("failed", "replied with something that is no reply")
    return Verdict("failed", f"the test {test.summary()}")


def _ended_badly(result: Result) -> Verdict:
    name = result.outcome.value
    return Verdict(f"{name}:{result.limit}" if result.limit else name, result.summary())
