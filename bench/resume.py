"""Many small programs in one batch, killed again and again and gone on with: every id once, memory flat, nothing left.

python -m bench.resume [--programs 100000] [--kills 10] [--jobs N]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.cold import machine
from tests.support import host

SEED = 7


def programs(path: Path, count: int) -> None:
    with path.open("w") as file:
        for n in range(count):
            program = {
                "id": f"p{n}",
                "problem": f"q{n % 100}",
                "language": "shell",
                "source": f"echo {n}",
                "expected": str(n),
            }
            file.write(json.dumps(program) + "\n")


def carry_out(command: list[str], until: float | None) -> tuple[int, int, list[int]]:
    """Run the command, or kill it after so many seconds; return its status, its largest size, and what it had started."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    begun, largest, below = time.monotonic(), 0, []
    while process.poll() is None:
        time.sleep(0.2)
        pages = host.read(f"/proc/{process.pid}/statm").split()
        largest = max(largest, int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0)
        if until is not None and time.monotonic() - begun > until:
            below = host.descendants(process.pid)
            process.send_signal(signal.SIGKILL)
            break
    return process.wait(), largest, below


def measure(count: int, kills: int, jobs: int, folder: Path) -> dict[str, object]:
    chosen = random.Random(SEED)
    source, verdicts = folder / "programs.jsonl", folder / "verdicts.jsonl"
    programs(source, count)
    command = [
        sys.executable,
        "-m",
        "stockade",
        "eval",
        str(source),
        "-o",
        str(verdicts),
        "--jobs",
        str(jobs),
        "--quiet",
    ]
    groups = host.abandoned_groups()
    left: list[int] = []
    sizes = []
    for _ in range(kills):
        _, size, below = carry_out(command, chosen.uniform(3, 12))
        sizes.append(size)
        left += below
    judged_before = sum(1 for _ in verdicts.open()) if verdicts.exists() else 0
    begun = time.monotonic()
    status, size, _ = carry_out(command, None)
    seconds = time.monotonic() - begun
    found = [json.loads(line) for line in verdicts.open()]
    ids = Counter(verdict["id"] for verdict in found)
    host.eventually(lambda: not [pid for pid in left if host.state(pid) not in {"", "Z", "X"}], 5)
    return {
        "programs": count,
        "kills": kills,
        "status": status,
        "each id once": ids == Counter(f"p{n}" for n in range(count)),
        "verdicts": dict(Counter(verdict["verdict"] for verdict in found)),
        "judged before the last run": judged_before,
        "rate of the last run": round((count - judged_before) / seconds, 1),
        "largest size (MiB)": round(max([*sizes, size]) / (1 << 20), 1),
        "processes left": len([pid for pid in left if host.state(pid) not in {"", "Z", "X"}]),
        "groups left": len(host.abandoned_groups() - groups),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="stockade-bench-") as folder:
        for name, value in measure(options.programs, options.kills, options.jobs, Path(folder)).items():
            print(f"{name:28} {value}", flush=True)


if __name__ == "__main__":
    main()
