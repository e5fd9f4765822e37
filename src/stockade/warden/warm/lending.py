"""Lending a guest that is ready to who was served last: its caller hands it the next launch itself."""

from __future__ import annotations

import time

from stockade.warden import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade._launch import Launch
    from stockade.warden.run import Run
    from stockade.warden.warm.slot import WarmSlot

_TELL_SECONDS = 0.25
"""Who hands a guest its launch tells the warden right after: so long it may be kept from its processor in between."""


class Lending:
    """The one place of a warm interpreter that is lent, if any is."""

    def __init__(self, events: loop.Loop) -> None:
        self._loop = events
        self._expected: tuple[Run, Launch] | None = None
        self._most = _TELL_SECONDS
        self._begun: float | None = None
        self.slot: WarmSlot | None = None
        """It is nobody else's meanwhile."""

    def expect(self, run: Run, before: Launch) -> None:
        """Lend the next place that can be to the caller behind ``run``, which has had the run ``before``."""
        self._expected = run, before

    def offer(self, slot: WarmSlot) -> None:
        """Lend ``slot``, whose guest is ready, if somebody is expected whose next run it most likely fits."""
        if self.slot is not None or self._expected is None or slot.cell is None:
            return
        run, before = self._expected
        self._expected = None
        if not (slot.is_armed_with(before.groups) and slot.foresees(before) and run.lend(slot)):
            return
        self.slot = slot
        watch = before.watch
        self._most = min(_TELL_SECONDS, watch.wall_seconds or _TELL_SECONDS, watch.cpu_seconds or _TELL_SECONDS)
        self._loop.watch(slot.cell.control.fileno(), loop.READ, self._on_begun)

    def _on_begun(self, _events: int) -> None:
        """The guest says that it begins: it has its launch, of which nobody has told us yet."""
        self._stop_listening()
        self._begun = time.monotonic()

    @property
    def due(self) -> float:
        """When a guest that has begun has gone on for too long without our knowing what it runs."""
        return float("inf") if self._begun is None else self._begun + self._most

    def end(self) -> None:
        """Take the place back, or let its run have it."""
        if self.slot is not None:
            self._stop_listening()
        self.slot = self._begun = None

    def _stop_listening(self) -> None:
        if self.slot is not None and self.slot.cell is not None:
            self._loop.forget(self.slot.cell.control.fileno())
