"""``python -m tests.escape.backends``: run the corpus over every backend as the current user; print guarantee by backend.

Exits with 1 unless every attack that ran was refused, or admitted by the receipt.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import stockade
from stockade.backends import registry
from stockade.client import wardens
from tests.escape import corpus, trial
from tests.escape.trial import Trial
from tests.support import facilities, host

BACKENDS = ("native", "bubblewrap", "firejail", "landlock", "process")


def main() -> int:
    """Run and print."""
    host.adopt_orphans()
    facts = wardens.host_facts()
    backends = [name for name in BACKENDS if registry.find(name).availability(facts).usable]
    trials: dict[tuple[str, str], list[Trial]] = {}
    failed = []
    for attack in corpus.load():
        if any(facilities.missing(name) for name in attack.needs):
            continue
        for backend in backends:
            if sys.stderr.isatty():
                print(f"\r\033[K{attack.id} {backend}", end="", file=sys.stderr)
            tried = trial.attempt(attack, backend)
            trials.setdefault((attack.guarantee, backend), []).append(tried)
            if not (tried.control.good and tried.confined.good):
                failed.append((backend, attack.id, tried.confined.what))
    print(_markdown(trials, backends))
    for each in failed:
        print(*each, file=sys.stderr)
    return 1 if failed else 0


def _markdown(trials: dict[tuple[str, str], list[Trial]], backends: list[str]) -> str:
    who = "root" if os.geteuid() == 0 else f"an ordinary user (uid {os.geteuid()})"
    lines = [
        f"As {who}, Linux {os.uname().release.partition('-')[0]}: strength, then attacks refused of those that succeed "
        "unconfined.",
        "",
        f"| guarantee | {' | '.join(backends)} |",
        f"| --- |{' --- |' * len(backends)}",
    ]
    guarantees = dict.fromkeys(guarantee for guarantee, _ in trials)
    order = [*map(str, stockade.Guarantee), "verdict"]
    for guarantee in sorted(guarantees, key=order.index):
        cells = [_cell(trials[guarantee, backend]) for backend in backends]
        lines.append(f"| `{guarantee}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(tried: list[Trial]) -> str:
    counts = Counter("admitted" if item.admitted else "refused" for item in tried if item.confined.good)
    return f"{tried[0].strength} {counts['refused']}/{len(tried)}"


if __name__ == "__main__":
    sys.exit(main())
