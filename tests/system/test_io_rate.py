"""The rate of reads from a real disk: every kind of read is slowed, and only during the run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stockade
from stockade import Guarantee, Policy
from stockade.testing.base import SLOWER

pytestmark = pytest.mark.timing

MIB = 1 << 20
RATE = 4 * MIB
SYSTEM_PYTHON = "/usr/bin/python3"
BACKENDS = [
    pytest.param("native", marks=pytest.mark.needs("native")),
    pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
    "process",
]
SHARED = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor", "filesystem_write": "absent"}
DIRECT = (
    "fd = os.open(path, os.O_RDONLY | os.O_DIRECT); room = mmap.mmap(-1, 1 << 20)\n"
    "for at in range(size >> 20): assert os.preadv(fd, [room], at << 20) == 1 << 20"
)
COLD = (
    "fd = os.open(path, os.O_RDONLY); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)\n"
    "for at in range(size >> 20): assert len(os.pread(fd, 1 << 20, at << 20)) == 1 << 20"
)
MAPPED = (
    "fd = os.open(path, os.O_RDONLY); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)\n"
    "area = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ); sum(area[at] for at in range(0, size, 4096))"
)
TOGETHER = (
    "def work(n):\n    fd = os.open(path, os.O_RDONLY | os.O_DIRECT); room = mmap.mmap(-1, 1 << 20)\n"
    "    for at in range(n, size >> 20, 4): assert os.preadv(fd, [room], at << 20) == 1 << 20\n"
    "    os._exit(0)\n"
    "children = [pid for n in range(4) if (pid := os.fork()) or work(n)]\nfor pid in children: os.waitpid(pid, 0)"
)
WAYS = {"direct": DIRECT, "cold": COLD, "mapped": MAPPED, "together": TOGETHER}


@pytest.fixture
def big() -> Iterator[Path]:
    """Return a world-readable file on a disk, outside the page cache."""
    for folder in ("/var/tmp", "/tmp"):  # the second is often in memory
        if os.major(Path(folder).stat().st_dev):
            path = Path(folder) / f"stockade-test-{os.getpid()}"
            with path.open("wb") as file:
                for _ in range(6):
                    file.write(os.urandom(MIB))
                file.flush()
                os.fsync(file.fileno())
            path.chmod(0o644)
            yield path
            path.unlink()
            return
    pytest.skip("no folder for temporary files lies on a disk")


def _policy(backend: str, path: Path, **fields: Any) -> Policy:
    accept = {**(SHARED if backend == "process" else {}), **fields.pop("accept", {})}
    return Policy(filesystem={"read": [str(path)]}, accept=accept, **fields)


def _seconds(backend: str, way: str, path: Path, **limits: Any) -> float:
    code = (
        f"import mmap, os, time\npath, size = {str(path)!r}, {path.stat().st_size}\nbegin = time.monotonic()\n"
        f"{way}\nprint(time.monotonic() - begin)"
    )
    policy = _policy(backend, path, limits={"processes": 20, **limits})
    result = stockade.run(code, policy=policy, backend=backend, interpreter=SYSTEM_PYTHON)
    assert result.ok, result.stderr or result.summary()
    return float(result.stdout)


@pytest.mark.needs("cgroup-io")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", WAYS)
def test_io_read_slows_every_kind_of_read(backend: str, way: str, big: Path) -> None:
    free = _seconds(backend, WAYS[way], big)
    held = _seconds(backend, WAYS[way], big, io_read=RATE)
    assert free < 1.0 * SLOWER
    assert 0.8 * 6 * MIB / RATE <= held < 2 * 6 * MIB / RATE


@pytest.mark.needs("cgroup-io")
@pytest.mark.parametrize("backend", BACKENDS)
def test_io_read_does_not_slow_next_runs(backend: str, big: Path) -> None:
    """Cgroup slots are reused, though not always by the next run."""
    _seconds(backend, DIRECT, big, io_read=RATE)
    assert max(_seconds(backend, DIRECT, big) for _ in range(6)) < 1.0 * SLOWER


@pytest.mark.needs("cgroup-io")
@pytest.mark.parametrize("backend", BACKENDS)
def test_read_under_way_ends_with_kill(backend: str, big: Path) -> None:
    """A killed process waits for its outstanding reads, so the warden lifts the rate before it kills."""
    code = f"import mmap, os\nos.preadv(os.open({str(big)!r}, os.O_RDONLY | os.O_DIRECT), [mmap.mmap(-1, 6 << 20)], 0)"
    policy = _policy(backend, big, limits={"io_read": "64KiB", "wall_time": 0.5})
    begin = time.monotonic()
    result = stockade.run(code, policy=policy, backend=backend, interpreter=SYSTEM_PYTHON)
    assert result.limit == Guarantee.WALL_TIME
    assert time.monotonic() - begin < 3 * SLOWER, result.limits_met
    assert "pending read" in result.enforcement[Guarantee.WALL_TIME].note
