"""Measure a cold run on each backend, bubblewrap beside bwrap driven by hand, and oci beside crun driven by hand.

The contenders take turns in one process; the figures are medians.

python bench/backends.py [--runs 100] [--json FILE]

bwrap by hand comes twice. With the same walls it has the backend's own arguments, files and filter, so the difference is what
stockade itself costs: control groups, resource limits, a verdict, nothing left running. With plain arguments it has fewer
walls (no filter, no files of its own in /etc, nothing sized), so that difference holds the price of these walls as well.
crun by hand has the backend's own bundle, written once into a user and mount namespace that stays: only ``crun run`` is timed.
"""

from __future__ import annotations

import argparse
import json
import marshal
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cold import BWRAP, PYTHON, SRC, in_turn, machine, spawn

import stockade
from stockade.backends import registry
from stockade.backends.bubblewrap.arguments import STATUS
from stockade.backends.bubblewrap.backend import Bubblewrap
from stockade.backends.oci import bundle
from stockade.backends.oci.backend import Oci
from stockade.client import warden_process
from stockade.core.launch import decode_steps
from stockade.runs.job import Command, Job

if TYPE_CHECKING:
    from stockade.core.launch import Step

ACCEPT = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
BACKENDS = ("native", "bubblewrap", "landlock", "process", "oci", "firejail")
CRUN = """
import marshal, os, sys
from stockade.linux import mounts
from stockade.linux.stage import Stage

argv, bundle, steps = marshal.load(sys.stdin.buffer)
mounts.tmpfs(bundle, 1 << 30, 8192, 0o755)
Stage(uid=0, gid=0, privileged=False).apply(steps)
os.dup2(os.open("/dev/null", os.O_WRONLY), 199)
os.write(1, b"x")
while os.read(0, 1):
    assert os.waitpid(os.posix_spawn(argv[0], argv, {"PATH": "/usr/bin:/bin"}), 0)[1] == 0
    os.write(1, b"x")
"""


def on(backend: str, argv: list[str]) -> Callable[[], None]:
    box = stockade.Runner(stockade.Policy(accept=ACCEPT), backend=backend)

    def call() -> None:
        box.run_command(argv).check()

    return call


def by_hand_with_the_same_walls(argv: list[str]) -> Callable[[], None]:
    """bwrap with the backend's own arguments and descriptors, started by nothing but posix_spawn."""
    backend = Bubblewrap()
    made = stockade.plan(backend=backend)
    with backend.prepare(made, Job(argv=tuple(argv)), lambda _: Command(argv=tuple(argv))) as launch:
        pass
    data = [step for step in (*decode_steps(launch.base), *launch.steps) if step[0] == "data"]
    status = os.open(os.devnull, os.O_WRONLY)

    def call() -> None:
        for _, number, content in data:
            fd = os.memfd_create("bench")
            os.write(fd, content)
            os.lseek(fd, 0, os.SEEK_SET)
            os.dup2(fd, number)
            os.close(fd)
        os.dup2(status, STATUS)
        pid = os.posix_spawn(launch.argv[0], launch.argv, {"PATH": "/usr/bin:/bin"})
        assert os.waitpid(pid, 0)[1] == 0
        for number in (STATUS, *(number for _, number, _ in data)):
            os.close(number)

    return call


def crun_by_hand(argv: list[str]) -> Callable[[], None]:
    """crun with the backend's own bundle, started again and again by a process in namespaces like the backend's."""
    made = stockade.plan(backend=Oci())
    with Oci().prepare(made, Job(argv=tuple(argv)), lambda _: Command(argv=tuple(argv))) as launch:
        steps = [*decode_steps(launch.base), *launch.steps]
    _, _, by_hand, *_ = next(step for step in steps if step[0] == "engine")
    left_out = ("session", "status", "become", "engine_mounts", "limits", "engine", "engine_job")
    ours = [_at_once(step, argv) for step in steps if step[0] not in left_out]
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", CRUN]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": SRC}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(marshal.dumps((by_hand, bundle.BUNDLE, ours)))
    to, back = process.stdin.fileno(), process.stdout.fileno()
    assert os.read(back, 1), "the bundle was not written"

    def call() -> None:
        os.write(to, b"x")
        assert os.read(back, 1), "crun by hand failed"

    return call


def _at_once(step: Step, argv: list[str]) -> Step:
    """Return the step, with ``argv`` as the first process of the container if it writes ``config.json``."""
    if step[:2] != ("file", f"{bundle.BUNDLE}/config.json"):
        return step
    config = json.loads(step[2])
    config["process"] |= {"args": argv, "env": ["PATH=/usr/bin:/bin"]}
    return (*step[:2], json.dumps(config).encode(), *step[3:])


def _is_usable(backend: str) -> bool:
    return registry.find(backend).availability(warden_process.host_facts()).usable


def measure(runs: int) -> dict[str, object]:
    cases: dict[str, Callable[[], None]] = {}
    for name, argv in (("true", ["true"]), ("python", PYTHON)):
        cases[f"{name}, bare"] = spawn(argv)
        cases[f"{name}, bwrap by hand"] = spawn([*BWRAP, *argv])
        cases[f"{name}, bwrap by hand, same walls"] = by_hand_with_the_same_walls(argv)
        if _is_usable("oci"):
            cases[f"{name}, crun by hand"] = crun_by_hand(argv)
        cases |= {f"{name}, {backend}": on(backend, argv) for backend in BACKENDS if _is_usable(backend)}
    times = in_turn(cases, runs)
    above = {
        f"bubblewrap above {hand}, {name} (ms)": times[f"{name}, bubblewrap"]["median"]
        - times[f"{name}, {hand}"]["median"]
        for hand in ("bwrap by hand", "bwrap by hand, same walls")
        for name in ("true", "python")
    }
    above |= {
        f"oci above crun by hand, {name} (ms)": times[f"{name}, oci"]["median"]
        - times[f"{name}, crun by hand"]["median"]
        for name in ("true", "python")
        if f"{name}, oci" in times
    }
    return {"machine": machine(), "runs": runs, "times_ms": times, "derived": above}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    found = measure(options.runs)
    print(f"{found['machine']}; medians of {found['runs']}\n")
    for name, case in found["times_ms"].items():  # type: ignore[attr-defined]
        print(f"{name:38} {case['median']:8.2f} ms   p90 {case['p90']:8.2f}")
    print()
    for name, value in found["derived"].items():  # type: ignore[attr-defined]
        print(f"{name:60} {value:8.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
