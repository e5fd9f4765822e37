"""The summary of a batch as text: counts, problems, pass@k, histograms, the slowest and the largest programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from stockade.cli import table
from stockade.cli.eval_progress import duration
from stockade.cli.reporting import printable
from stockade.core.units import format_size

if TYPE_CHECKING:
    from stockade.batch.summary import Histogram, Summary

_MOST_PROBLEMS = 10
_WIDEST = 40


def lines(summary: Summary, ks: Sequence[int]) -> Iterator[str]:
    """Yield the lines of the summary."""
    if not summary.total:
        yield "no verdicts"
        return
    yield from _verdicts(summary)
    yield from _problems(summary, ks)
    yield ""
    yield from _histogram("wall time", summary.seconds, lambda value: f"{value:g} s")
    if any(summary.memory.counts):
        yield ""
        yield from _histogram("peak memory", summary.memory, format_size)
    yield ""
    yield from _extremes(summary)


def _verdicts(summary: Summary) -> Iterator[str]:
    rows = [["verdict", "programs", "share"]]
    for word, count in summary.by_kind.most_common():
        rows.append([word, str(count), f"{count / summary.total:.1%}"])
        if word == "limit_exceeded":
            rows += [[f"  {limit}", str(number), ""] for limit, number in summary.limits.most_common()]
    yield from table.lines(rows, None)
    if summary.retried:
        yield f"started again because the sandbox failed: {summary.retried}"


def _problems(summary: Summary, ks: Sequence[int]) -> Iterator[str]:
    solved = summary.solved()
    if not solved:
        return
    yield ""
    how_often = ", ".join(f"{count} {word}" for word, count in summary.solved_how_often().items())
    yield f"problems: {len(solved)}; solved {how_often}"
    open_ones = [name for name, (samples, passed) in solved.items() if passed < samples]
    hardest = sorted(open_ones, key=lambda name: (solved[name][1] / max(1, solved[name][0]), name))
    if hardest:
        rows = [["hardest", "passed", "of"]]
        rows += [[_cut(name), str(solved[name][1]), str(solved[name][0])] for name in hardest[:_MOST_PROBLEMS]]
        yield from table.lines(rows, None)
    found = summary.pass_at(ks)
    if found:
        yield ""
        yield "  ".join(f"pass@{k} {value:.4f}" for k, value in found.items())


def _histogram(title: str, histogram: Histogram, shown: Callable[[float], str]) -> Iterator[str]:
    yield title
    filled = histogram.filled()
    highest = max(count for _, count in filled)
    words = [f"< {shown(bound)}" if bound is not None else "more" for bound, _ in filled]
    width, digits = max(map(len, words)), len(str(highest))
    for word, (_, count) in zip(words, filled, strict=True):
        bar = "#" * -(-count * _WIDEST // highest)
        yield f"  {word:>{width}}  {count:>{digits}}  {bar}".rstrip()


def _extremes(summary: Summary) -> Iterator[str]:
    rows = [["slowest", "time", "largest", "memory"]]
    slow = [(_cut(name), duration(value)) for name, value in summary.slowest[:5]]
    large = [(_cut(name), format_size(value)) for name, value in summary.largest[:5]]
    for place in range(max(len(slow), len(large))):
        rows.append([cell for pairs in (slow, large) for cell in (pairs[place] if place < len(pairs) else ("", ""))])
    yield from table.lines(rows, None)


def _cut(name: str) -> str:
    text = printable(name)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
