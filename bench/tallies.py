"""Add up CPU, memory, namespaces and control groups of a tree of processes, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stockade.attacks import outside
from stockade.linux import cgroups

TICK = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> Iterator[int]:
    """Yield the pids of a process and all below it."""
    yield root
    for child in children(root):
        yield from tree(child)


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except OSError:
        pass  # it has ended meanwhile
    return found


def numbers_of(pid: int) -> list[int]:
    """Return a process's numbers, from our PID namespace to its own."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(list(map(int, line.split()[1:])) for line in lines if line.startswith("NSpid:"))


def niceness(pid: int) -> int:
    return int(_stat(pid)[16])


def cpu_seconds(root: int) -> float:
    """Return what the living have spent, and what the dead had spent that they have waited for: whole ticks each."""
    return sum(sum(map(int, fields[11:15])) for fields in map(_stat, tree(root)) if fields) / TICK


def _stat(pid: int) -> list[str]:
    """Return the fields of proc(5)'s stat behind the name: state, ppid, ..., utime, stime, cutime, cstime, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def pss(pid: int) -> int | None:
    """Return the proportional memory of one process in bytes; None where that may not be read."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def tree_pss(root: int) -> int:
    return sum(pss(pid) or 0 for pid in tree(root))


def namespaces(root: int) -> int:
    """Count the namespaces that a process and those below it are in."""
    found: set[str] = set()
    for pid in tree(root):
        try:
            found |= {str(name.readlink()) for name in Path(f"/proc/{pid}/ns").iterdir()}
        except OSError:
            continue  # it has ended meanwhile
    return len(found)


def groups(warden: int) -> int:
    """Count the control groups of a warden, in all hierarchies: it holds each of its trees open."""
    links = [os.readlink(entry) for entry in Path(f"/proc/{warden}/fd").iterdir()]  # noqa: PTH115
    trees = {link for link in links if Path(link).name.startswith(cgroups.PREFIX)}
    return sum(len(folders) for place in trees for _, folders, _ in os.walk(place))


def adopt() -> None:
    """Make orphans of what is started from here children of this process, so that their CPU time is not lost."""
    outside.adopt_orphans()


def reap() -> None:
    """Wait for those that were adopted and have ended."""
    for pid in children(os.getpid()):
        if _stat(pid)[:1] == ["Z"]:
            os.waitpid(pid, 0)


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def holdings(warden: int) -> dict[str, float]:
    """Return all that must not grow, of this process and its warden."""
    return {
        "caller (MiB)": (pss(os.getpid()) or 0) / 2**20,
        "warden (MiB)": (pss(warden) or 0) / 2**20,
        "below the warden (MiB)": (tree_pss(warden) - (pss(warden) or 0)) / 2**20,
        "processes below the warden": len(list(tree(warden))) - 1,
        "descriptors of the warden": descriptors(warden),
        "descriptors of the caller": descriptors(os.getpid()),
        "namespaces": namespaces(warden),
        "control groups": groups(warden),
    }
