"""``python -m tests.escape.table``: run the corpus as the current user and print what held, as Markdown.

``--json`` prints each trial; ``--failures`` adds what went wrong; words select attacks by the beginning of their id.
Exits with 1 unless every attack that ran was refused, or admitted by the receipt, and at least one ran.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import stockade
from stockade.attacks import corpus, trial
from stockade.attacks.corpus import Attack
from stockade.attacks.trial import Trial
from tests.support import facilities, host


@dataclass
class Row:
    """One guarantee's counts."""

    mechanism: str
    strength: str
    succeeded: int = 0
    refused: int = 0
    admitted: int = 0
    not_run: int = 0


def main(words: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.escape.table", description=__doc__)
    parser.add_argument("only", nargs="*", help="attacks or guarantees, by the beginning of their id")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--failures", action="store_true")
    options = parser.parse_args(words)
    host.adopt_orphans()
    attacks = [item for item in corpus.load() if item.id.startswith(tuple(options.only) or "")]
    trials, not_run = _try(attacks)
    if options.json:
        print(json.dumps([_plain(item) for item in trials] + [{"attack": a.id, "not_run": r} for a, r in not_run]))
    else:
        print(_markdown(trials, not_run))
    failed = [item for item in trials if not (item.control.good and item.confined.good)]
    if options.failures:
        for item in failed:
            print(f"\n{item.attack.id}\n  control: {item.control}\n  confined: {item.confined}", file=sys.stderr)
    return 0 if trials and not failed else 1


def _try(attacks: Sequence[Attack]) -> tuple[list[Trial], list[tuple[Attack, str]]]:
    trials, not_run = [], []
    for attack in attacks:
        reasons = [f"{name}: {facilities.missing(name)}" for name in attack.needs if facilities.missing(name)]
        if reasons:
            not_run.append((attack, "; ".join(reasons)))
            continue
        if sys.stderr.isatty():
            print(f"\r\033[K{attack.id}", end="", file=sys.stderr)
        trials.append(trial.attempt(attack))
    return trials, not_run


def _markdown(trials: Sequence[Trial], not_run: Sequence[tuple[Attack, str]]) -> str:
    rows: dict[str, Row] = {}
    for item in trials:
        row = rows.setdefault(item.attack.guarantee, Row(item.mechanism, item.strength))
        row.succeeded += item.control.good
        row.refused += item.confined.good and not item.admitted
        row.admitted += item.confined.good and item.admitted
    for attack, _ in not_run:
        rows.setdefault(attack.guarantee, Row("-", "-")).not_run += 1
    order = [*map(str, stockade.Guarantee), "verdict"]
    who = "root" if os.geteuid() == 0 else f"an ordinary user (uid {os.geteuid()})"
    lines = [
        f"As {who}, Linux {os.uname().release.partition('-')[0]}:",
        "",
        "| guarantee | mechanism | attacks: succeeded unconfined / refused confined | strength |",
        "| --- | --- | --- | --- |",
    ]
    for name in sorted(rows, key=order.index):
        row = rows[name]
        notes = [f"{row.admitted} not held, and the plan says so"] if row.admitted else []
        notes += [f"{row.not_run} not run here"] if row.not_run else []
        count = f"{row.succeeded} / {row.refused}" + (f" ({'; '.join(notes)})" if notes else "")
        lines.append(f"| `{name}` | {row.mechanism} | {count} | {row.strength} |")
    total = [sum(getattr(row, field) for row in rows.values()) for field in ("succeeded", "refused", "admitted")]
    lines += ["", f"Together {total[0]} / {total[1]}, {total[2]} not held and said so, {len(not_run)} not run."]
    return "\n".join(lines)


def _plain(item: Trial) -> dict[str, object]:
    return {
        "attack": item.attack.id,
        "summary": item.attack.summary,
        "mechanism": item.mechanism,
        "strength": item.strength,
        "control": vars(item.control),
        "confined": vars(item.confined),
        "admitted": item.admitted,
    }


if __name__ == "__main__":
    sys.exit(main())
