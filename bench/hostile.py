"""A batch in which one program in ten is an attack of the corpus, beside the same batch with sleepers in those places.

python -m bench.hostile [--rounds 3] [--jobs N] [--smoke] [--json FILE]

Every attack in Python that needs nothing prepared takes part: bombs of processes, memory, files and output, programs
that burn CPU time, that reach for the host, that forge a verdict. Each has to end as its header in the corpus says, and
each neighbour to pass. In the calm batch a sleeper stands in the place of each attack for as long as that attack took,
so that what differs is what the attacks do, not how long they do it. Times are by the neighbours' own clocks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from bench.cold import machine

import stockade
from stockade.attacks import corpus, needs
from stockade.attacks.corpus import REFUSED, Attack
from stockade.policy.guarantees import Enforcement, Guarantee

NEIGHBOURS = 9  # to each attack
BENIGN = (
    ("print(sum(range(10**5)))", "4999950000"),
    ("print(' '.join(sorted('the quick brown fox'.split())))", "brown fox quick the"),
    ("import json\nprint(json.dumps({'a': [1, 2.5, None]}))", '{"a": [1, 2.5, null]}'),
    ("import hashlib\nprint(hashlib.sha256(b'x' * 10**6).hexdigest()[:8])", "1b977e9f"),
    ("open('a', 'w').write('b' * 10**5)\nprint(len(open('a').read()))", "100000"),
)
NEVER = "what no attack prints"
SMALL = (
    "cpu_time/loop", "disk/one_file", "memory/list", "output/stdout_flood", "processes/fork_bomb", "verdict/forged_report",
)  # fmt: skip
OF_A_POLICY = ({}, {"on_output": "kill"})
"""What an attack may ask for beside limits: what a batch does anyway."""
_WORDS = {"completed": "wrong_output"}  # it was to print something


@dataclass(frozen=True)
class Times:
    """Of the neighbours in one batch, in seconds, and of the batch."""

    median: float
    p90: float
    total: float


def attacks(names: Sequence[str] = ()) -> list[Attack]:
    """Return the attacks that a line of a batch can hold and that this host has what they need for."""
    return [
        attack
        for attack in corpus.load()
        if attack.language == "python"
        and not (attack.stage or attack.observe or attack.confined)
        and not any(word in attack.path.read_text() for word in ("ATTACK_", "target("))  # nobody sets variables for it
        and {key: value for key, value in attack.policy.items() if key != "limits"} in OF_A_POLICY
        and not needs.why_not(attack.needs)
        and (not names or attack.id in names)
    ]


def programs(chosen: Iterable[Attack], asleep: dict[str, float] | None = None) -> Iterator[dict[str, Any]]:
    """Yield neighbours and attacks, or, with ``asleep``, neighbours and programs that sleep for so many seconds."""
    number = 0
    for attack in chosen:
        for _ in range(NEIGHBOURS):
            source, printed = BENIGN[number % len(BENIGN)]
            yield {"id": f"neighbour {number}", "source": source, "expected": printed}
            number += 1
        if asleep is None:
            kit = {attack.kit.name: attack.kit.read_text()} if attack.kit is not None else {}
            limits = {"wall_time": 20, **attack.policy.get("limits", {})}
            yield {
                "id": attack.id,
                "source": attack.path.read_text(),
                "files": kit,
                "limits": limits,
                "expected": NEVER,
            }
        else:
            yield {
                "id": attack.id,
                "source": f"import time\ntime.sleep({asleep[attack.id]})\nprint(1)",
                "expected": "1",
            }


def is_right(attack: Attack, held: Enforcement | None, found: stockade.Verdict) -> bool:
    """Return whether an attack's verdict is one of the endings that its header names."""
    refusals = attack.refusal_under(held.mechanism if held else "", "native", "namespaces").split(" | ")
    return any(_matches(refusal, found) for refusal in refusals)


def _matches(refusal: str, found: stockade.Verdict) -> bool:
    word, *rest = refusal.split()
    status = found.cases[0].exit_code
    if word == "verdict":
        outcome, *more = rest
        detail = more[0] if more else None
        expected = found.verdict == _WORDS.get(outcome, outcome)
        return expected and (outcome in ("completed", "crashed") or detail in (found.limit, str(status)))
    if word in ("limit", "cut"):  # what is cut elsewhere is ended by its limit in a batch
        return found.verdict == "limit_exceeded" and found.limit == (rest[0] if word == "limit" else "output")
    if word == "crash":
        return found.verdict == "crashed"
    if word in ("prompt", "admitted"):
        return found.verdict == "failed" and status == corpus.SUCCEEDED
    return found.verdict == "failed" and (word != "errno" or status == REFUSED)


