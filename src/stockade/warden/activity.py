"""Tells meters when guests have run, so that an idle guest costs nothing.

No counter of a group changes while none of its processes runs. So the meter of a guest that is far from its limits does
not look by itself. It sleeps until the CPU time of all groups together has grown, and then compares that of its own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.linux.cgroups import Tree

LOOK_SECONDS = 0.1
"""How often to look. A guest that begins to run is noticed within this time."""


class Activity:
    """Looks at the CPU time of all guests of one warden together."""

    def __init__(self) -> None:
        self.tree: Tree | None = None
        """The tree of all groups; ``None`` until the first group is made."""
        self._due = float("-inf")
        self._seen: float | None = None

    def look(self, now: float) -> bool:
        """Look if that is due. Return whether a guest may have run since the last look."""
        if self.tree is None or now < self._due:
            return False
        self._due = now + LOOK_SECONDS
        before, self._seen = self._seen, self.tree.cpu_seconds()
        return self._seen is None or self._seen != before

    @property
    def next_look(self) -> float:
        """When the next look is due, in seconds of the monotonic clock."""
        return float("inf") if self.tree is None else self._due
