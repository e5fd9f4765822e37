"""Measure how much one sandbox slows another: start and answer, alone and beside each class of stress-ng.

    python -m bench.neighbours [--classes futex,poll,...] [--rounds 3] [--seconds 2] [--where same,apart]
        [--limits default,unlimited] [--old SRC] [--smoke] [--json FILE]

``same`` has one caller run both sandboxes, ``apart`` two callers. ``--old`` names the ``src`` folder of another tree,
whose figures are measured in turn with this one's. Quiet and beside take turns as well, since the machine's own speed
drifts. ``host`` is a bare ``true`` beside the sandboxes, which shows what the kernel alone makes of that load.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import stockade

CLASSES = (
    "poll", "epoll", "futex", "sigq", "signal", "file-ioctl", "cpu", "vm", "pipe", "sock", "fork", "mmap", "sem", "timer",
    "switch", "schedpolicy", "dentry", "inode-flags", "open", "yield", "mq", "eventfd", "clone", "seek",
)  # fmt: skip
CASES = ("host", "true", "cold python", "warm python")
WORKERS = 4
SETTLE_SECONDS = 1.2
PAUSE = 0.005
SRC = str(Path(stockade.__file__).parents[1])
LIFTED = ("wall_time", "cpu_time")
ALL_LIFTED = (*LIFTED, "memory", "processes", "open_files", "output", "disk", "file_size")
RUNNER: Any = getattr(stockade, "Runner", None) or stockade.Sandbox
"""An older tree has the runner under its earlier name."""
Times = dict[str, list[float]]


class Caller:
    """A process that measures one sandbox, or runs the neighbour in another, with the library of one tree."""

    def __init__(self, src: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.neighbours", "--serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((src, str(Path(__file__).parents[1])))},
        )  # fmt: skip

    def ask(self, what: str, **fields: Any) -> Any:
        """Have it do something, and return what it says."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"what": what, **fields}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def serve() -> None:
    """Do what the parent asks, a line each."""
    neighbour = None
    cases = _cases()
    for line in sys.stdin:
        order = json.loads(line)
        answer: Any = None
        if order["what"] == "measure":
            answer = _measure(cases, order["seconds"])
        elif order["what"] == "start":
            policy = stockade.Policy(limits=dict.fromkeys(order["lifted"], "unlimited"))
            neighbour = RUNNER(policy).stream_command(order["argv"])
        elif neighbour is not None:
            answer = neighbour.cancel()
            neighbour = None
        print(json.dumps(answer), flush=True)


def _cases() -> dict[str, Callable[[], None]]:
    cold, warm = RUNNER(warm=False), RUNNER(warm=True)

    def host() -> None:
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)

    calls: tuple[Callable[[], Any], ...] = (
        host,
        lambda: cold.run_command(["true"]).check(),
        lambda: cold.run("1 + 1").check(),
        lambda: warm.run("1 + 1").check(),
    )
    return dict(zip(CASES, calls, strict=True))


def _measure(cases: dict[str, Callable[[], None]], seconds: float) -> Times:
    times: Times = {name: [] for name in (*cases, "failed")}
    end = time.monotonic() + seconds
    while time.monotonic() < end or not times[CASES[-1]]:
        for name, call in cases.items():
            begin = time.perf_counter()
            try:
                call()
            except stockade.SetupError:
                times["failed"].append(1.0)  # "the sandbox took too long to set up", say; its time counts
            times[name].append((time.perf_counter() - begin) * 1e3)
            time.sleep(PAUSE)
    return times


def compare(trees: dict[str, str], name: str, where: str, lifted: Sequence[str], options: argparse.Namespace) -> Any:
    """Return the figures of one class of stress-ng, by tree and case."""
    argv = ["stress-ng", f"--{name}", str(WORKERS), "--timeout", "120", "--temp-path", "/tmp", "--quiet"]
    quiet, beside = ({tree: {case: [] for case in (*CASES, "failed")} for tree in trees} for _ in range(2))
    for _ in range(options.rounds):
        for tree, src in trees.items():
            victim = Caller(src)
            other = victim if where == "same" else Caller(src)
            victim.ask("measure", seconds=1.0)  # the first runs start what later ones find there
            _add(quiet[tree], victim.ask("measure", seconds=options.seconds / 2))
            other.ask("start", argv=argv, lifted=lifted)
            time.sleep(SETTLE_SECONDS)
            _add(beside[tree], victim.ask("measure", seconds=options.seconds))
            other.ask("stop")
            for caller in {victim, other}:
                caller.close()
    return {
        tree: {case: _figures(quiet[tree][case], beside[tree][case]) for case in CASES}
        | {"failed": len(beside[tree]["failed"])}
        for tree in trees
    }


def _add(to: Times, more: Times) -> None:
    for case, times in more.items():
        to[case] += times


def _figures(quiet: list[float], beside: list[float]) -> dict[str, float]:
    p50, busy = statistics.median(quiet), sorted(beside)
    return {
        "quiet": p50,
        "p50": statistics.median(busy),
        "p99": busy[int(len(busy) * 0.99)],
        "max": busy[-1],
        "runs": len(busy),
        "factor": statistics.median(busy) / p50,
    }


def table(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one comparison."""
    for tree, cases in found.items():
        if cases["failed"]:
            yield f"  {tree:4} {cases['failed']} sandboxes could not be made"
        for case in CASES:
            each = cases[case]
            yield (
                f"  {tree:4} {case:12} quiet {each['quiet']:7.1f}  beside {each['p50']:8.1f}  p99 {each['p99']:8.1f}"
                f"  max {each['max']:8.1f} ms  x {each['factor']:5.1f}  ({each['runs']:.0f} runs)"
            )


def main() -> None:
    """Print the figures of every class."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", default=",".join(CLASSES), help="names of stressors, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement beside the neighbour")
    parser.add_argument("--where", default="same,apart", help="whether one caller runs both: same, apart")
    parser.add_argument("--limits", default="default", help="the neighbour's: default, unlimited")
    parser.add_argument("--old", help="the src folder of another tree to compare with")
    parser.add_argument("--smoke", action="store_true", help="two classes, once: does it run?")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if shutil.which("stress-ng") is None:
        parser.error("stress-ng is not installed: apt-get install stress-ng")
    if options.smoke:
        options.classes, options.rounds, options.seconds, options.where = "futex,cpu", 1, 0.5, "same"
    trees = {"new": SRC} if options.old is None else {"old": options.old, "new": SRC}
    found: dict[str, Any] = {}
    for limits in options.limits.split(","):
        for name in options.classes.split(","):
            for where in options.where.split(","):
                key = f"{name}, {where}, limits {limits}"
                found[key] = compare(trees, name, where, ALL_LIFTED if limits == "unlimited" else LIFTED, options)
                print(f"{key} (load {os.getloadavg()[0]:.1f})", *table(found[key]), sep="\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "figures": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
