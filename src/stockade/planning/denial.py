"""A refused system call, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Denial:
    """A system call that the filter refused, and how often."""

    call: str
    count: int
    explanation: str
    """What the call does, and why it was refused; where its arguments decided, about the first time."""
    allowed_by: str
    """The setting of the policy that would have allowed it."""

    def __str__(self) -> str:
        """Return it as a sentence."""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.call} was refused {times}: {self.explanation}; {self.allowed_by} would allow it"
