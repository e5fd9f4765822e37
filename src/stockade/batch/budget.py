"""How many programs run at a time: the need of each, and the capacity for all. Pure book-keeping."""

from __future__ import annotations

from dataclasses import dataclass, fields

from stockade.core.units import format_size

_NAMES = {"jobs": "programs at a time", "memory": "memory", "tasks": "processes", "descriptors": "open files"}
_REMEDIES = {
    "memory": "lower the program's limit on memory, or allow the batch more",
    "tasks": "lower the program's limit on processes, or let this process have more (ulimit -u, pids.max)",
    "descriptors": "let this process open more files (ulimit -n)",
}


@dataclass(frozen=True)
class Amount:
    """The most that a program may need, or the capacity for all programs."""

    jobs: int = 1
    memory: int = 0
    """Bytes."""
    tasks: int = 0
    """Processes and threads."""
    descriptors: int = 0


class Budget:
    """The capacity, and the part of it that is in use. A program that may need more than the capacity never fits."""

    def __init__(self, capacity: Amount) -> None:
        self.capacity = capacity
        self._taken = Amount(jobs=0)

    def fits(self, need: Amount) -> bool:
        """Return whether ``need`` can be taken now."""
        return _within(_sum(self._taken, need), self.capacity)

    def take(self, need: Amount) -> None:
        """Take ``need`` out of the free capacity."""
        self._taken = _sum(self._taken, need)

    def give(self, need: Amount) -> None:
        """Return ``need`` to the free capacity."""
        self._taken = _sum(self._taken, need, -1)

    def refusal(self, need: Amount) -> str:
        """Return a clause that says why ``need`` can never fit, and what to do; an empty string if it can."""
        for name, wanted, most in _pairs(need, self.capacity):
            if wanted > most:
                what = f"{_figure(name, wanted)} {'of ' if name == 'memory' else ''}{_NAMES[name]}"
                return f"may need {what}; the batch may use {_figure(name, most)}: {_REMEDIES[name]}"
        return ""

    def at_a_time(self, need: Amount) -> tuple[int, str]:
        """Return how many programs with this need run at a time, and which resource bounds the number."""
        counts = [(most // wanted, name) for name, wanted, most in _pairs(need, self.capacity) if wanted]
        count, name = min(counts, key=lambda item: item[0])
        return count, _NAMES[name]


def concurrent_need(one: Amount, other: Amount) -> Amount:
    """Return the need of two sandboxes of a program that run at the same time."""
    return Amount(1, one.memory + other.memory, one.tasks + other.tasks, one.descriptors + other.descriptors)


def sequential_need(one: Amount, other: Amount) -> Amount:
    """Return the need of two sandboxes of a program that run one after the other."""
    return Amount(*(max(mine, theirs) for _, mine, theirs in _pairs(one, other)))


def _pairs(one: Amount, other: Amount) -> list[tuple[str, int, int]]:
    return [(field.name, getattr(one, field.name), getattr(other, field.name)) for field in fields(Amount)]


def _sum(one: Amount, other: Amount, sign: int = 1) -> Amount:
    return Amount(*(mine + sign * theirs for _, mine, theirs in _pairs(one, other)))


def _within(one: Amount, other: Amount) -> bool:
    return all(mine <= most for _, mine, most in _pairs(one, other))


def _figure(name: str, value: int) -> str:
    return format_size(value) if name == "memory" else str(value)
