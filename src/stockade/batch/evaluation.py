"""Run a batch from an input to a file of verdicts: skip the programs judged before, write each verdict at once."""

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
"""The version of the file beside the verdicts."""


class Sink(Protocol):
    """A destination for verdicts."""

    def append(self, verdict: Verdict) -> Record:
        """Store a verdict; return its JSON form."""


@dataclass
class Evaluation:
    """An input that was checked, and how to judge it."""

    source: Source
    settings: Settings
    budget: Budget
    ordered: bool = False
    judge: Judge = field(init=False)
    seen: Scan = field(init=False)

    def __post_init__(self) -> None:
        """Check the input. Raises as ``Runner`` does, and ``JobError`` if not even one program fits the budget."""
        self.judge = Judge(self.settings)
        self.judge.require(self.budget)
        self.seen = scan(self.source, self._wrong)

    def identity(self) -> dict[str, Any]:
        """Return everything that the verdicts depend on, so that verdicts of different batches never mix."""
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
                **(
                    {"secrets": {name: each.hosts for name, each in settings.secrets.items()}}
                    if settings.secrets
                    else {}
                ),
                **({"compilers": dict(settings.compilers)} if settings.compilers else {}),
            },
        }

    async def run(self, done: bytearray, sink: Sink) -> AsyncGenerator[Record, None]:
        """Judge the programs that are not ``done``; yield each verdict after ``sink`` has stored it."""
        found = verdicts(self._programs(done), self.judge, self.budget, ordered=self.ordered, refuse=_never)
        async with aclosing(found):
            async for verdict in found:
                yield sink.append(verdict)
        if self.source.digest() != self.seen.digest:
            raise RecordError(
                f"{self.source.name}: the input changed during the batch; some verdicts may belong to its old content"
            )

    def _wrong(self, program: Program) -> str:
        try:
            return self.budget.refusal(self.judge.need(program, self.budget.capacity))
        except StockadeError as error:
            return str(error)

    async def _programs(self, done: bytearray) -> AsyncIterator[Numbered]:
        for number, item in self.source.entries(lambda number: not done[number] and number not in self.seen.bad):
            if isinstance(item, RecordError):
                raise RecordError(f"{self.source.name}: the input changed during the batch: {number}: {item}")
            yield number, item


def _never(number: int, _: str, error: RecordError) -> None:
    raise RecordError(f"number {number}: {error}")
