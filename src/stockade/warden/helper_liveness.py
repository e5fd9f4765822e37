"""Whether a helper process does its work: one that a stop signal holds answers nothing and reports no end, and the
warden must not wait for it."""

from __future__ import annotations

from stockade.linux import descendants

LOOK_SECONDS = 0.25
_STOPPED_SECONDS = 0.75
"""A helper that a stop signal holds for so long is given up, and the runs in it fail."""


class Helper:
    """One helper process, looked at from outside: nothing is asked of it, so a look costs it nothing."""

    def __init__(self, pid: int, name: str, now: float, *, generations: int = 1) -> None:
        """``name`` is for messages. ``generations`` is how far the child that is a helper as well lies below it."""
        self.pid = pid
        self._name = name
        self._generations = generations
        self._since: float | None = None
        self.next_look = now + LOOK_SECONDS

    def trouble(self, now: float, *, child: str = "") -> str:
        """Return a sentence about the helper if it has stood still for too long, an empty text if not. ``child`` is
        the name of its first child where that one is a helper as well."""
        if now < self.next_look:
            return ""
        self.next_look = now + LOOK_SECONDS
        who = self.standing_still(child)
        if not who:
            self._since = None
            return ""
        self._since = now if self._since is None else self._since
        if now - self._since < _STOPPED_SECONDS:
            return ""
        return f"{who} was stopped by a signal from outside, and did not go on"

    def standing_still(self, child: str = "") -> str:
        """Return the name of the helper, or of its ``child``, that a stop signal holds now; an empty text if none."""
        if descendants.is_stopped(self.pid):
            return f"{self._name} (pid {self.pid})"
        pid = self.pid
        for _ in range(self._generations if child else 0):
            pid = next(iter(descendants.children(pid)), 0)
            if pid and descendants.is_stopped(pid):
                return f"{child} (pid {pid})"
        return ""
