"""A result for people: one line, all of it as text, and a view for notebooks.

The guest chooses much of what a result holds. Every text is bounded here, and escaped for the place where it is shown.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from stockade.core.units import format_size
from stockade.runs.result import Met, NetworkUse, Outcome, Result

_SHORT = 40
_LONGEST_TEXT = 400
_MOST_LINES = 20
_MOST_ROWS = 50
_COLOURS = {Outcome.COMPLETED: "#1a7f37", Outcome.SANDBOX_FAILED: "#6e40c9", Outcome.CANCELLED: "#6e7781"}
_FAILED = "#cf222e"


class Section(NamedTuple):
    """A part of the explanation: a title, and rows of a table or a block of lines."""

    title: str
    rows: Sequence[Sequence[str]] = ()
    block: Sequence[str] = ()


def line(result: Result) -> str:
    """Return the result in one line, for ``repr``."""
    shown = [result.summary()]
    if result.value is not None or result.value_repr:
        shown.append(f"value={printable(_value(result), _SHORT)}")
    shown += [f"{name}={printable(repr(text), _SHORT)}" for name, text in _streams(result).items() if text]
    usage = result.usage
    used = [f"{usage.wall_seconds:.3g} s"]
    if usage.peak_memory is not None:
        used.append(format_size(usage.peak_memory))
    ends = filter(None, (", ".join(used), result.backend))
    return f"<Result {printable('; '.join(shown), _LONGEST_TEXT)}; {'; '.join(ends)}>"


def text(result: Result) -> str:
    """Return all that the result says, for a terminal."""
    lines = [printable(result.summary(), _LONGEST_TEXT)]
    for section in _sections(result):
        lines += ["", f"{section.title}:", *(f"  {each}" for each in (*_aligned(section.rows), *section.block))]
    return "\n".join(lines)


def page(result: Result) -> str:
    """Return all that the result says as an HTML fragment. The fragment loads nothing and runs nothing."""
    colour = _COLOURS.get(result.outcome, _FAILED)
    parts = [
        f'<div><b style="color:{colour}">{_escaped(result.outcome.value)}</b> '
        f"{_escaped(printable(result.summary(), _LONGEST_TEXT))}</div>"
    ]
    for section in _sections(result):
        rows = "".join(f"<tr>{''.join(f'<td>{_escaped(each)}</td>' for each in row)}</tr>" for row in section.rows)
        block = "\n".join(map(_escaped, section.block))
        inside = (f"<table>{rows}</table>" if rows else "") + (f"<pre>{block}</pre>" if block else "")
        opened = " open" if section.block or section.title == "used" else ""
        parts.append(f"<details{opened}><summary>{_escaped(section.title)}</summary>{inside}</details>")
    return f"<div>{''.join(parts)}</div>"


def printable(text: str, longest: int) -> str:
    """Return ``text`` on one line of at most ``longest`` characters, with every unprintable character escaped."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def _sections(result: Result) -> Iterator[Section]:
    if result.value is not None or result.value_repr:
        yield Section("value", block=[printable(_value(result), _LONGEST_TEXT)])
    for name, shown in _streams(result).items():
        if shown:
            yield Section(name, block=_lines(shown))
    if result.error and result.error.traceback.strip() not in result.stderr:
        yield Section("traceback", block=_lines(result.error.traceback))
    yield Section("used", _usage(result))
    if result.limits_met:
        states = {**{str(key): each for key, each in result.limits_met.items()}}
        if result.soft_memory:
            states["soft_memory"] = result.soft_memory
        met_first = sorted(states, key=lambda name: states[name].state is not Met.MET)
        yield Section("limits", [_row(name, states[name].state.value, states[name].evidence) for name in met_first])
    if result.denials:
        yield Section("refused system calls", _few((str(each),) for each in result.denials))
    files = _few(_files(result))
    if files:
        yield Section("files", files)
    if result.enforcement:
        yield Section(f"held by {printable(result.backend, _SHORT)}", list(_held(result)))
    if result.shared or result.cold:
        yield Section("interpreter", [_row("warm", result.shared) if result.shared else _row("fresh", result.cold)])


def _usage(result: Result) -> list[Sequence[str]]:
    usage = result.usage
    found: Mapping[str, str | None] = {
        "on the clock": f"{usage.wall_seconds:.3g} s",
        "CPU time": f"{usage.cpu_seconds:.3g} s",
        "memory at most": None if usage.peak_memory is None else format_size(usage.peak_memory),
        "processes at most": None if usage.processes is None else str(usage.processes),
        "output": format_size(usage.output),
    }
    rows = [_row(name, "not counted" if value is None else value) for name, value in found.items()]
    return [*rows, _row("network", _network(result.network))] if result.network else rows


def _network(use: NetworkUse) -> str:
    moved = f"{format_size(use.sent)} sent, {format_size(use.received)} received"
    text = f"{use.requests} requests, {use.refused} refused, {moved}"
    return f"{text}; {printable(use.error, _SHORT)}" if use.error else text


def _held(result: Result) -> Iterator[Sequence[str]]:
    for key, each in result.enforcement.items():
        if each.mechanism != "none":
            yield _row(str(key), each.strength.value, each.mechanism, each.note)
    for key, each in result.enforcement.items():
        if each.mechanism == "none":
            yield _row(str(key), each.strength.value, each.note)


def _files(result: Result) -> Iterator[Sequence[str]]:
    for path, content in result.artifacts.items():
        yield "collected", path, format_size(len(content))
    for refused in (*result.artifacts_refused, *result.changes.refused):
        yield "refused", refused.path, refused.reason
    for change in result.changes:
        yield change.kind, change.path, change.type
    for error in filter(None, (result.artifacts_error, result.changes.error)):
        yield "missing", error


def _value(result: Result) -> str:
    return result.value_repr or "" if result.value is None else repr(result.value)


def _streams(result: Result) -> dict[str, str]:
    return {"stdout": result.stdout, "stderr": result.stderr}


def _lines(text: str) -> list[str]:
    """Return the first and last lines of a text, each bounded and escaped."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    left_out = len(lines) - _MOST_LINES
    if left_out > 0:
        half = _MOST_LINES // 2
        lines = [*lines[:half], f"[... {left_out} lines not shown ...]", *lines[-half:]]
    return [printable(each, _LONGEST_TEXT) for each in lines]


def _row(*values: Any) -> Sequence[str]:
    return [printable(str(value), _LONGEST_TEXT) for value in values]


def _few(found: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Return the first rows, escaped, and the number of the others: a guest may leave many thousands."""
    rest = iter(found)
    rows = [_row(*each) for each in islice(rest, _MOST_ROWS)]
    more = sum(1 for _ in rest)
    return [*rows, [f"and {more} more"]] if more else rows


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns; the last column is as long as it is."""
    columns = range(max(map(len, rows), default=0))
    widths = [max((len(row[at]) for row in rows if len(row) > at + 1), default=0) for at in columns]
    return ["  ".join(each.ljust(width) for each, width in zip(row, widths, strict=False)).rstrip() for row in rows]


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
