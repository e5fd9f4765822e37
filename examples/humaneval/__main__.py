"""``python -m examples.humaneval``: every verdict as expected, or exit status 1."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from examples.humaneval import answers, bait, contest, problems, report
from examples.humaneval.judge import MODES, Judge
from examples.humaneval.problems import Problem

from stockade import StockadeError


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    options = _options()
    try:
        return asyncio.run(_run(options))
    except (StockadeError, ModuleNotFoundError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _options() -> argparse.Namespace:
    about = "HumanEval in sandboxes: 164 reference solutions, then wrong and hostile answers."
    parser = argparse.ArgumentParser(prog="python -m examples.humaneval", description=about)
    parser.add_argument("--mode", choices=(*MODES, "both"), default="both", help="how answers are judged")
    parser.add_argument("--only", choices=("references", "hostile"), help="leave the other half out")
    parser.add_argument("--jobs", type=int, default=contest.cpus(), metavar="N", help="so many at a time")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    return options


async def _run(options: argparse.Namespace) -> int:
    every = problems.load()
    modes = MODES if options.mode == "both" else (options.mode,)
    summary: dict[str, Any] = {}
    fine = True
    if options.only != "hostile":
        rounds = await _references(every, modes, options)
        fine &= not any(held.surprises for held in rounds.values())
        summary["references"] = {mode: report.as_json(held) for mode, held in rounds.items()}
    if options.only != "references":
        rounds, touched = await _hostile(every, modes, options)
        fine &= not touched and not any(held.surprises for held in rounds.values())
        summary["hostile"] = {mode: report.as_json(held) for mode, held in rounds.items()}
        summary["host"] = {"touched": touched, "memory_cgroup": contest.bounds_memory_of_the_tree()}
    if options.json:
        print(json.dumps({"as_expected": fine, **summary}, indent=2))
    return 0 if fine else 1


async def _references(
    every: Sequence[Problem], modes: Iterable[str], options: argparse.Namespace
) -> dict[str, contest.Round]:
    judge = Judge(**contest.USUAL)
    rounds = {}
    for mode in modes:
        cases = contest.references(every, mode)
        rounds[mode] = await _hold(judge, f"references, {mode}", cases, options)
        _say(options, report.references_line(mode, rounds[mode]))
    return rounds


async def _hostile(
    every: Sequence[Problem], modes: Iterable[str], options: argparse.Namespace
) -> tuple[dict[str, contest.Round], list[str]]:
    judge = Judge(**contest.STRICT)
    rounds = {}
    with bait.laid() as laid:
        for mode in modes:
            cases = contest.hostile(answers.load(), every, mode, laid)
            rounds[mode] = await _hold(judge, f"hostile, {mode}", cases, options)
        touched = laid.touched()
    _say(options, "", report.hostile_table(rounds), "")
    _say(options, *(report.hostile_line(mode, held) for mode, held in rounds.items()))
    _say(options, *(f"        THE HOST WAS REACHED: {report.plain(item)}" for item in touched))
    return rounds, touched


async def _hold(judge: Judge, title: str, cases: Sequence[contest.Case], options: argparse.Namespace) -> contest.Round:
    progress = report.Progress(title, len(cases))
    return await contest.hold(judge, cases, options.jobs, progress.step)


def _say(options: argparse.Namespace, *lines: str) -> None:
    if not options.json:
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
