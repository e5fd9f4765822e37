"""A refused system call, with an explanation for people."""

from __future__ import annotations

from stockade.core.dataclass import dataclass


@dataclass(frozen=True)
class Denial:
    """A system call that the filter refused, and how often."""

    call: str
    count: int
    explanation: str
    """The effect of the call, and the reason for the refusal. If the arguments decided, both describe the first
    refusal.
    """
    allowed_by: str
    """The policy setting that would allow the call."""

    def __str__(self) -> str:
        """Return the denial as a sentence."""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.call} was refused {times}: {self.explanation}; {self.allowed_by} would allow it"
