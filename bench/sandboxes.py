"""Measure sandboxes that live: their start, a long session in one, many of them at a time, and one that floods.

    python -m bench.sandboxes [--cells 1000] [--sandboxes 200] [--rounds 50] [--smoke] [--json FILE]

``start`` times each step of a new sandbox, the first one of the process apart. ``pool`` times a sandbox with an interpreter,
made and from a ``SandboxPool``, and the first plot of an interpreter that has imported matplotlib. ``fork`` times a copy of a
sandbox with 200 MiB in 5,000 files up to its first answer. ``session`` runs cells of every kind in one
interpreter, and compares its state after each; the slope is that of its resident memory, without the first tenth.
``open`` has many sandboxes with an idle interpreter each: proportional memory, what they cost the warden while nothing
runs, and a cell in each. ``beside`` measures how late the deadline of a command in each of them comes while another
sandbox writes without end. Figures of a busy machine mean nothing, so the load is printed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import stockade
from stockade import CellOutcome, Interpreter, Sandbox, SandboxPool
from stockade.client import warden_process

MIB = 1 << 20
SLOPE_LIMIT, SLIP_LIMIT = 1024.0, 0.05
IDLE, SETTLED = 10.0, 3.0  # seconds
POLICY = {"limits": {"memory": "1GiB", "cpu_time": "unlimited", "wall_time": 120, "output": "2MiB", "processes": 64}}
FORKS, FORK_FILES, FORK_BYTES = 5, 5000, 200 * MIB
PREPARED = ("matplotlib.pyplot", "matplotlib.backends.backend_agg")
PLOT = "import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show(); plt.close('all')"
EXPECTED = {
    "value": CellOutcome.COMPLETED,
    "error": CellOutcome.FAILED,
    "output": CellOutcome.COMPLETED,
    "late": CellOutcome.TIMED_OUT,
    "interrupt": CellOutcome.INTERRUPTED,
    "plot": CellOutcome.COMPLETED,
}


def main() -> int:
    """Measure, print and judge."""
    options = parsed()
    if options.smoke:
        options.cells, options.sandboxes, options.rounds = 60, 4, 3
    found = {
        "start": start(options.rounds),
        "pool": pool(options.rounds),
        "fork": fork(*((2, 50, MIB) if options.smoke else (FORKS, FORK_FILES, FORK_BYTES))),
        "session": session(options.cells),
    }
    found["open"], found["beside"] = many(options.sandboxes, 0.5 if options.smoke else IDLE)
    for name, figures in found.items():
        print(f"\n{name}")
        for key, value in figures.items():
            print(f"  {key:<34} {value:.4g}" if isinstance(value, float) else f"  {key:<34} {value}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    wrong = [f"{found['session']['wrong']} cells ended otherwise, or lost state"] if found["session"]["wrong"] else []
    if not options.smoke:
        wrong += ["memory grows by a cell"] if found["session"]["slope, bytes a cell"] > SLOPE_LIMIT else []
        wrong += (
            ["a deadline slips beside a flood"] if found["beside"]["worst slip of a deadline, s"] > SLIP_LIMIT else []
        )
    print(*(f"\nnot held: {each}" for each in wrong), sep="")
    return 1 if wrong else 0


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--sandboxes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--smoke", action="store_true", help="a few of each, without a judgement of figures")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


# -- start -------------------------------------------------------------------------------------------------------------


def start(rounds: int) -> dict[str, Any]:
    """Time the steps of new sandboxes; the first one finds no warden and no pool."""
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        with ExitStack() as stack:
            for step, call in steps(stack):
                times.setdefault(step, []).append(timed(call))
    return summary(times)


def timed(call: Callable[[], Any]) -> float:
    """Return the milliseconds that a call takes."""
    begin = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - begin)


def summary(times: dict[str, list[float]]) -> dict[str, Any]:
    """Return the first time of each step, and the median and the 99th percentile of the others."""
    found: dict[str, Any] = {}
    for step, all_of_it in times.items():
        rest = all_of_it[1:]
        found[f"{step}, ms: first"] = all_of_it[0]
        found[f"{step}, ms: p50 p99"] = f"{statistics.median(rest):.2f} {percentile(rest, 0.99):.2f}"
    return found


def steps(stack: ExitStack) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what to time, in order."""
    made: dict[str, Any] = {}

    def create() -> None:
        made["sandbox"] = stack.enter_context(Sandbox.create(POLICY))

    def interpreter() -> None:
        made["python"] = stack.enter_context(made["sandbox"].interpreter())

    content = os.urandom(MIB)

    def file() -> None:
        made["sandbox"].files.write("data", content)
        assert made["sandbox"].files.read_bytes("data") == content

    yield "create", create
    yield "run_command(true)", lambda: made["sandbox"].run_command(["true"]).check()
    yield "interpreter", interpreter
    yield "first cell", lambda: made["python"].run("1 + 1")
    yield "second cell", lambda: made["python"].run("1 + 1")
    yield "1 MiB written and read, first", file
    yield "1 MiB written and read, second", file


