"""Hand-over: sends a launch to an instance as fast as the process there reads it, without blocking the warden."""

from __future__ import annotations

from stockade.warden import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.warden.cold.instance import Instance


class Handover:
    """The sending side of one instance's control socket."""

    def __init__(self, events: loop.Guarded, instance: Instance, on_control: Callable[[int], object]) -> None:
        self._loop, self._instance, self._on_control = events, instance, on_control
        self._rest = b""
        self._listens = False

    def send(self, order: bytes) -> None:
        """Send as much as the socket takes now, and the rest later. Raises ``OSError`` if the socket fails."""
        self._send(order)
        if self._rest:
            self._watch()

    def listen(self) -> None:
        """Call ``on_control`` for incoming messages from now on. The messages of a worker go to its pool instead."""
        self._listens = not self._instance.lasting
        self._watch()

    def go_on(self) -> None:
        """Send more: the socket is writable."""
        if self._rest:
            self._send(self._rest)
            if not self._rest:
                self._watch()

    def _send(self, data: bytes) -> None:
        try:
            self._rest = self._instance.send(data)
        except (BrokenPipeError, ConnectionResetError):
            self._rest = b""  # the end of the process is noticed elsewhere, and may start the run again

    def _watch(self) -> None:
        events = (loop.READ if self._listens else 0) | (loop.WRITE if self._rest else 0)
        if events:
            self._loop.watch(self._instance.control.fileno(), events, self._on_control)
        else:
            self._loop.forget(self._instance.control.fileno())
