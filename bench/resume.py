"""Kill a batch of many small programs again and again, and resume it: every id once, memory flat, nothing left.

python -m bench.resume [--programs 100000] [--kills 10] [--language python] [--jobs N] [--seed 7] [--folder FOLDER]
    [--smoke] [--json FILE]

Each kill comes after a random number of verdicts, drawn over the whole batch. Prints a line for each run: its rate,
and the memory of the process and its warden near its begin and at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.cold import machine
from tests.support import host

from stockade.attacks.outside import MADE

SOURCES = {"shell": "echo {}", "python": "print({})"}
_POLL_SECONDS = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 1 << 20


@dataclass
class Run:
    """Describes one run of the command, from its start to its end or its death."""

    judged: int = 0
    seconds: float = 0.0
    status: int = 0
    process: list[int] = field(default_factory=list)
    """Bytes that it held, sampled."""
    warden: list[int] = field(default_factory=list)

    def summary(self) -> str:
        how = "killed" if self.status == -signal.SIGKILL else f"exit status {self.status}"
        sizes = ", ".join(f"{name} {_change(getattr(self, name))}" for name in ("process", "warden"))
        return f"{self.judged} verdicts in {self.seconds:.0f} s ({self.judged / self.seconds:.1f} a second), {sizes}; {how}"


class Lines:
    """Counts the lines of a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self.count = path, 0, 0

    def look(self) -> int:
        if self._path.exists():
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._at:  # what was torn has been cut off
                    self._at = self.count = 0
                file.seek(self._at)
                data = file.read()
            self._at += len(data)
            self.count += data.count(b"\n")
        return self.count


def write_programs(path: Path, count: int, language: str) -> None:
    with path.open("w") as file:
        for n in range(count):
            program = {"id": f"p{n}", "problem": f"q{n % 100}", "language": language}
            file.write(json.dumps(program | {"source": SOURCES[language].format(n), "expected": str(n)}) + "\n")


def carry_out(command: list[str], lines: Lines, until: int | None, delay: float = 0.0) -> Run:
    """Run the command to its end, or kill it once so many lines are there."""
    begun, before, run = time.monotonic(), lines.look(), Run()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        _sample(run.process, [process.pid])
        _sample(run.warden, _children(process.pid))
        if until is not None and lines.look() >= until:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            break
    run.status = process.wait()
    run.judged, run.seconds = lines.look() - before, time.monotonic() - begun
    return run


def _sample(sizes: list[int], pids: list[int]) -> None:
    pages = [host.read(f"/proc/{pid}/statm").split() for pid in pids]
    held = sum(int(words[1]) for words in pages if len(words) > 1) * _PAGE
    if held:
        sizes.append(held)


def _children(pid: int) -> list[int]:
    return [int(word) for word in host.read(f"/proc/{pid}/task/{pid}/children").split()]


def _change(sizes: list[int]) -> str:
    """Return what was held after the first tenth of the samples, and in the last tenth, in words."""
    if len(sizes) < 20:
        return f"{max(sizes, default=0) / _MIB:.1f} MiB at most"
    tenth = len(sizes) // 10
    first, last = statistics.median(sizes[tenth : 2 * tenth]), statistics.median(sizes[-tenth:])
    return f"{first / _MIB:.1f} MiB, at the end {last / _MIB:.1f}"


def measure(count: int, kills: int, jobs: int, seed: int, language: str, folder: Path) -> dict[str, object]:
    """Return what became of the batch; a line for each run is printed as it ends."""
    host.adopt_orphans()
    chosen = random.Random(seed)
    source, verdicts = folder / "programs.jsonl", folder / "verdicts.jsonl"
    write_programs(source, count, language)
    words = f"-m stockade eval {source} -o {verdicts} --jobs {jobs} --quiet"
    command, lines = [sys.executable, *words.split()], Lines(verdicts)
    before, runs = _Host(), []
    for until in [*sorted(chosen.sample(range(count), kills)), None]:
        runs.append(carry_out(command, lines, until, chosen.uniform(0, 0.1)))
        print(f"run {len(runs):2}: {runs[-1].summary()}", flush=True)
    ids: Counter[str] = Counter()
    found: Counter[str] = Counter()
    with verdicts.open() as file:
        for verdict in map(json.loads, file):
            ids[verdict["id"]] += 1
            found[verdict["verdict"]] += 1
    host.eventually(lambda: not before.left(), 10)
    judged, seconds = sum(run.judged for run in runs), sum(run.seconds for run in runs)
    return {
        "programs": count,
        "language": language,
        "killed": sum(run.status == -signal.SIGKILL for run in runs),
        "exit status": runs[-1].status,
        "each id once": ids == Counter(f"p{n}" for n in range(count)),
        "verdicts": dict(found),
        "rate (a second)": round(judged / seconds, 1),
        "process at most (MiB)": round(max(size for run in runs for size in run.process) / _MIB, 1),
        "warden at most (MiB)": round(max(size for run in runs for size in run.warden) / _MIB, 1),
        "left": before.left(),
    }


class _Host:
    """Compares the host with an earlier look: our processes, groups of dead wardens, mounts, folders."""

    def __init__(self) -> None:
        self._before = host.Snapshot.take()
        self._folders = self._temporary()

    def left(self) -> dict[str, list[str]]:
        more = host.Snapshot.take().more_than(self._before)
        found = {kind: more[kind] for kind in ("processes", "groups", "mounts") if kind in more}
        folders = sorted(self._temporary() - self._folders)
        return {**found, "folders": folders} if folders else found

    @staticmethod
    def _temporary() -> set[str]:
        there = {str(path) for path in Path(tempfile.gettempdir()).glob("stockade-*")}
        return {path for path in there if not Path(path).name.startswith(MADE)}  # somebody else's tests and attacks


def main() -> int:
    """Print what was found; 1 if an id was lost or written twice, or something was left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--language", choices=SOURCES, default="shell")
    parser.add_argument("--folder", type=Path, help="keep the programs and the verdicts in this folder")
    parser.add_argument("--smoke", action="store_true", help="a hundred programs, three kills: does it run?")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    count, kills = (100, 3) if options.smoke else (options.programs, options.kills)
    print(machine())
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = measure(count, kills, options.jobs, options.seed, options.language, folder)
    for name, value in found.items():
        print(f"{name:24} {value}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
    return 0 if found["each id once"] and found["exit status"] == 0 and not found["left"] else 1


if __name__ == "__main__":
    sys.exit(main())
