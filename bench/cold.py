"""Measure a cold run beside other ways to start a program.

The contenders take turns in one process; the figures are medians.

    python bench/cold.py [--runs 200] [--json FILE] [--smoke]
    python bench/cold.py --steps [--runs 200]

The first block pauses before each call, so that an instance is prewarmed. Back to back, each call follows the last one at
once, in blocks of ten that the contenders take in turn. ``--steps`` shows the steps of a sandboxed ``true`` in both cases.
Each call is timed as a whole, with the library imported and the warden running. Every line is a ratio or a difference
to something else measured in the same minute, since the machine's own speed drifts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import stockade
from stockade.client import warden_process
from stockade.profiling import steps

BWRAP = [
    "bwrap",
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--tmpfs",
    "/workspace",
    "--chdir",
    "/workspace",
]
PYTHON = ["/usr/bin/python3", "-I", "-S", "-c", "pass"]
PAUSE = 0.03
BLOCK = 10
SRC = str(Path(stockade.__file__).parents[1])


def spawn(argv: list[str]) -> Callable[[], None]:
    path = shutil.which(argv[0])
    assert path is not None, f"{argv[0]} is not installed"

    def call() -> None:
        pid = os.posix_spawn(path, argv, {"PATH": "/usr/bin:/bin"})
        _, status = os.waitpid(pid, 0)
        assert status == 0, (argv, status)

    return call


def sandboxed(argv: list[str]) -> Callable[[], None]:
    box = stockade.Runner()

    def call() -> None:
        result = box.run_command(argv)
        assert result.ok, result

    return call


def fresh(code: str) -> Callable[[], None]:
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": SRC}

    def call() -> None:
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

    return call


def in_turn(cases: dict[str, Callable[[], None]], runs: int) -> dict[str, dict[str, float]]:
    """Time every case ``runs`` times, one after another within each round; milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for call in cases.values():
        for _ in range(3):
            call()
    for _ in range(runs):
        for name, call in cases.items():
            time.sleep(PAUSE)  # or one case would pay for what another leaves to be done afterwards
            begin = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - begin) * 1e3)
    return {name: summary(values) for name, values in times.items()}


def back_to_back(cases: dict[str, Callable[[], None]], runs: int) -> dict[str, dict[str, float]]:
    """Time blocks of calls that follow each other at once, one contender after another; milliseconds for each call."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(max(3, runs // BLOCK)):
        for name, call in cases.items():
            call()  # what the last contender leaves to be done afterwards is done before the clock begins
            time.sleep(PAUSE)
            begin = time.perf_counter()
            for _ in range(BLOCK):
                call()
            times[name].append((time.perf_counter() - begin) * 1e3 / BLOCK)
    return {f"{name}, back to back": summary(values) for name, values in times.items()}


def summary(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "p90": sorted(values)[int(len(values) * 0.9)], "min": min(values)}


def show_steps(runs: int) -> None:
    """Print the steps of a sandboxed ``true``, after a pause and back to back, the slowest first."""
    for title, pause in (("after a pause", PAUSE), ("back to back", 0.0)):
        *_, found = steps.trace(runs, pause=pause, command=("true",))
        assert isinstance(found, steps.Trace)
        print(f"{title}: {found.whole:.0f} us from call to return, medians of {found.runs}")
        for step in sorted(found.steps, key=lambda each: -each.took):
            behind = " (behind the answer)" if step.behind else ""
            print(f"  {step.took:8.0f} us   {step.since} -> {step.name}, {step.process}: {step.what}{behind}")


def proportional_memory(pid: int) -> int:
    """Return the PSS of a process and its descendants in bytes."""
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            total = int(line.split()[1]) * 1024
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    readable = [int(child) for child in children if os.access(f"/proc/{child}/smaps_rollup", os.R_OK)]
    return total + sum(map(_memory_or_nothing, readable))


def _memory_or_nothing(pid: int) -> int:
    try:
        return proportional_memory(pid)
    except OSError:
        return 0


def measure(runs: int) -> dict[str, object]:
    cases = {"posix_spawn true": spawn(["true"]), "stockade true": sandboxed(["true"])}
    if shutil.which("bwrap"):
        cases["bwrap true"] = spawn([*BWRAP, "true"])
    cases |= {"bare python": spawn(PYTHON), "stockade python": sandboxed(PYTHON)}
    if shutil.which("bwrap"):
        cases["bwrap python"] = spawn([*BWRAP, *PYTHON])
    times = in_turn(cases, runs)
    times |= back_to_back({name: call for name, call in cases.items() if name.endswith("true")}, runs)
    starts = in_turn(
        {
            "bare interpreter": fresh("pass"),
            "import stockade": fresh("import stockade"),
            "first run of a fresh process": fresh("import stockade; stockade.run_command(['true']).check()"),
            "command line": fresh(
                "import sys; from stockade.cli.main import main; sys.argv[1:] = ['run', '--', 'true']; main()"
            ),
        },
        max(3, runs // 20),
    )
    median = {name: case["median"] for name, case in (times | starts).items()}
    derived = {
        "python above bare (ms)": median["stockade python"] - median["bare python"],
        "import stockade above bare (ms)": median["import stockade"] - median["bare interpreter"],
        "warden memory, prewarmed instance included (MiB)": proportional_memory(warden_process.current().pid) / 2**20,
    }
    if "bwrap true" in median:
        derived["true, of bubblewrap's"] = median["stockade true"] / median["bwrap true"]
        derived["true back to back, of bubblewrap's"] = (
            median["stockade true, back to back"] / median["bwrap true, back to back"]
        )
        derived["python, of bubblewrap's"] = median["stockade python"] / median["bwrap python"]
    return {
        "machine": machine(),
        "date": date.today().isoformat(),
        "runs": runs,
        "times_ms": times | starts,
        "derived": derived,
    }


def machine() -> str:
    return f"{os.cpu_count()} CPUs, Linux {platform.release().partition('-')[0]} {platform.machine()}, Python {platform.python_version()}, uid {os.getuid()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--smoke", action="store_true", help="a few runs, to see that it works")
    parser.add_argument("--steps", action="store_true", help="show the steps of a run instead")
    options = parser.parse_args()
    runs = 5 if options.smoke else options.runs
    if options.steps:
        show_steps(runs)
        return
    found = measure(runs)
    print(f"{found['machine']}, {found['date']}; medians of {found['runs']}\n")
    for name, case in found["times_ms"].items():  # type: ignore[attr-defined]
        print(f"{name:32} {case['median']:8.2f} ms   p90 {case['p90']:8.2f}")
    print()
    for name, value in found["derived"].items():  # type: ignore[attr-defined]
        print(f"{name:44} {value:8.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
