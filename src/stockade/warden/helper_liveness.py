"""Liveness of helper processes: finds one that a stop signal or a freezer holds.

Such a process answers nothing and reports no end, so the warden must not wait for it.
"""

from __future__ import annotations

from stockade.linux import descendants, standstill

LOOK_SECONDS = 0.25
_STOPPED_SECONDS = 0.75
"""The warden gives up a helper that stands still for this time, and the helper's runs fail."""


class Helper:
    """Watches one helper process from outside, which costs the helper nothing."""

    def __init__(self, pid: int, name: str, now: float, *, generations: int = 1) -> None:
        """``name`` is for messages. ``generations`` is the depth of a descendant that is a helper as well."""
        self.pid = pid
        self._name = name
        self._generations = generations
        self._since: float | None = None
        self._looked = now
        self.next_look = now + LOOK_SECONDS

    def due(self, still_since: float) -> float:
        """Return when to look next, in a group in which nothing has run since ``still_since``.

        A process runs to obey a stop signal or a freezer. So after a look that found nothing, only a run needs another.
        """
        return float("inf") if self._since is None and self._looked > still_since else self.next_look

    def trouble(self, now: float, *, child: str = "") -> str:
        """Return a sentence if the helper has stood still for too long, or an empty text.

        ``child`` names the descendant that is a helper as well; an empty text excludes it.
        """
        if now < self.next_look:
            return ""
        self._looked, self.next_look = now, now + LOOK_SECONDS
        who = self.standing_still(child)
        if not who:
            self._since = None
            return ""
        self._since = now if self._since is None else self._since
        if now - self._since < _STOPPED_SECONDS:
            return ""
        return f"{who}, and did not go on"

    def standing_still(self, child: str = "") -> str:
        """Return a clause that says why the helper, or its ``child``, stands still now, or an empty text."""
        why = standstill.reason(self.pid)
        if why:
            return f"{self._name} (pid {self.pid}) {why}"
        pid = self.pid
        for _ in range(self._generations if child else 0):
            pid = next(iter(descendants.children(pid)), 0)
            why = standstill.reason(pid) if pid else ""
            if why:
                return f"{child} (pid {pid}) {why}"
        return ""
