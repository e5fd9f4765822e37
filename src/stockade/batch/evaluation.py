"""A batch from an input to a file of verdicts: what was done before is left out, what is done is written at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from stockade.batch.budget import Budget
from stockade.batch.journal import Record
from stockade.batch.judge import Judge, Settings
from stockade.batch.records import Program, RecordError, Verdict
from stockade.batch.runner import Numbered, verdicts
from stockade.batch.sources import Scan, Source, scan
from stockade.core.errors import StockadeError

VERSION = 1
"""Of the file beside the verdicts."""


class Sink(Protocol):
    """Where verdicts go."""

    def append(self, verdict: Verdict) -> Record:
        """Take a verdict; return its JSON form."""


@dataclass
class Evaluation:
    """An input, looked at once, and what is to be done with it."""

    source: Source
    settings: Settings
    budget: Budget
    ordered: bool = False
    judge: Judge = field(init=False)
    seen: Scan = field(init=False)

    def __post_init__(self) -> None:
        """Look at the input. Raises as ``Runner`` does, and ``JobError`` where no program has room."""
        self.judge = Judge(self.settings)
        self.judge.require(self.budget)
        self.seen = scan(self.source, self._wrong)

    def identity(self) -> dict[str, Any]:
        """Return what the verdicts depend on: other verdicts are not to be mixed with these."""
        settings = self.settings
        backend = getattr(settings.backend, "name", settings.backend)
        return {
            "version": VERSION,
            "input": {"kind": self.source.kind, "name": self.source.name, "sha256": self.seen.digest},
            "settings": {
                "policy": settings.policy.model_dump(mode="json"),
                "backend": backend,
                "trust": settings.trust,
                "interpreter": settings.interpreter,
                "tests": settings.tests,
                "stop_early": settings.stop_early,
                **({"compilers": dict(settings.compilers)} if settings.compilers else {}),
            },
        }

    async def run(self, done: bytearray, sink: Sink) -> AsyncGenerator[Record, None]:
        """Judge what is not ``done``; yield each verdict once ``sink`` has it."""
        found = verdicts(self._programs(done), self.judge, self.budget, ordered=self.ordered, refuse=_never)
        async with aclosing(found):
            async for verdict in found:
                yield sink.append(verdict)
        if self.source.digest() != self.seen.digest:
            raise RecordError(f"{self.source.name}: was changed while it was read: some verdicts may be of what it was")

    def _wrong(self, program: Program) -> str:
        try:
            return self.budget.refusal(self.judge.need(program, self.budget.capacity))
        except StockadeError as error:
            return str(error)

    async def _programs(self, done: bytearray) -> AsyncIterator[Numbered]:
        for number, item in self.source.entries(lambda number: not done[number] and number not in self.seen.bad):
            if isinstance(item, RecordError):
                raise RecordError(f"{self.source.name}: was changed while it was read: {number}: {item}")
            yield number, item


def _never(number: int, _: str, error: RecordError) -> None:
    raise RecordError(f"number {number}: {error}")
