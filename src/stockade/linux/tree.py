"""Measure the processes of one run through /proc, on hosts without a control group to count them (proc(5))."""

from __future__ import annotations

import os

from stockade.core.record import Record
from stockade.linux import descendants

_TICKS = os.sysconf("SC_CLK_TCK")


class Sample(Record):
    """Resources of a process tree at one moment."""

    memory: int
    cpu_seconds: float
    tasks: int


def sample(init: int, bound: int | None) -> Sample:
    """Return memory, CPU time and tasks below ``init``.

    Memory is the sum of resident pages that belong to no file, and of page tables. Pages that a fork shares count once
    for each process. If the sum exceeds ``bound``, it is measured again by proportional share, which is exact but costs
    more.
    """
    return sample_of(descendants.below(init), bound, reaped_cpu_seconds(init))


def sample_of(pids: list[int], bound: int | None, reaped: float = 0.0) -> Sample:
    """Return the same of the processes ``pids``; ``reaped`` is the CPU time of others that have ended."""
    found = [_memory(pid) for pid in pids]
    memory = sum(resident for resident, _ in found)
    if bound is not None and memory > bound:
        memory = sum(map(_proportional, pids))
    memory += sum(tables for _, tables in found)
    times = [_times(pid) for pid in pids]
    cpu = sum(time for time, _ in times) + reaped
    return Sample(memory=memory, cpu_seconds=cpu, tasks=sum(tasks for _, tasks in times))


def reaped_cpu_seconds(pid: int) -> float:
    """Return the CPU time of all children that ``pid`` has reaped, and of those that they reaped."""
    return _times(pid, children_only=True)[0]


def _memory(pid: int) -> tuple[int, int]:
    """Return the resident bytes that belong to no file, and the bytes of page tables.

    A mapping that a process has only read has page tables, but no page of its own.
    """
    fields = dict(line.split(":", 1) for line in _read(f"/proc/{pid}/status").splitlines())
    anonymous, shared, tables = (
        int(fields.get(kind, "0").split()[0]) * 1024 for kind in ("RssAnon", "RssShmem", "VmPTE")
    )
    return anonymous + shared, tables


def _proportional(pid: int) -> int:
    total = 0
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(("Pss_Anon:", "Pss_Shmem:", "SwapPss:")):
            total += int(line.split()[1]) * 1024
    return total or _memory(pid)[0]


def _times(pid: int, *, children_only: bool = False) -> tuple[float, int]:
    text = _read(f"/proc/{pid}/stat")
    if not text:
        return 0.0, 0
    fields = text.rpartition(") ")[2].split()
    user, system, child_user, child_system = map(int, fields[11:15])
    own = 0 if children_only else user + system
    return (own + child_user + child_system) / _TICKS, int(fields[17])


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # it ended in between
        return ""