# -- pool --------------------------------------------------------------------------------------------------------------


def pool(rounds: int) -> dict[str, Any]:
    """Time sandboxes with an interpreter: made, and from a pool, which is full before each round."""
    plots = importlib.util.find_spec("matplotlib") is not None
    times: dict[str, list[float]] = {}

    def create() -> Sandbox:
        return Sandbox.create(POLICY, packages=sys.prefix if plots else None)

    with SandboxPool(create, preload=PREPARED if plots else ()) as waiting:
        for _ in range(rounds):
            waiting.fill()
            with ExitStack() as stack:
                for step, call in pool_steps(stack, create, waiting, plots=plots):
                    times.setdefault(step, []).append(timed(call))
    return summary(times) | ({} if plots else {"first plot": "not measured: matplotlib is not installed"})


def pool_steps(
    stack: ExitStack, create: Callable[[], Sandbox], waiting: SandboxPool, *, plots: bool
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what to time, in order."""
    found: list[Interpreter] = []

    def opened(make: Callable[[], Sandbox]) -> None:
        found.append(stack.enter_context(make()).interpreter())

    yield "create with interpreter, from the pool", lambda: opened(waiting.take)
    yield "first cell, from the pool", lambda: found[0].run("1 + 1")
    if plots:
        yield "first plot, matplotlib preloaded", lambda: found[0].run(PLOT).displays[0]
    yield "create with interpreter, no pool", lambda: opened(create)


# -- fork --------------------------------------------------------------------------------------------------------------


def fork(rounds: int, files: int, total: int) -> dict[str, Any]:
    """Time forks of a sandbox with files, up to the first answer of the copy."""
    make = (
        "import os, sys\nfiles, size = map(int, sys.argv[1:])\nfor n in range(files):\n"
        "    os.makedirs(f'd{n // 100}', exist_ok=True)\n    open(f'd{n // 100}/{n}', 'wb').write(os.urandom(size))"
    )
    policy = {"limits": {"memory": "1GiB", "disk": "512MiB", "wall_time": 120, "cpu_time": 120}}
    times: dict[str, list[float]] = {}
    with Sandbox.create(policy) as sandbox:
        sandbox.run_command(["python3", "-c", make, str(files), str(total // files)]).check()
        for _ in range(rounds):
            with ExitStack() as stack:
                call = lambda: stack.enter_context(sandbox.fork()).run_command(["true"]).check()  # noqa: E731
                times.setdefault(f"{total // MIB} MiB in {files} files", []).append(timed(call))
    return summary(times)


# -- session -----------------------------------------------------------------------------------------------------------


def session(count: int) -> dict[str, Any]:
    """Run cells of every kind in one interpreter."""
    memory, wrong, kinds = [], 0, Counter[str]()
    packages = sys.prefix if Path(sys.prefix, "pyvenv.cfg").is_file() else None
    with Sandbox.create(POLICY, packages=packages) as sandbox, sandbox.interpreter() as python:
        plots = python.run(f"n = 0\n{PLOT}").outcome is CellOutcome.COMPLETED
        for _ in range(count // 16 if plots else 0):  # matplotlib's own memory levels off after some 40 figures
            python.run(PLOT)
        for number in range(1, count + 1):
            kind = kind_of(number, plots)
            kinds[kind] += 1
            outcome = run_one(python, kind)
            state = python.run("n") if python.alive else None
            right = outcome is EXPECTED[kind] and state is not None and state.value_repr == str(number)
            if state is None or state.value_repr != str(number):
                print(f"cell {number} ({kind}): {outcome}, and then {state}")
                python.restart()
                python.run(f"n = {number}")
            wrong += not right
            memory.append(float(state.usage.memory or 0) if state is not None else 0.0)
    kept = memory[len(memory) // 10 :]
    slope = statistics.linear_regression(range(len(kept)), kept).slope
    return {**{f"cells: {kind}": n for kind, n in sorted(kinds.items())}, "wrong": wrong, "slope, bytes a cell": slope}


def kind_of(number: int, plots: bool) -> str:
    """Return the kind of a cell."""
    if number % 50 == 0 and plots:
        return "plot"
    return {3: "error", 5: "output", 7: "late", 9: "interrupt"}.get(number % 10, "value")


def run_one(python: Interpreter, kind: str) -> CellOutcome:
    """Run a cell of a kind, and return how it ended."""
    source = {
        "value": "n += 1; [n] * 3",
        "error": "n += 1; {}['nothing']",
        "output": "n += 1; print('x' * ((1 << 20) - 1))",
        "late": "n += 1\nwhile True: pass",
        "interrupt": "n += 1; import time; time.sleep(60)",
        "plot": f"n += 1; {PLOT}",
    }[kind]
    if kind != "interrupt":
        return python.run(source, timeout=0.2 if kind == "late" else 60).outcome
    timer = threading.Timer(0.2, python.interrupt)
    timer.start()
    try:
        return python.run(source, timeout=60).outcome
    finally:
        timer.cancel()


# -- many at a time ----------------------------------------------------------------------------------------------------


def many(count: int, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have many sandboxes open: first idle for some seconds, then with a cell in each, then beside one that floods."""
    with ExitStack() as stack:
        pairs = []
        before = proportional_memory()
        for _ in range(count):
            sandbox = stack.enter_context(Sandbox.create(POLICY, idle_timeout=None))
            pairs.append((sandbox, stack.enter_context(sandbox.interpreter())))
        found: dict[str, Any] = {"sandboxes": count}
        memory = proportional_memory()
        if memory:
            found["proportional memory of each, MiB"] = (memory - before) / count / MIB
        time.sleep(SETTLED)
        found["warden while all are idle, % of a core"] = idle_share(seconds)
        times = [timed(partial(python.run, "1 + 1")) for _, python in pairs]
        found["a cell in each, ms: p50 p99"] = f"{statistics.median(times):.2f} {percentile(times, 0.99):.2f}"
        noisy = stack.enter_context(Sandbox.create(POLICY))
        process = stack.enter_context(noisy.start_command(["sh", "-c", "yes & yes >&2"]))
        threading.Thread(target=lambda: [None for _ in process.stdout], daemon=True).start()
        slips, answers = zip(*(slip(sandbox) for sandbox, _ in pairs), strict=True)
        return found, {
            "deadlines, one in each": count,
            "worst slip of a deadline, s": max(slips),
            "a slip, ms: p50 p99": f"{1000 * statistics.median(slips):.1f} {1000 * percentile(slips, 0.99):.1f}",
            "worst answer after it, s": max(answers),
        }


def slip(sandbox: Sandbox) -> tuple[float, float]:
    """Return how many seconds too late a command ends, and after how many its caller has the answer, start included."""
    begin = time.perf_counter()
    late = sandbox.run_command(["sleep", "60"], timeout=0.3)
    assert late.limit == "wall_time"
    return late.usage.wall_seconds - 0.3, time.perf_counter() - begin - 0.3


def idle_share(seconds: float) -> float:
    """Return the part of a processor that the warden takes, in percent."""
    before = cpu_seconds()
    time.sleep(seconds)
    return 100 * (cpu_seconds() - before) / seconds


def cpu_seconds() -> float:
    """Return the CPU time of this process's warden, without its children."""
    words = Path(f"/proc/{warden_process.current().pid}/schedstat").read_text().split()
    return int(words[0]) / 1e9


def proportional_memory() -> int:
    """Return the proportional memory of everything below this process's warden, in bytes."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below, total = {warden_process.current().pid}, 0
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    for pid in below:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which so large a share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    print(
        f"stockade {stockade.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    )
    sys.exit(main())
