"""Measure a cold run on each backend, and bubblewrap beside bwrap driven by hand.

The contenders take turns in one process; the figures are medians.

python bench/backends.py [--runs 100] [--json FILE]

bwrap by hand comes twice. With the same walls it has the backend's own arguments, files and filter, so the difference is what
stockade itself costs: control groups, resource limits, a verdict, nothing left running. With plain arguments it has fewer
walls (no filter, no files of its own in /etc, nothing sized), so that difference holds the price of these walls as well.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

from bench.cold import BWRAP, PYTHON, in_turn, machine, spawn

import stockade
from stockade.backends import registry
from stockade.backends.bubblewrap.arguments import STATUS
from stockade.backends.bubblewrap.backend import Bubblewrap
from stockade.client import warden_process
from stockade.core.launch import decode_steps
from stockade.runs.job import Command, Job

ACCEPT = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
BACKENDS = ("native", "bubblewrap", "landlock", "process", "firejail")


def on(backend: str, argv: list[str]) -> Callable[[], None]:
    box = stockade.Runner(stockade.Policy(accept=ACCEPT), backend=backend)

    def call() -> None:
        box.run_command(argv).check()

    return call


def by_hand_with_the_same_walls(argv: list[str]) -> Callable[[], None]:
    """bwrap with the backend's own arguments and descriptors, started by nothing but posix_spawn."""
    backend = Bubblewrap()
    made = stockade.plan(backend=backend)
    with backend.prepare(made, Job(argv=tuple(argv)), lambda _: Command(argv=tuple(argv))) as launch:
        pass
    data = [step for step in (*decode_steps(launch.base), *launch.steps) if step[0] == "data"]
    status = os.open(os.devnull, os.O_WRONLY)

    def call() -> None:
        for _, number, content in data:
            fd = os.memfd_create("bench")
            os.write(fd, content)
            os.lseek(fd, 0, os.SEEK_SET)
            os.dup2(fd, number)
            os.close(fd)
        os.dup2(status, STATUS)
        pid = os.posix_spawn(launch.argv[0], launch.argv, {"PATH": "/usr/bin:/bin"})
        assert os.waitpid(pid, 0)[1] == 0
        for number in (STATUS, *(number for _, number, _ in data)):
            os.close(number)

    return call


def _is_usable(backend: str) -> bool:
    return registry.find(backend).availability(warden_process.host_facts()).usable


def measure(runs: int) -> dict[str, object]:
    cases: dict[str, Callable[[], None]] = {}
    for name, argv in (("true", ["true"]), ("python", PYTHON)):
        cases[f"{name}, bare"] = spawn(argv)
        cases[f"{name}, bwrap by hand"] = spawn([*BWRAP, *argv])
        cases[f"{name}, bwrap by hand, same walls"] = by_hand_with_the_same_walls(argv)
        cases |= {f"{name}, {backend}": on(backend, argv) for backend in BACKENDS if _is_usable(backend)}
    times = in_turn(cases, runs)
    above = {
        f"bubblewrap above {hand}, {name} (ms)": times[f"{name}, bubblewrap"]["median"]
        - times[f"{name}, {hand}"]["median"]
        for hand in ("bwrap by hand", "bwrap by hand, same walls")
        for name in ("true", "python")
    }
    return {"machine": machine(), "runs": runs, "times_ms": times, "derived": above}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    found = measure(options.runs)
    print(f"{found['machine']}; medians of {found['runs']}\n")
    for name, case in found["times_ms"].items():  # type: ignore[attr-defined]
        print(f"{name:38} {case['median']:8.2f} ms   p90 {case['p90']:8.2f}")
    print()
    for name, value in found["derived"].items():  # type: ignore[attr-defined]
        print(f"{name:60} {value:8.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
