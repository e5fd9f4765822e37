"""What people call: ``evaluate`` and ``aevaluate``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from stockade.backends.base import Backend
from stockade.batch import machine, policies
from stockade.batch.budget import Budget
from stockade.batch.judge import Judge, Settings
from stockade.batch.judging import KEPT
from stockade.batch.reading import program_from_record
from stockade.batch.records import Program, RecordError, Verdict
from stockade.batch.runner import Numbered, verdicts
from stockade.batch.thread import from_thread
from stockade.policy.model import Policy

Given = Program | Mapping[str, Any]
OnBad = Callable[[int, RecordError], None]


class Options(TypedDict, total=False):
    """What may be said of a batch. Unset, each has the value that ``evaluate`` tells."""

    policy: Policy | str | None
    jobs: int | None
    memory: int | str | None
    ordered: bool
    tests: Literal["apart", "shared"]
    stop_early: bool
    retries: int
    output_kept: int
    interpreter: str | None
    compilers: Mapping[str, str]
    backend: str | Backend | None
    trust: str | None
    on_bad: OnBad | None


def evaluate(programs: Iterable[Given], **options: Unpack[Options]) -> Iterator[Verdict]:
    """Judge programs, many at a time, and yield a verdict for each.

    A program is a dictionary with the fields of a line of ``stockade eval`` (``id``, ``source``, ``stdin``,
    ``expected``...), or a ``Program``. Options:

    ``policy``: of every run, or a profile's name; unset, 10 s of CPU time, 20 s on the clock and 1 MiB of output, the
    rest as ever.
    ``jobs``: so many programs at a time; unset, one for each processor.
    ``memory``: bytes (or ``"8GiB"``) for all of them together, each counted with its whole limit; unset, nine tenths of
    what is available.
    ``ordered``: whether verdicts come in the order of the programs (the default), or as they fall.
    ``tests``: ``"apart"`` runs an answer's test in a sandbox of its own, ``"shared"`` among the answer's own objects.
    ``stop_early``: leave out the cases after one that did not pass.
    ``retries``: how often to begin again where the sandbox failed (2).
    ``output_kept``: bytes of each stream that a verdict keeps (2048).
    ``interpreter``, ``backend``, ``trust``: as for ``stockade.run``.
    ``compilers``: language to the compiler to be taken, or the folder in which it is installed; unset, the system's.
    ``on_bad``: called with the number and the error of a program that makes no sense, which is then left out;
    without it ``RecordError`` is raised.

    Raises ``JobError``, ``PolicyError``, ``PlanError`` or ``BackendUnavailable`` before anything is started. The
    programs are taken, and run, on a thread of their own, which ends when the iterator is closed.
    """
    batch = _batch(options)
    return from_thread(lambda: batch.run(programs))


async def aevaluate(
    programs: Iterable[Given] | AsyncIterable[Given], **options: Unpack[Options]
) -> AsyncGenerator[Verdict, None]:
    """``evaluate`` on a running event loop; the programs may be an asynchronous iterable as well."""
    # The first plan of a process waits for its warden, so it must not hold up the loop.
    batch = await asyncio.to_thread(_batch, options)
    async with aclosing(batch.run(programs)) as found:
        async for verdict in found:
            yield verdict


@dataclass(frozen=True)
class _Batch:
    judge: Judge
    budget: Budget
    ordered: bool
    on_bad: OnBad | None

    def refuse(self, number: int, id: str, error: RecordError) -> None:  # noqa: A002
        if self.on_bad is None:
            raise RecordError(f"program {number}{f' ({id!r})' if id else ''}: {error}")
        self.on_bad(number, error)

    async def run(self, programs: Iterable[Given] | AsyncIterable[Given]) -> AsyncGenerator[Verdict, None]:
        found = verdicts(self._numbered(programs), self.judge, self.budget, ordered=self.ordered, refuse=self.refuse)
        async with aclosing(found):
            async for verdict in found:
                yield verdict

    async def _numbered(self, programs: Iterable[Given] | AsyncIterable[Given]) -> AsyncIterator[Numbered]:
        number = 0
        async for item in _each(programs):
            number += 1
            try:
                yield number, item if isinstance(item, Program) else program_from_record(item)
            except RecordError as error:
                self.refuse(number, "", error)


def _batch(options: Options) -> _Batch:
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise TypeError(f"evaluate() has no option {sorted(unknown)[0]!r}")
    policy = options.get("policy")
    judge = Judge(
        Settings(
            policy=policies.default() if policy is None else Policy.named(policy),
            backend=options.get("backend"),
            trust=options.get("trust"),
            interpreter=options.get("interpreter"),
            compilers=options.get("compilers", {}),
            tests=options.get("tests", "apart"),
            stop_early=options.get("stop_early", False),
            retries=options.get("retries", 2),
            kept=options.get("output_kept", KEPT),
        )
    )
    budget = Budget(machine.capacity(options.get("jobs"), options.get("memory")))
    judge.require(budget)
    return _Batch(judge, budget, options.get("ordered", True), options.get("on_bad"))


async def _each(programs: Iterable[Given] | AsyncIterable[Given]) -> AsyncIterator[Given]:
    if isinstance(programs, AsyncIterable):
        async for item in programs:
            yield item
    else:
        for item in programs:
            yield item
