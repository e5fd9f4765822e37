"""The capacity of this machine beyond its present load. It is read once, when a batch begins."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from stockade.batch.budget import Amount
from stockade.core.errors import JobError
from stockade.core.units import format_size, parse_size
from stockade.linux.cgroups import places

_LEFT_FREE = 0.1  # share of the available memory: left for this process, its warden, and the rest of the machine
_RESERVED_DESCRIPTORS = 64
_RESERVED_TASKS = 64
_UNBOUNDED = 1 << 62


def capacity(jobs: int | None = None, memory: int | str | None = None) -> Amount:
    """Return what a batch may use: ``jobs`` programs at a time, and ``memory`` bytes for all of them together.

    The defaults are one program for each processor that this process may use, and nine tenths of the available memory
    (``MemAvailable`` of proc(5), bounded by what the caller's own control groups leave). Raises ``JobError``.
    """
    if jobs is not None and jobs < 1:
        raise JobError(f"jobs = {jobs}: must be at least 1")
    return Amount(
        jobs=len(os.sched_getaffinity(0)) if jobs is None else jobs,
        memory=_memory(memory),
        tasks=max(1, _tasks() - _RESERVED_TASKS),
        descriptors=max(1, _descriptors() - _RESERVED_DESCRIPTORS),
    )


def _memory(asked: int | str | None) -> int:
    available = min([_meminfo("MemAvailable"), *_left("memory")])
    if asked is None:
        return int(available * (1 - _LEFT_FREE))
    try:
        size = parse_size(asked)
    except ValueError as error:
        raise JobError(f"memory = {asked!r}: {error}") from None
    if not isinstance(size, int) or not 0 < size <= available:
        raise JobError(
            f"memory = {asked!r}: must be more than 0 and at most the {format_size(available)} that are available"
        )
    return size


def _tasks() -> int:
    """Return how many more processes and threads the kernel, the control groups and the user's own limit allow."""
    kernel = min(_number("/proc/sys/kernel/threads-max"), _number("/proc/sys/kernel/pid_max"))
    own = resource.getrlimit(resource.RLIMIT_NPROC)[0]  # does not bind root: setrlimit(2)
    bounds = [kernel - _running(), *_left("pids")]
    if own != resource.RLIM_INFINITY and os.geteuid() != 0:
        bounds.append(own - _running())
    return min(bounds)


def _descriptors() -> int:
    """Return how many more files this process may open, and its warden with the same limit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (_UNBOUNDED if soft == resource.RLIM_INFINITY else soft) - len(list(Path("/proc/self/fd").iterdir()))


def _left(controller: str) -> Iterator[int]:
    """Yield how much ``memory`` or ``pids`` each control group above this process leaves (cgroups(7))."""
    for hierarchy in places.find():
        if controller in hierarchy.controllers:
            limit, used = _FILES[controller, hierarchy.version]
            own = Path(hierarchy.path)
            for folder in (own, *own.parents):
                if (folder / limit).exists() and (folder / used).exists():
                    yield max(0, _number(folder / limit) - _number(folder / used))


_FILES = {
    ("memory", 1): ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ("memory", 2): ("memory.max", "memory.current"),
    ("pids", 1): ("pids.max", "pids.current"),
    ("pids", 2): ("pids.max", "pids.current"),
}


def _number(path: str | Path) -> int:
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return _UNBOUNDED
    return int(text) if text.isdigit() else _UNBOUNDED  # "max"


def _running() -> int:
    """Return the number of tasks on the machine: the fourth field of /proc/loadavg, after the slash (proc(5))."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[2])


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        key, _, rest = line.partition(":")
        if key == name:
            return int(rest.split()[0]) * 1024
    return _UNBOUNDED
