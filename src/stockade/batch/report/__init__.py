"""The report of a batch as one page: figures, charts and a table with filters. The page loads nothing.

The page shows the output of programs, which is hostile text. That text gets there in two ways only: escaped into HTML,
or as JSON that the page's own script reads and shows as text, never as markup. The page's policy allows its own style
and script by their digests, and nothing else. So even injected code would not run, and could not connect to any host.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from stockade.batch.report.charts import bars
from stockade.batch.summary import Summary
from stockade.core.strict_json import dumps
from stockade.core.units import format_size
from stockade.workspace.host_files import HostFile

MOST_ROWS = 5000
"""The most programs in the table; those that did not pass come first."""
_LEAST_PASSED = 1000
_MOST_CASES = 20
_MOST_TEXT = 4000
_MOST_PROBLEMS = 200
_MARK = re.compile(r"\{\{(\w+)\}\}")


def write(
    file: HostFile, records: Iterable[Mapping[str, Any]], summary: Summary, ks: Sequence[int], *, title: str
) -> None:
    """Write the page to ``file``, completely or not at all. Raises ``JobError``."""
    file.deliver(page(records, summary, ks, title=title).encode())


def page(records: Iterable[Mapping[str, Any]], summary: Summary, ks: Sequence[int], *, title: str) -> str:
    """Return the page."""
    style, script = _read("page.css"), _read("page.js")
    rows, left_out = _rows(records)
    parts = {
        "policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        "title": escape(visible(title)),
        "style": style,
        "script": script,
        "figures": _figures(summary, ks),
        "charts": _charts(summary),
        "problems": _problems(summary),
        "left_out": f"{left_out:,} more are left out here; the file of verdicts has them all." if left_out else "",
        "data": _as_data(rows),
    }
    # One pass, so that a mark inside of an inserted part is not replaced.
    return _MARK.sub(lambda found: parts[found[1]], _read("page.html"))


def visible(text: str) -> str:
    """Return text with control characters and direction marks escaped, since they would mislead a reader."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def _rows(records: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of the table, and the number of programs that are left out.

    Programs that did not pass come first, except that some rows are reserved for those that passed.
    """
    kept: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    count = 0
    for record in records:
        count += 1
        same = kept[record["verdict"] == "passed"]
        if len(same) < MOST_ROWS:
            same.append(_row(record))
    failed = kept[False][: MOST_ROWS - min(_LEAST_PASSED, len(kept[True]))]
    chosen = failed + kept[True][: MOST_ROWS - len(failed)]
    return sorted(chosen, key=lambda row: int(row["number"])), count - len(chosen)


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    usage = record["usage"]
    return {
        "number": record["number"],
        "id": visible(record["id"]),
        "problem": visible(record["problem"]),
        "verdict": record["verdict"],
        "limit": record["limit"] or "",
        "reason": visible(record["reason"]),
        "seconds": usage["wall_seconds"],
        "cpu": usage["cpu_seconds"],
        "memory": usage["peak_memory"],
        "cases": [_case(case) for case in record["cases"][:_MOST_CASES]],
        "more": max(0, len(record["cases"]) - _MOST_CASES),
    }


def _case(case: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: visible(case[name][:_MOST_TEXT]) for name in ("name", "reason", "stdout", "stderr")}
    return {**texts, "verdict": case["verdict"], "limit": case["limit"] or "", "seconds": case["usage"]["wall_seconds"]}


def _as_data(rows: Any) -> str:
    """Return JSON for a script element: nothing in the text can end the element or begin a comment."""
    text = dumps(rows, compact=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _figures(summary: Summary, ks: Sequence[int]) -> str:
    figures = [(f"{summary.total:,}", "programs")]
    figures += [(f"{count:,}", kind) for kind, count in summary.by_kind.most_common()]
    figures += [(f"{value:.4f}", f"pass@{k}") for k, value in summary.pass_at(ks).items()]
    return "".join(
        f'<div class="figure {escape(kind)}"><b>{escape(value)}</b><span>{escape(kind)}</span></div>'
        for value, kind in figures
    )


def _charts(summary: Summary) -> str:
    by_kind = [(kind, count) for kind, count in summary.by_kind.most_common() if kind != "limit_exceeded"]
    by_kind += [(f"limit: {limit}", count) for limit, count in summary.limits.most_common()]
    seconds = [(f"< {bound:g} s" if bound else "more", count) for bound, count in summary.seconds.filled()]
    memory = [(f"< {format_size(bound)}" if bound else "more", count) for bound, count in summary.memory.filled()]
    charts = (("Verdicts", by_kind), ("Wall time", seconds), ("Peak memory", memory))
    return "".join(bars(title, pairs) for title, pairs in charts if pairs)


def _problems(summary: Summary) -> str:
    solved = sorted(summary.solved().items(), key=lambda item: (item[1][1] / max(1, item[1][0]), item[0]))
    if len(solved) < 2:
        return ""
    shown = "".join(
        f"<tr><td>{escape(visible(name))}</td><td>{passed}</td><td>{samples}</td></tr>"
        for name, (samples, passed) in solved[:_MOST_PROBLEMS]
    )
    rest = len(solved) - _MOST_PROBLEMS
    note = f"<p>{rest:,} more are solved as often or more often.</p>" if rest > 0 else ""
    head = "<thead><tr><th>problem</th><th>passed</th><th>of</th></tr></thead>"
    return (
        f"<details><summary>{len(solved):,} problems, the hardest first</summary>"
        f'<table class="problems">{head}<tbody>{shown}</tbody></table>{note}</details>'
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
