"""A caller in a control group with little memory: no guest is blamed for the memory of all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import host

pytestmark = [pytest.mark.needs("native"), pytest.mark.needs("cgroup-memory"), pytest.mark.needs("root")]
MIB = 1 << 20
TIGHT = 128 * MIB
CROWD = """
import json, stockade
from concurrent.futures import ThreadPoolExecutor
box = stockade.Runner(backend="native")
def told(source):
    result = box.run(source)
    return str(result.outcome), str(result.limit), result.error and result.error.message
sources = ["x = bytearray({mib} << 20); import time; time.sleep(0.2)"] * {count}
with ThreadPoolExecutor(len(sources)) as pool:
    print(json.dumps(list(pool.map(told, sources))))
"""

READ_ONLY = (
    "for each in $(awk '$9 ~ /^cgroup/ || $8 ~ /^cgroup/ || $10 ~ /^cgroup/ {print $5}' /proc/self/mountinfo); do "
    "mount -o remount,bind,ro $each || exit 9; done"
)
"""Takes the control groups away from a process in a mount namespace of its own, as a container does."""


@pytest.fixture
def group() -> Iterator[Path]:
    lines = [line.split(":", 2) for line in host.read("/proc/self/cgroup").splitlines()]
    own = {names: path for _, names, path in lines}
    kind, path = ("memory", own["memory"]) if "memory" in own else ("cgroup2", own[""])
    mounted = next(line.split() for line in host.read("/proc/self/mountinfo").splitlines() if _is_mount(line, kind))
    made = Path(mounted[4]) / path.removeprefix(mounted[3]).lstrip("/") / f"tight-{os.getpid()}"
    made.mkdir()
    try:
        (made / ("memory.limit_in_bytes" if kind == "memory" else "memory.max")).write_text(str(TIGHT))
        yield made
    finally:
        assert host.eventually(lambda: _gone(made), 5)


def _is_mount(line: str, kind: str) -> bool:
    return line.endswith("memory") if kind == "memory" else " - cgroup2 " in line


def _gone(folder: Path) -> bool:
    try:
        for each in sorted(folder.glob("**/"), reverse=True):
            each.rmdir()
    except OSError:
        return False
    return True


def _crowd(group: Path, count: int, mib: int, *, has_groups: bool = True) -> list[list[str | None]]:
    enter = f'echo 0 > {group}/cgroup.procs && exec "$@"'
    without = [] if has_groups else ["unshare", "--mount", "sh", "-c", f'{READ_ONLY} && exec "$@"', "sh"]
    script = CROWD.format(count=count, mib=mib)
    command = ["/bin/sh", "-c", enter, "sh", *without, sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[list[str | None]] = json.loads(done.stdout)
    return answers


def test_tight_outer_group_blames_no_guest(group: Path) -> None:
    """Runs use 30 MiB under a limit of 256 MiB; some are killed before fewer run at a time, and their errors say why."""
    told = _crowd(group, 24, 30)
    outcomes = Counter((outcome, limit) for outcome, limit, _ in told)
    assert set(outcomes) <= {("completed", "None"), ("sandbox_failed", "None")}, outcomes
    assert outcomes["completed", "None"] >= 2, outcomes
    for _, _, message in told:
        assert message is None or "memory ran short outside of the sandbox" in message or "ENOMEM" in message, message


def test_tight_container_without_groups_blames_no_guest(group: Path) -> None:
    """The same without groups of the runs' own: each guest is in the group of the container."""
    told = _crowd(group, 24, 30, has_groups=False)
    outcomes = Counter((outcome, limit) for outcome, limit, _ in told)
    assert set(outcomes) <= {("completed", "None"), ("sandbox_failed", "None")}, outcomes
    assert outcomes["completed", "None"] >= 2, outcomes
    assert outcomes["sandbox_failed", "None"] >= 1, outcomes
