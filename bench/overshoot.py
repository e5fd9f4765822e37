"""``python bench/overshoot.py [--runs N] [--json]``: how far past its limits a hostile program gets, worst of N.

Each program runs into one limit at full speed. Figures come from the result, and where that can be, from outside.
A bound is what the documentation promises; ``ok`` says whether the worst of all runs keeps it. Exits with 1 if not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import stockade
from stockade.client import warden_process

MIB = 1 << 20
WALL_BOUND = 0.050
CPU_BOUND = 0.100
FORCED = MIB
"""What the kernel may charge past a group's limit where an allocation must not fail, such as a page for a task that is dying
(mm/memcontrol.c, try_charge_memcg). One page was seen."""
SHARERS = 9
"""Processes that share memory out among them: where only a sampled total holds it, each may have the limit."""

SPIN = "while True: pass"
SLEEP = "import time; time.sleep(60)"
TOUCH = """
import ctypes, mmap
size = {size}
area = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(area)), 1, size)
"""
TOUCH_IN_CHILDREN = """
import ctypes, mmap, os
size = {size} * 3 // 4
for _ in range(8):
    if os.fork() == 0:
        area = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(area)), 1, size)
        os.read(0, 1)
        os._exit(0)
import time; time.sleep(30)
"""
FLOOD = "import os\nwhile True: os.write(1, b'x' * 65536)"
FORKS = """
import os, time
count = 1
try:
    while True:
        if os.fork() == 0:
            time.sleep(5); os._exit(0)
        count += 1
except BlockingIOError:
    print(count, flush=True); os._exit(0)
"""
FILES = """
import os
highest = 0
try:
    while True: highest = os.dup(0)
except OSError:
    os.closerange(10, highest + 1); print(highest + 1)
"""
FILL = """
import os
total = 0
for place in ('.', '/tmp', '/dev/shm'):
    fd = os.open(place + '/f', os.O_CREAT | os.O_WRONLY)
    try:
        while True: total += os.write(fd, b'x' * 4096)
    except OSError: pass