def judge(lines: Iterator[dict[str, Any]], jobs: int | None) -> tuple[dict[str, stockade.Verdict], Times]:
    """Return the verdicts of one batch by id, and its times."""
    begun = time.perf_counter()
    found = {verdict.id: verdict for verdict in stockade.evaluate(lines, jobs=jobs)}
    total = time.perf_counter() - begun
    each = [verdict.usage.wall_seconds for verdict in found.values() if verdict.id.startswith("neighbour")]
    return found, Times(statistics.median(each), statistics.quantiles(each, n=10)[-1], total)


def wrong(chosen: Sequence[Attack], found: dict[str, stockade.Verdict]) -> list[str]:
    """Return what is not as it must be in the verdicts of a hostile batch, a line for each."""
    plan = stockade.plan()
    mistakes = []
    for attack in chosen:
        held = plan.enforcement[Guarantee(attack.guarantee)] if attack.guarantee != corpus.VERDICT else None
        if not is_right(attack, held, found[attack.id]):
            mistakes.append(_line(found[attack.id]))
    return mistakes + [_line(verdict) for verdict in found.values() if _is_harmed(verdict)]


def _is_harmed(verdict: stockade.Verdict) -> bool:
    return verdict.id.startswith("neighbour") and not (verdict.passed and verdict.attempts == 1)


def _line(verdict: stockade.Verdict) -> str:
    return f"{verdict.id}: {verdict.verdict} {verdict.limit or ''} {verdict.reason}; {verdict.cases[0].stdout[-200:]!r}"


def compare(only: Sequence[str] = (), rounds: int = 1, jobs: int | None = None) -> dict[str, Any]:
    """Run both batches in turn and return verdicts and factors: of each round, and the median of those."""
    chosen = attacks(only)
    both: list[tuple[Times, Times]] = []
    mistakes: list[str] = []
    words: Counter[str] = Counter()
    for _ in range(rounds):
        found, hostile = judge(programs(chosen), jobs)
        mistakes += wrong(chosen, found)
        words.update(found[attack.id].verdict.value for attack in chosen)
        asleep = {attack.id: found[attack.id].usage.wall_seconds for attack in chosen}
        calm_found, calm = judge(programs(chosen, asleep), jobs)
        mistakes += [_line(verdict) for verdict in calm_found.values() if not verdict.passed]
        both.append((hostile, calm))
    names = [field.name for field in fields(Times)]
    return {
        "machine": machine(),
        "attacks": len(chosen),
        "neighbours": len(chosen) * NEIGHBOURS,
        "rounds": rounds,
        "jobs": jobs or len(os.sched_getaffinity(0)),
        "verdicts on attacks": dict(words),
        "wrong": mistakes,
        "seconds": {name: {"hostile": _median(both, 0, name), "calm": _median(both, 1, name)} for name in names},
        "factors": {name: statistics.median(_ratio(pair, name) for pair in both) for name in names},
    }


def _median(both: Sequence[tuple[Times, Times]], side: int, name: str) -> float:
    return statistics.median(getattr(pair[side], name) for pair in both)


def _ratio(pair: tuple[Times, Times], name: str) -> float:
    return float(getattr(pair[0], name) / getattr(pair[1], name))  # of one round: the machine's own speed drifts


def main() -> int:
    """Print what was found; 1 if a verdict was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, help="so many at a time; unset, one for each processor")
    parser.add_argument("--smoke", action="store_true", help="six attacks, once: does it run?")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    found = compare(SMALL if options.smoke else (), 1 if options.smoke else options.rounds, options.jobs)
    print(
        f"{found['machine']}; {found['attacks']} attacks, {found['neighbours']} neighbours, {found['jobs']} at a time"
    )
    print(f"attacks: {found['verdicts on attacks']}; wrong verdicts: {len(found['wrong'])}")
    for line in found["wrong"]:
        print(f"  {line}")
    for name, side in found["seconds"].items():
        print(
            f"{name:8} {side['hostile']:9.3f} s hostile {side['calm']:9.3f} s calm {found['factors'][name]:6.2f} times"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
