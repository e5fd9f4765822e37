"""All judgements to make, made a few at a time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from examples.humaneval.answers import Answer
from examples.humaneval.bait import Bait
from examples.humaneval.judge import Judge, Verdict
from examples.humaneval.problems import Problem

from stockade import Guarantee, Strength, plan

STRICT = {"cpu_seconds": 0.5, "wall_seconds": 5.0}
"""For answers of which much is known: they are to meet their limits soon, and CPU time first on a busy machine too."""
USUAL = {"cpu_seconds": 10.0, "wall_seconds": 20.0}
"""For answers of which nothing is known."""


@dataclass(frozen=True)
class Case:
    """A judgement to make, and the verdicts that are right."""

    name: str
    mode: str
    problem: Problem
    source: str
    expected: tuple[str, ...] = ("passed",)
    why: str = ""
    right: bool = True
    """Whether its function is right; if it is not and passes all the same, the test was fooled."""


@dataclass(frozen=True)
class Judged:
    """A case and the verdict on it."""

    case: Case
    verdict: Verdict

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is one of those that are right."""
        return self.verdict.word in self.case.expected


@dataclass(frozen=True)
class Round:
    """Many judgements, in the order of their cases, and how long they took together."""

    judged: tuple[Judged, ...]
    seconds: float

    @property
    def passed(self) -> int:
        """How many answers passed."""
        return sum(item.verdict.word == "passed" for item in self.judged)

    @property
    def surprises(self) -> tuple[Judged, ...]:
        """The judgements that are not as expected."""
        return tuple(item for item in self.judged if not item.as_expected)


def references(problems: Iterable[Problem], mode: str) -> list[Case]:
    """Return the cases of the reference solutions."""
    return [Case(f"HumanEval/{problem.number}", mode, problem, problem.reference) for problem in problems]


def hostile(answers: Iterable[Answer], problems: Sequence[Problem], mode: str, bait: Bait) -> list[Case]:
    """Return the cases of the wrong and hostile answers, with what is expected on this kind of host."""
    memory_cgroup = bounds_memory_of_the_tree()
    return [
        Case(
            name=answer.name,
            mode=mode,
            problem=problems[answer.problem],
            source=answer.source(problems[answer.problem].prompt, bait.words),
            expected=answer.verdicts(mode, memory_cgroup=memory_cgroup),
            why=answer.why,
            right=answer.right,
        )
        for answer in answers
    ]


def bounds_memory_of_the_tree() -> bool:
    """Return whether the kernel itself bounds the memory of a whole tree of processes here."""
    return plan().enforcement[Guarantee.MEMORY].strength.holds(Strength.KERNEL)


async def hold(judge: Judge, cases: Sequence[Case], at_a_time: int, done: Callable[[Judged], None]) -> Round:
    """Judge all cases, ``at_a_time`` together; ``done`` is called after each."""
    places = asyncio.Semaphore(at_a_time)

    async def one(case: Case) -> Judged:
        async with places:
            judged = Judged(case, await judge.judge(case.mode, case.problem, case.source))
        done(judged)
        return judged

    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(case)) for case in cases]
    return Round(tuple(task.result() for task in tasks), time.monotonic() - started)


def cpus() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))
