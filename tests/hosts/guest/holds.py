"""The holder of each limit here: the plan, and a real run against each. Runs in the guest; prints one JSON object."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import stockade
from stockade import Guarantee, Policy
from stockade.client import warden_process

SHOWN = ("memory", "swap", "processes", "cpu_time", "cpu_rate")
_STATES = (Guarantee.MEMORY, Guarantee.PROCESSES, Guarantee.CPU_TIME)
_ALL: dict[str, Any] = {"accept": {"cpu_rate": "absent", "memory": "supervisor", "swap": "absent"}}
_SPAWN = (
    "import os, time\nn = 0\n"
    "try:\n"
    "    while n < 40:\n"
    "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
    "        n += 1\n"
    "except OSError as e: print(e.errno)\nprint(n)"
)
_BURN = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
# Files in memory belong to no process: only a group counts them.
_FILES = "with open('/tmp/f', 'wb') as f:\n    for _ in range(150): f.write(bytes(1 << 20))\nprint('all')"
# Four processes, each within the limit; only something that counts them together notices.
_TOGETHER = (
    "import os, time\nchildren = []\n"
    "for _ in range(4):\n"
    "    pid = os.fork()\n"
    "    if pid == 0:\n        x = bytearray(48 << 20); time.sleep(2); os._exit(0)\n"
    "    children.append(pid)\n"
    "for pid in children: os.waitpid(pid, 0)\nprint('all')"
)


def main() -> None:
    """Print the plan and the results."""
    begin = time.monotonic()
    facts = warden_process.host_facts()
    print(json.dumps({
        "start_seconds": time.monotonic() - begin,
        "own_group": Path("/proc/self/cgroup").read_text().strip(),
        "uid": os.getuid(),
        "cgroups": dict(facts.cgroups),
        "paths": sorted(set(facts.cgroup_paths.values())),
        "lost": dict(facts.cgroup_lost),
        "namespaces": [facts.namespaces, facts.privileged, dict(facts.namespace_reasons)],
        "plan": _plan(),
        "ran": _ran(sys.argv[1:]) if facts.namespaces else {},
    }))  # fmt: skip


def _plan() -> dict[str, str]:
    limits = {"memory": "64MiB", "processes": 8, "cpu_time": 5, "cpu_rate": 0.5}
    try:
        held = stockade.plan(Policy(limits=limits, **_ALL), backend="native").enforcement
    except stockade.StockadeError as error:
        return {"refused": str(error)}
    return {
        name: f"{held[Guarantee(name)].mechanism or held[Guarantee(name)].note} [{held[Guarantee(name)].strength}]"
        for name in SHOWN
    }


def _ran(chosen: list[str]) -> dict[str, Any]:
    wide = {"wall_time": 60, "cpu_time": 60}
    runs: dict[str, tuple[str, dict[str, Any]]] = {
        "memory": ("x = bytearray(200 << 20)", {"memory": "64MiB"} | wide),
        "memory_together": (_TOGETHER, {"memory": "128MiB"} | wide),
        "memory_files": (_FILES, {"memory": "64MiB", "disk": "200MiB", "file_size": "200MiB"} | wide),
        "processes": (_SPAWN, {"processes": 8} | wide),
        "cpu_time": ("while True: pass", {"cpu_time": 1, "wall_time": 60}),
        "cpu_rate": (_BURN, {"cpu_rate": 0.25} | wide),
        "afterwards": ("print('well')", wide),
    }
    return {name: _run(source, limits) for name, (source, limits) in runs.items() if not chosen or name in chosen}


def _run(source: str, limits: dict[str, Any]) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        result = stockade.run(source, policy=Policy(limits=limits, **_ALL), backend="native")
    except stockade.StockadeError as error:
        return {"refused": str(error)}
    return {
        "outcome": str(result.outcome),
        "limit": result.limit and str(result.limit),
        "error": result.error and f"{result.error.type}: {result.error.message}"[:200],
        "stdout": result.stdout[:200],
        "states": {str(name): str(result.limits_met[name].state) for name in result.limits_met if name in _STATES},
        "cpu_seconds": result.usage.cpu_seconds,
        "wall_seconds": result.usage.wall_seconds,
        "peak_memory": result.usage.peak_memory,
        "processes": result.usage.processes,
        "seconds": time.monotonic() - begin,
    }


if __name__ == "__main__":
    main()
