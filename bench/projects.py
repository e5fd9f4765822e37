"""Measure what a project adds to a native run, for each kind of access: milliseconds for a thousand names.

    python -m bench.projects [--runs 20] [--names 10000] [--smoke]

``true`` runs with the project and without it, in turn. Prints best and median, less those of the run without it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.cold import in_turn, machine

import stockade

FILES_IN_A_FOLDER = 100
CONTENT = b"x" * 2000
WAYS = {
    "read, nothing hidden": {"access": "read", "hidden": []},
    "read": {"access": "read"},
    "overlay": {"access": "overlay"},
    "copy": {"access": "copy"},
}


def fill(folder: Path, names: int) -> None:
    """Lay files into the project, a hundred to a folder."""
    folder.chmod(0o755)
    for number in range(names // (FILES_IN_A_FOLDER + 1)):
        inner = folder / str(number)
        inner.mkdir()
        for file in range(FILES_IN_A_FOLDER):
            (inner / f"{file}.txt").write_bytes(CONTENT)


def running(filesystem: dict[str, object]) -> Callable[[], None]:
    box = stockade.Runner(stockade.Policy(filesystem=filesystem), backend="native")

    def call() -> None:
        box.run_command(["true"]).check()

    return call


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--names", type=int, default=10_000)
    parser.add_argument("--smoke", action="store_true", help="a small project, a few runs: does it work at all")
    options = parser.parse_args()
    runs, names = (2, 1010) if options.smoke else (options.runs, options.names)
    with tempfile.TemporaryDirectory(prefix="stockade-bench-", dir="/var/tmp") as folder:
        fill(Path(folder), names)
        cases = {name: running({"workspace": folder, **way}) for name, way in WAYS.items()}
        spent = in_turn({"": running({}), **cases}, runs)
    print(f"{machine()}; {names} names in files of {len(CONTENT)} bytes; {runs} runs each\n")
    print(f"{'ms a thousand names':24} {'best':>8} {'median':>8}")
    for name in cases:
        best, median = ((spent[name][which] - spent[""][which]) / names * 1e3 for which in ("min", "median"))
        print(f"{name:24} {best:8.2f} {median:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
