"""Measure ten small programs in an embedded runtime with all caps on, as a multiple of CPython in the same process.

Run ``python -m bench.embedded``; ``--smoke`` makes one round. The rounds alternate, and the medians are compared.
Programs are measured in CPU time of the thread that runs both forms, so other work on the machine counts less.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

from stockade.embedded import PRICE_VERSION, Caps, Runtime

PROGRAMS = {
    "loop at top level": "t = 0\nfor i in range(100000):\n    t += i\nt",
    "while": "def f(n):\n    i = t = 0\n    while i < n:\n        t += i\n        i += 1\n    return t\nf(100000)",
    "loop in a function": "def f(n):\n    t = 0\n    for i in range(n):\n        t += i * 2\n    return t\nf(100000)",
    "recursion": "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(19)",
    "text grows": "def f(n):\n    s = ''\n    for i in range(n):\n        s += 'ab'\n    return len(s)\nf(20000)",
    "append and join": "def f(n):\n    out = []\n    for i in range(n):\n        out.append(str(i))\n    return len(','.join(out))\nf(30000)",
    "comprehension": "def f(n):\n    return sum([x * x for x in range(n) if x % 3 == 0])\nf(100000)",
    "dictionary": (
        "def f(n):\n    d = {}\n    for i in range(n):\n        k = i % 100\n        d[k] = d.get(k, 0) + 1\n    return len(d)\nf(50000)"
    ),
    "sieve": (
        "def f(n):\n    s = [True] * (n + 1)\n    for i in range(2, int(n ** 0.5) + 1):\n        if s[i]:\n"
        "            for j in range(i * i, n + 1, i):\n                s[j] = False\n    return sum(s)\nf(50000)"
    ),
    "methods": (
        "class A:\n    def __init__(self):\n        self.v = 0\n    def add(self, x):\n        self.v += x\n        return self\n"
        "def f(n):\n    a = A()\n    for i in range(n):\n        a.add(i)\n    return a.v\nf(50000)"
    ),
}
CAPS = Caps(fuel=10**9, heap_objects=10**7, frames=500, deadline=60.0, symbols=10_000, value_bytes=10**8)
GOAL_MEDIAN, GOAL_WORST = 2.5, 4.0


def plain(code: object) -> float:
    names: dict[str, object] = {}
    start = time.thread_time()
    exec(code, names)  # type: ignore[arg-type]
    return time.thread_time() - start


def metered(source: str) -> tuple[float, int]:
    runtime = Runtime(CAPS, in_process=True)
    runtime.run("0")
    start = time.thread_time()
    runtime.run(source)
    return time.thread_time() - start, runtime.usage.fuel


def measured(rounds: int) -> dict[str, dict[str, float]]:
    found = {}
    for name, source in PROGRAMS.items():
        code = compile(source, name, "exec")
        metered(source)
        ours, theirs, fuel = [], [], 0
        for _ in range(rounds):
            theirs.append(plain(code))
            taken, fuel = metered(source)
            ours.append(taken)
        found[name] = {
            "multiple": statistics.median(ours) / statistics.median(theirs),
            "best": min(ours) / min(theirs),
            "milliseconds": statistics.median(ours) * 1000,
            "fuel": fuel,
        }
    return found


def empty_run(rounds: int) -> dict[str, float]:
    runtime = Runtime(CAPS, in_process=True)
    runtime.run("1")
    runs, makes = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        runtime.run("1")
        runs.append(time.perf_counter() - start)
        start = time.perf_counter()
        Runtime(CAPS, in_process=True)
        makes.append(time.perf_counter() - start)
    return {"run": statistics.median(runs) * 1000, "new runtime": statistics.median(makes) * 1000} | in_worker(rounds)


def in_worker(rounds: int) -> dict[str, float]:
    from stockade.embedded import WorkerPool

    runs, starts, pooled = [], [], []
    with Runtime(CAPS) as runtime:
        runtime.run("1")
        for _ in range(rounds * 10):
            runs.append(timed(runtime))
    with WorkerPool(size=1) as pool:
        for _ in range(min(rounds, 5)):
            with Runtime(CAPS) as runtime:
                starts.append(timed(runtime))
            pool.fill()
            with Runtime(CAPS, pool=pool) as runtime:
                pooled.append(timed(runtime))
    taken = {"run in a worker": runs, "first run in a worker": starts, "first run with a pool": pooled}
    return {name: statistics.median(each) * 1000 for name, each in taken.items()}


def timed(runtime: Runtime) -> float:
    start = time.perf_counter()
    runtime.run("1")
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rounds = 1 if given.smoke else given.rounds
    found = measured(rounds)
    print(f"{'program':20} {'x CPython':>10} {'best':>6} {'ms':>8} {'fuel':>9}")
    for name, row in found.items():
        print(f"{name:20} {row['multiple']:10.1f} {row['best']:6.1f} {row['milliseconds']:8.1f} {row['fuel']:9,}")
    multiples = [row["multiple"] for row in found.values()]
    middle, worst = statistics.median(multiples), max(multiples)
    print(f"median {middle:.2f} (goal {GOAL_MEDIAN}), worst {worst:.2f} (goal {GOAL_WORST})")
    empty = empty_run(1 if given.smoke else 200)
    print("; ".join(f"{'empty ' if name == 'run' else ''}{name} {taken:.3f} ms" for name, taken in empty.items()))
    if given.json:
        about = {"python": platform.python_version(), "machine": platform.machine(), "prices": PRICE_VERSION}
        given.json.write_text(json.dumps({"about": about, "programs": found, "empty": empty}, indent=1) + "\n")


if __name__ == "__main__":
    main()
