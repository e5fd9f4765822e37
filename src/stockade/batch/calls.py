"""The public calls: ``evaluate`` and ``aevaluate``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
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
from stockade.batch.sources import duplicate
from stockade.batch.thread import from_thread
from stockade.core.errors import JobError, nearest
from stockade.policy.model import Policy, PolicyLike
from stockade.runs.secret import Secret, checked

ProgramLike = Program | Mapping[str, Any]
OnBad = Callable[[int, RecordError], None]


class Options(TypedDict, total=False):
    """The options of a batch. The docstring of ``evaluate`` names the defaults."""

    policy: PolicyLike | None
    jobs: int | None
    memory: int | str | None
    ordered: bool
    tests: Literal["isolated", "shared", "apart"]
    stop_early: bool
    retries: int
    output_kept: int
    interpreter: str | None
    requirements: Sequence[str]
    compilers: Mapping[str, str]
    backend: str | Backend | None
    trust: str | None
    on_bad: OnBad | None
    secrets: Mapping[str, Secret] | None
    on_ask: Callable[[str], bool] | None


def evaluate(programs: Iterable[ProgramLike], **options: Unpack[Options]) -> Iterator[Verdict]:
    """Judge many programs at a time, and yield a verdict for each.

    A program is a ``Program``, or a dictionary with the fields of a line of ``stockade eval`` (``id``, ``source``,
    ``stdin``, ``expected``...). Options:

    ``policy``: the policy of every run, its fields as a mapping, or a profile's name. The default is the default policy
    with 10 s of CPU time, 20 s of wall time and 1 MiB of output.
    ``jobs``: the number of programs at a time; default: one for each processor.
    ``memory``: bytes (or ``"8GiB"``) for all programs together, each counted with its whole limit; default: nine
    tenths of the available memory.
    ``ordered``: whether verdicts come in the order of the programs (default), or as soon as they are known.
    ``tests``: ``"isolated"`` runs an answer's test in a sandbox of its own, ``"shared"`` in the answer's interpreter.
    ``"apart"`` is an alias of ``"isolated"``.
    ``stop_early``: skip the cases after the first one that did not pass.
    ``retries``: how often a program is started again if the sandbox failed (2).
    ``output_kept``: bytes of each stream that a verdict keeps (2048).
    ``interpreter``, ``backend``, ``trust``: as for ``stockade.run``.
    ``requirements``: names of packages that Python programs may import.
    ``compilers``: maps a language to its compiler, or to the folder of its installation; default: the system's.
    ``secrets``, ``on_ask``: as for ``stockade.run``, for every program; a test in a sandbox of its own gets no secret.
    ``on_bad``: called with the number and the error of an invalid program, which is then skipped; without it,
    ``RecordError`` is raised.

    Raises ``JobError``, ``PolicyError``, ``PlanError`` or ``BackendUnavailable`` before anything starts. The programs
    are read and run on a thread of their own, which ends when the iterator is closed.
    """
    _check(programs, options)
    batch = _batch(options)
    return from_thread(lambda: batch.run(programs))


def aevaluate(
    programs: Iterable[ProgramLike] | AsyncIterable[ProgramLike], **options: Unpack[Options]
) -> AsyncGenerator[Verdict, None]:
    """Do what ``evaluate`` does, on a running event loop. The programs may also be an asynchronous iterable.

    Raises at once unless it gets an iterable of programs, and for an unknown option, and the other errors when the
    iteration begins.
    """
    _check(programs, options)
    return _judged(programs, options)


async def _judged(
    programs: Iterable[ProgramLike] | AsyncIterable[ProgramLike], options: Options
) -> AsyncGenerator[Verdict, None]:
    # The first plan of a process waits for the warden, so it must not block the loop.
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

    async def run(self, programs: Iterable[ProgramLike] | AsyncIterable[ProgramLike]) -> AsyncGenerator[Verdict, None]:
        found = verdicts(self._numbered(programs), self.judge, self.budget, ordered=self.ordered, refuse=self.refuse)
        async with aclosing(found):
            async for verdict in found:
                yield verdict

    async def _numbered(self, programs: Iterable[ProgramLike] | AsyncIterable[ProgramLike]) -> AsyncIterator[Numbered]:
        number, seen = 0, dict[bytes, int]()
        async for item in _each(programs):
            number += 1
            try:
                program = item if isinstance(item, Program) else program_from_record(item)
                wrong = duplicate(program, number, seen)
                if wrong:
                    raise RecordError(wrong)
            except RecordError as error:
                self.refuse(number, "", error)
            else:
                yield number, program


def _batch(options: Options) -> _Batch:
    policy = options.get("policy")
    named = policies.default() if policy is None else Policy.named(policy)
    judge = Judge(
        Settings(
            policy=named,
            backend=options.get("backend"),
            trust=options.get("trust"),
            interpreter=_interpreter(options, named),
            compilers=options.get("compilers", {}),
            tests=options.get("tests", "isolated"),
            stop_early=options.get("stop_early", False),
            retries=options.get("retries", 2),
            kept=options.get("output_kept", KEPT),
            secrets=checked(options.get("secrets")),
            on_ask=options.get("on_ask"),
        )
    )
    budget = Budget(machine.capacity(options.get("jobs"), options.get("memory")))
    judge.require(budget)
    return _Batch(judge, budget, options.get("ordered", True), options.get("on_bad"))


def _check(programs: object, options: Options) -> None:
    """Raise ``TypeError`` for an unknown option, and ``JobError`` for a file's name or one program."""
    for name in options:
        if name not in Options.__annotations__:
            near = nearest(name, Options.__annotations__)
            raise TypeError(f"evaluate() has no option {name!r}{f'; did you mean {near!r}?' if near else ''}")
    if isinstance(programs, str | os.PathLike):
        way = "pass programs, such as map(json.loads, open('programs.jsonl')), or use the command 'stockade eval FILE'"
        raise JobError(f"programs: {os.fspath(programs)!r:.80} is a text, and evaluate reads no files; {way}")
    if isinstance(programs, Mapping | Program):
        raise JobError("programs: this is one program; pass a list: evaluate([program])")
    if not isinstance(programs, Iterable | AsyncIterable):
        raise JobError(f"programs: expected an iterable of programs, not {programs!r:.80}")


def _interpreter(options: Options, policy: Policy) -> str | None:
    """Return the interpreter of Python programs: an environment, if packages are named."""
    names, interpreter = options.get("requirements"), options.get("interpreter")
    if not names:
        return interpreter
    from stockade.api.packages.provide import provide  # most batches name no packages

    return provide(names, interpreter, policy=policy)


async def _each(programs: Iterable[ProgramLike] | AsyncIterable[ProgramLike]) -> AsyncIterator[ProgramLike]:
    if isinstance(programs, AsyncIterable):
        async for item in programs:
            yield item
    else:
        for item in programs:
            yield item
