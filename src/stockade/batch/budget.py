"""How much runs at a time: what a program may need at most, and what there is for all of them. Pure book-keeping."""

from __future__ import annotations

from dataclasses import dataclass, fields

from stockade.core.units import format_size

_WORDS = {"jobs": "programs at a time", "memory": "memory", "tasks": "processes", "descriptors": "open files"}


@dataclass(frozen=True)
class Amount:
    """What one program may need at most, or what there is for all."""

    jobs: int = 1
    memory: int = 0
    """Bytes."""
    tasks: int = 0
    """Processes and threads."""
    descriptors: int = 0


class Budget:
    """What there is, and what is taken of it. A program that may need more than all there is never fits."""

    def __init__(self, capacity: Amount) -> None:
        self.capacity = capacity
        self._taken = Amount(jobs=0)

    def fits(self, need: Amount) -> bool:
        """Return whether ``need`` can be taken now."""
        return _within(_sum(self._taken, need), self.capacity)

    def take(self, need: Amount) -> None:
        """Take it."""
        self._taken = _sum(self._taken, need)

    def give(self, need: Amount) -> None:
        """Give it back."""
        self._taken = _sum(self._taken, need, -1)

    def refusal(self, need: Amount) -> str:
        """Return why ``need`` will never fit, in a sentence; empty if it does."""
        for name, wanted, most in _pairs(need, self.capacity):
            if wanted > most:
                return f"may need {_figure(name, wanted)} of {_WORDS[name]}; the batch may use {_figure(name, most)}"
        return ""

    def at_a_time(self, need: Amount) -> tuple[int, str]:
        """Return how many programs that need as much run at a time, and what bounds that."""
        counts = [(most // wanted, name) for name, wanted, most in _pairs(need, self.capacity) if wanted]
        count, name = min(counts, key=lambda item: item[0])
        return count, _WORDS[name]


def together(one: Amount, other: Amount) -> Amount:
    """Return what two sandboxes of one program need that run at the same time."""
    return Amount(1, one.memory + other.memory, one.tasks + other.tasks, one.descriptors + other.descriptors)


def larger(one: Amount, other: Amount) -> Amount:
    """Return what two sandboxes of one program need that run one after the other."""
    return Amount(*(max(mine, theirs) for _, mine, theirs in _pairs(one, other)))


def _pairs(one: Amount, other: Amount) -> list[tuple[str, int, int]]:
    return [(field.name, getattr(one, field.name), getattr(other, field.name)) for field in fields(Amount)]


def _sum(one: Amount, other: Amount, sign: int = 1) -> Amount:
    return Amount(*(mine + sign * theirs for _, mine, theirs in _pairs(one, other)))


def _within(one: Amount, other: Amount) -> bool:
    return all(mine <= most for _, mine, most in _pairs(one, other))


def _figure(name: str, value: int) -> str:
    return format_size(value) if name == "memory" else str(value)
