"""Measure what counting lines and loop turns costs a program: the same program with the limit and without.

    python -m bench.operations [--runs 5] [--smoke] [--interpreter /path/to/python3.13]

Compares the CPU time of a whole run, as the kernel counts it, less that of an empty run. Prints medians and their ratio.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from collections.abc import Iterator

import stockade

LOOPS = {
    "python": "n = 0\nfor i in range({}):\n    n += i % 7\n    n ^= i",
    "ruby": "n = 0\n{}.times do |i|\n  n += i % 7\n  n ^= i\nend",
}
CALLS = {
    "python": "def f(n):\n    if n < 2:\n        return n\n    return f(n - 1) + f(n - 2)\nf({})",
    "ruby": "def f(n)\n  return n if n < 2\n  f(n - 1) + f(n - 2)\nend\nf({})",
}
PACKAGES = {
    "python": "import json\nfor _ in range({}): json.loads(json.dumps(list(range(5000)), indent=1))",
    "ruby": "require 'optparse'\n{}.times {{ OptionParser.new {{ |o| 200.times {{ |n| o.on(\"--x#{{n}}\") }} }}.help }}",
}
SIZES = {"a loop": (LOOPS, 1_500_000, 2_000), "calls": (CALLS, 26, 8), "a package's code": (PACKAGES, 100, 2)}
PLENTY = {"operations": 10**15, "wall_time": "unlimited", "cpu_time": "unlimited"}


def seconds(source: str, language: str, interpreter: str | None, *, counted: bool) -> float:
    """Return the CPU seconds of one run."""
    limits = PLENTY if counted else PLENTY | {"operations": "unlimited"}
    result = stockade.run(source, language=language, interpreter=interpreter, policy=stockade.Policy(limits=limits))
    result.check()
    return result.usage.cpu_seconds


def interpreters(named: str | None) -> Iterator[tuple[str, str | None, str]]:
    """Yield language, interpreter and what to call it."""
    from stockade.languages import registry

    for language in ("python", "ruby"):
        if language == "python" or shutil.which(language):
            own = named if language == "python" else None
            yield language, own, f"{language} {registry.find(language).interpreter(own).release}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="small programs, once: does it work at all")
    parser.add_argument("--interpreter", help="the Python to measure")
    options = parser.parse_args()
    runs = 1 if options.smoke else options.runs
    print(f"{'':18} {'program':18} {'without':>9} {'counted':>9} {'ratio':>7}")
    for language, interpreter, label in interpreters(options.interpreter):
        for name, (sources, size, small) in SIZES.items():
            source = sources[language].format(small if options.smoke else size)
            spent = {}
            for counted in (False, True):
                times = [seconds(source, language, interpreter, counted=counted) for _ in range(runs)]
                empty = [seconds("", language, interpreter, counted=counted) for _ in range(runs)]
                spent[counted] = max(1e-4, statistics.median(times) - statistics.median(empty))
            ratio = spent[True] / spent[False]
            print(f"{label:18} {name:18} {spent[False]:8.3f}s {spent[True]:8.3f}s {ratio:7.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
