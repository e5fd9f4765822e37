"""The summary of a batch: counts, pass@k, the slowest and largest programs, histograms. Takes a verdict at a time."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from stockade.batch.estimates import mean_pass_at_k
from stockade.batch.records import VerdictKind

_SHOWN = 10
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
_MIB = 1 << 20
_BYTES = tuple(_MIB * size for size in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096))


class Histogram:
    """Counts of the values below each of some bounds, and of the values beyond the last bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        """Count a value."""
        place = next((at for at, bound in enumerate(self.bounds) if value < bound), len(self.bounds))
        self.counts[place] += 1

    def filled(self) -> list[tuple[float | None, int]]:
        """Return (bound, count) from the first to the last bin that is not empty; a bound of ``None`` is beyond all."""
        pairs: list[tuple[float | None, int]] = [*zip(self.bounds, self.counts, strict=False), (None, self.counts[-1])]
        used = [at for at, (_, count) in enumerate(pairs) if count]
        return pairs[used[0] : used[-1] + 1] if used else []


class Summary:
    """Takes verdicts in their JSON form. Its memory grows with the number of problems, not of verdicts."""

    def __init__(self) -> None:
        self.by_kind: Counter[str] = Counter()
        self.limits: Counter[str] = Counter()
        self.problems: dict[str, Counter[str]] = {}
        self.seconds = Histogram(_SECONDS)
        self.memory = Histogram(_BYTES)
        self.cpu_seconds = 0.0
        self.retried = 0
        self._slowest: list[tuple[float, int, str]] = []
        self._largest: list[tuple[float, int, str]] = []

    def add(self, record: Mapping[str, Any]) -> None:
        """Count a verdict."""
        kind, usage = str(record["verdict"]), record["usage"]
        self.by_kind[kind] += 1
        if record["limit"]:
            self.limits[record["limit"]] += 1
        if record["problem"]:
            self.problems.setdefault(record["problem"], Counter())[kind] += 1
        self.retried += record["attempts"] > 1
        self.cpu_seconds += usage["cpu_seconds"]
        self.seconds.add(usage["wall_seconds"])
        _keep(self._slowest, usage["wall_seconds"], record)
        if usage["peak_memory"] is not None:
            self.memory.add(usage["peak_memory"])
            _keep(self._largest, usage["peak_memory"], record)

    @property
    def total(self) -> int:
        """The number of verdicts."""
        return self.by_kind.total()

    @property
    def not_judged(self) -> int:
        """The number of verdicts that say nothing about their programs; see ``VerdictKind.counts``."""
        return sum(self.by_kind[kind] for kind in VerdictKind if not kind.counts)

    @property
    def slowest(self) -> list[tuple[str, float]]:
        """The ids of the slowest programs, with their wall seconds."""
        return [(name, value) for value, _, name in sorted(self._slowest, reverse=True)]

    @property
    def largest(self) -> list[tuple[str, float]]:
        """The ids of the programs with the most memory, with their bytes."""
        return [(name, value) for value, _, name in sorted(self._largest, reverse=True)]

    def solved(self) -> dict[str, tuple[int, int]]:
        """Return how many samples of each problem were judged and passed; see ``VerdictKind.counts``."""
        return {
            problem: (sum(by_kind[kind] for kind in VerdictKind if kind.counts), by_kind[VerdictKind.PASSED])
            for problem, by_kind in self.problems.items()
        }

    def solved_how_often(self) -> dict[str, int]:
        """Return how many problems were solved by all of their samples, by some, and by none."""
        pairs = [pair for pair in self.solved().values() if pair[0]]
        never = sum(not passed for _, passed in pairs)
        always = sum(passed == samples for samples, passed in pairs)
        return {"always": always, "sometimes": len(pairs) - always - never, "never": never}

    def pass_at(self, ks: Sequence[int]) -> dict[int, float]:
        """Return pass@k for each of ``ks``, if every problem has enough samples for it."""
        counts = self.solved().values()
        found = {k: mean_pass_at_k(counts, k) for k in ks}
        return {k: value for k, value in found.items() if value is not None}

    def as_json(self, ks: Sequence[int]) -> dict[str, Any]:
        """Return the whole summary as JSON-compatible data."""
        return {
            "programs": self.total,
            "verdicts": {kind.value: self.by_kind[kind] for kind in VerdictKind},
            "limits": dict(self.limits.most_common()),
            "pass_at": {str(k): value for k, value in self.pass_at(ks).items()},
            "solved": self.solved_how_often(),
            "problems": {problem: dict(by_kind) for problem, by_kind in self.problems.items()},
            "cpu_seconds": self.cpu_seconds,
            "retried": self.retried,
            "slowest": [{"id": name, "wall_seconds": value} for name, value in self.slowest],
            "largest": [{"id": name, "peak_memory": value} for name, value in self.largest],
            "wall_seconds": [{"below": bound, "count": count} for bound, count in self.seconds.filled()],
            "peak_memory": [{"below": bound, "count": count} for bound, count in self.memory.filled()],
        }


def _keep(heap: list[tuple[float, int, str]], value: float, record: Mapping[str, Any]) -> None:
    item = (value, -record["number"], record["id"])
    if len(heap) < _SHOWN:
        heapq.heappush(heap, item)
    else:
        heapq.heappushpop(heap, item)
