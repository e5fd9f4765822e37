"""Measure the first run of a process beside a bare interpreter: `python -m bench.start [--rounds 15] [--tree OTHER]`.

The contenders take turns, and every figure is also a ratio to ``python -c pass`` of the same rounds, since the machine's
own speed drifts. ``--tree`` adds the same contenders from another checkout. The processor time is that of the process
and of the children that it waits for, the warden among them; other programs on the machine disturb it less.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[1]
LIBRARY = "import stockade; stockade.run('print(1)')"


def contenders(trees):
    """Yield a name, a command and its PYTHONPATH."""
    yield "python -c pass", ["-c", "pass"], ""
    for tree in trees:
        place = str(tree / "src")
        yield f"library, {tree.name}", ["-c", LIBRARY], place
        yield f"command line, {tree.name}", ["-m", "stockade", "run", "-c", "print(1)"], place


def once(arguments, place, cache):
    """Return the wall and processor seconds of one process."""
    before, begun = processor_seconds(), time.perf_counter()
    own = {
        "PYTHONPYCACHEPREFIX": cache,
        "PYTHONPATH": place,
    }  # an installed package has its bytecode, a checkout may not
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | own
    subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun, processor_seconds() - before


def processor_seconds():
    """Return the processor time of all children so far, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--tree", type=Path, action="append", default=[], help="another checkout to measure beside this"
    )
    options = parser.parse_args()
    all_of_them = list(contenders([*(tree.resolve() for tree in options.tree), HERE]))
    taken = {name: [] for name, *_ in all_of_them}
    with tempfile.TemporaryDirectory() as cache:
        for number in range(options.rounds + 1):
            for name, arguments, place in all_of_them:
                figures = once(arguments, place, cache)
                if number:  # the first round fills caches
                    taken[name].append(figures)
    base = [statistics.median(column) for column in zip(*taken["python -c pass"], strict=True)]
    print(f"{'':28}{'wall':>9}{'ratio':>8}{'CPU':>10}{'ratio':>8}   medians of {options.rounds}")
    for name, figures in taken.items():
        wall, cpu = (statistics.median(column) for column in zip(*figures, strict=True))
        print(f"{name:28}{wall * 1e3:6.0f} ms{wall / base[0]:8.1f}{cpu * 1e3:7.0f} ms{cpu / base[1]:8.1f}")


if __name__ == "__main__":
    main()