print(total)
"""


@dataclass
class Line:
    """Holds the worst of all runs under one limit."""

    limit: str
    figure: str
    worst: str
    bound: str
    ok: bool
    source: str
    runs: int


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench/overshoot.py", description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    lines = measure(options.runs)
    if options.json:
        print(json.dumps([asdict(line) for line in lines]))
    else:
        print(markdown(lines))
    return 0 if all(line.ok for line in lines) else 1


def measure(runs: int) -> list[Line]:
    """Return one line for each limit."""
    return [
        wall_time(runs),
        cpu_time(runs),
        *(memory(size, runs) for size in (64 * MIB, 256 * MIB, 1024 * MIB)),
        *([] if "memory" in stockade.plan().facts.cgroups else [sampled_memory(runs)]),
        output(runs),
        counted("processes", "tasks", FORKS, 8, runs),
        counted("open_files", "descriptors", FILES, 32, runs),
        counted("disk", "bytes", FILL, 8 * MIB, runs),
    ]


def wall_time(runs: int) -> Line:
    """From the start of the program to the answer in the caller's hands, by the caller's clock as well."""
    policy = stockade.Policy(limits={"wall_time": 0.2})
    over, answered = [], []
    for _ in range(runs):
        begin = time.monotonic()
        result = _ended(stockade.run(SLEEP, policy=policy), "wall_time")
        answered.append(time.monotonic() - begin - 0.2)
        over.append(result.usage.wall_seconds - 0.2)
    worst = f"{max(over) * 1000:.1f} ms (the answer is there {max(answered) * 1000:.1f} ms after, set-up included)"
    return Line("wall_time", "0.2 s", worst, "50 ms", 0 <= max(over) <= WALL_BOUND, "the last process's end", runs)


def cpu_time(runs: int) -> Line:
    """Two processes on two cores, so that time is spent as fast as it can be."""
    limit = 0.2
    policy = stockade.Policy(limits={"cpu_time": limit})
    code = f"import os\nos.fork()\n{SPIN}"
    over = [_ended(stockade.run(code, policy=policy), "cpu_time").usage.cpu_seconds - limit for _ in range(runs)]
    source = "cgroup" if stockade.plan().facts.counts_cpu else "sampled; exact for what is alive or waited for"
    return Line("cpu_time", "0.2 s", f"{max(over) * 1000:.1f} ms", "100 ms", max(over) <= CPU_BOUND, source, runs)


def memory(size: int, runs: int) -> Line:
    """An allocator that touches pages as fast as the kernel gives them, for twice the limit."""
    policy = stockade.Policy(limits={"memory": size})
    warden_process.current().stop()  # what it keeps warm would be counted as the guest's
    grouped = "memory" in stockade.plan().facts.cgroups
    peaks, outside = [], []
    for _ in range(runs):
        with Watch() as watch:
            result = stockade.run(TOUCH.format(size=2 * size), policy=policy, warm=False)
        if grouped:
            _ended(result, "memory")
        elif result.error is None or result.error.type != "OSError":
            raise AssertionError(result)
        peaks.append(result.usage.peak_memory or 0)
        outside.append(watch.peak)
    over = max(*peaks, *outside) - size
    worst = f"{max(0, over)} bytes (peak {max(peaks) / MIB:.2f} MiB, seen from outside {max(outside) / MIB:.2f} MiB)"
    source = "cgroup counter; /proc from outside" if grouped else "RLIMIT_DATA refuses: ENOMEM; /proc from outside"
    bound = FORCED if grouped else 0
    return Line(f"memory {size // MIB} MiB", f"{size} bytes", worst, f"{bound} bytes", over <= bound, source, runs)


def sampled_memory(runs: int) -> Line:
    """Children of which each keeps its own limit: the sampled total is all there is."""
    size = 64 * MIB
    policy = stockade.Policy(limits={"memory": size, "processes": SHARERS})
    warden_process.current().stop()  # as above
    peaks = []
    for _ in range(runs):
        with Watch() as watch:
            _ended(stockade.run(TOUCH_IN_CHILDREN.format(size=size), policy=policy, warm=False), "memory")
        peaks.append(watch.peak)
    over = max(peaks) - size
    worst = f"{max(0, over) / MIB:.1f} MiB (seen from outside)"
    source = "/proc from outside, every millisecond"
    bound = (SHARERS - 1) * size
    name = "memory 64 MiB, shared out"
    return Line(name, f"{size} bytes", worst, f"{bound // MIB} MiB", over <= bound, source, runs)


def output(runs: int) -> Line:
    """Measure how many bytes of the output are kept."""
    limit = 10_000
    policy = stockade.Policy(limits={"output": limit}, on_output="kill")
    kept = [len(_ended(stockade.run(FLOOD, policy=policy), "output").stdout_bytes) for _ in range(runs)]
    exact = set(kept) == {limit}
    return Line("output", f"{limit} bytes", f"{max(kept) - limit} bytes", "0", exact, "the result's stream", runs)


def counted(name: str, unit: str, code: str, limit: int, runs: int) -> Line:
    """Limits that the kernel counts: the program says how many it got."""
    policy = stockade.Policy(limits={name: limit})
    got = []
    for _ in range(runs):
        result = stockade.run(code, policy=policy)
        if not result.ok:
            raise AssertionError(result)
        got.append(int(result.stdout))
    worst = f"{max(got) - limit} {unit}" + ("" if min(got) == max(got) else f" (fewest {min(got)})")
    return Line(name, f"{limit} {unit}", worst, "0, and no less", set(got) == {limit}, "what the program got", runs)


class Watch:
    """Looks at the memory of all guests from outside, as often as it can."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._look: Callable[[], int] = self._resident

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.001):
            self.peak = max(self.peak, self._look())

    def _resident(self) -> int:
        return sum(_anonymous(pid) for pid in _below(warden_process.current().pid))


def _below(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return []
    return [found for child in map(int, children) for found in (child, *_below(child))]


def _anonymous(pid: int) -> int:
    try:
        if "/job/" not in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace"):
            return 0  # not a guest: an init, or a cell that waits for the next run
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return sum(int(fields.get(kind, "0").split()[0]) * 1024 for kind in ("RssAnon", "RssShmem"))


def _ended(result: stockade.Result, limit: str) -> stockade.Result:
    if result.limit != limit:
        raise AssertionError(f"expected the limit on {limit} to end the run: {result}")
    return result


def markdown(lines: Sequence[Line]) -> str:
    """Return the lines as a table."""
    who = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    groups = ", ".join(f"{name} v{version}" for name, version in stockade.plan().facts.cgroups.items()) or "none"
    head = f"As {who}, {os.cpu_count()} cores, Linux {os.uname().release.partition('-')[0]}, control groups: {groups}."
    rows = [
        f"| {x.limit} | {x.figure} | {x.worst} | {x.bound} | {'yes' if x.ok else 'NO'} | {x.source} |" for x in lines
    ]
    return "\n".join(
        [
            head,
            "",
            f"| limit | figure | past it, worst of {lines[0].runs} | bound | kept | measured by |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
