"""Run many programs at a time on one thread, as many as the budget allows, and yield their verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace

from stockade.batch.budget import Amount, Budget
from stockade.batch.judge import Judge
from stockade.batch.records import Program, RecordError, Verdict
from stockade.core.errors import StockadeError

Numbered = tuple[int, Program]
Refuse = Callable[[int, str, RecordError], None]
_AHEAD = 1024
"""Verdicts that may wait for an earlier one when the order is kept. The bound limits the memory that they take."""


async def verdicts(
    programs: AsyncIterator[Numbered], judge: Judge, budget: Budget, *, ordered: bool, refuse: Refuse
) -> AsyncGenerator[Verdict, None]:
    """Judge ``programs`` and yield the verdicts.

    A program that can never run on this machine goes to ``refuse``. Closing the iterator ends the programs in flight.
    """
    in_flight = _InFlight(judge, budget)
    order = _VerdictOrder(ordered=ordered)
    upcoming = asyncio.ensure_future(anext(programs, None))
    waiting: tuple[Numbered, Amount] | None = None
    more = True
    try:
        while more or in_flight.tasks:
            if more and waiting is None and upcoming.done():
                item = upcoming.result()
                more = item is not None
                waiting = _weighed(item, judge, budget, refuse) if item is not None else None
                if more:
                    upcoming = asyncio.ensure_future(anext(programs, None))
            elif waiting is not None and budget.fits(waiting[1]) and order.has_capacity:
                order.expect(waiting[0][0])
                in_flight.begin(*waiting)
                waiting = None
            else:
                others = [upcoming] if more and waiting is None else []
                for verdict in await in_flight.completed(others):
                    for ready in order.add(verdict):
                        yield ready
    finally:
        upcoming.cancel()
        await in_flight.end()
        await asyncio.gather(upcoming, return_exceptions=True)


def _weighed(item: Numbered, judge: Judge, budget: Budget, refuse: Refuse) -> tuple[Numbered, Amount] | None:
    """Return the program with the most that it may need, or ``None`` if it can never run."""
    number, program = item
    try:
        need = judge.need(program, budget.capacity)
        refusal = budget.refusal(need)
        if not refusal:
            return item, need
        raise RecordError(refusal)
    except RecordError as error:
        refuse(number, program.id, error)
    except StockadeError as error:
        refuse(number, program.id, RecordError(str(error)))
    return None


class _InFlight:
    """The programs that run now."""

    def __init__(self, judge: Judge, budget: Budget) -> None:
        self._judge = judge
        self._budget = budget
        self.tasks: dict[asyncio.Future[Verdict], Amount] = {}

    def begin(self, item: Numbered, need: Amount) -> None:
        self._budget.take(need)
        self.tasks[asyncio.ensure_future(self._run(*item))] = need

    async def completed(self, others: Sequence[asyncio.Future[Numbered | None]]) -> list[Verdict]:
        """Wait until a program or one of ``others`` is done; return the verdicts of all programs that are done."""
        futures: list[asyncio.Future[Verdict] | asyncio.Future[Numbered | None]] = [*self.tasks, *others]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        done = [task for task in self.tasks if task.done()]
        for task in done:
            self._budget.give(self.tasks.pop(task))
        return [task.result() for task in done]

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _run(self, number: int, program: Program) -> Verdict:
        return replace(await self._judge.judge(program), number=number)


class _VerdictOrder:
    """Holds back a verdict until all earlier ones are there, if the order is kept."""

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self._expected: dict[int, Verdict | None] = {}

    @property
    def has_capacity(self) -> bool:
        return len(self._expected) < _AHEAD

    def expect(self, number: int) -> None:
        if self._ordered:
            self._expected[number] = None

    def add(self, verdict: Verdict) -> list[Verdict]:
        """Return the verdicts that can be yielded now."""
        if not self._ordered:
            return [verdict]
        self._expected[verdict.number] = verdict
        ready = []
        for number in list(self._expected):
            held = self._expected[number]
            if held is None:
                break
            ready.append(held)
            del self._expected[number]
        return ready
