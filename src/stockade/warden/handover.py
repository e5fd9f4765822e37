"""Handing a run over: the launch goes to a cell as fast as the process there takes it, and nobody waits for that."""

from __future__ import annotations

from stockade.warden import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.warden.cold.instance import Instance


class Handover:
    """The control socket of one cell: what is still to be sent there, and who hears what comes back."""

    def __init__(self, events: loop.Guarded, instance: Instance, on_control: Callable[[int], object]) -> None:
        self._loop, self._instance, self._on_control = events, instance, on_control
        self._rest = b""
        self._listens = False

    def send(self, order: bytes) -> None:
        """Send what goes out now, the rest later. Raises ``OSError`` if nobody is there."""
        self._rest = self._instance.send(order)
        if self._rest:
            self._watch()

    def listen(self) -> None:
        """Have what comes back told of from now on. A keeper that stays has others who listen."""
        self._listens = not self._instance.lasting
        self._watch()

    def go_on(self) -> None:
        """Send more: there is room."""
        if self._rest:
            try:
                self._rest = self._instance.send(self._rest)
            except OSError:
                self._rest = b""  # its end is told of as well
            if not self._rest:
                self._watch()

    def _watch(self) -> None:
        events = (loop.READ if self._listens else 0) | (loop.WRITE if self._rest else 0)
        if events:
            self._loop.watch(self._instance.control.fileno(), events, self._on_control)
        else:
            self._loop.forget(self._instance.control.fileno())
