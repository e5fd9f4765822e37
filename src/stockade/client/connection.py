"""A socket to the warden, on which one run after another is held."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stockade.client.run_slots import RunSlot

if TYPE_CHECKING:
    from stockade.client.warden_process import WardenProcess


class Connection:
    """A socket to the warden for one run. Leaving the context ends the run, unless all was said and done."""

    def __init__(self, warden: WardenProcess, sock: socket.socket, remembered: Mapping[str, Any]) -> None:
        self.place: RunSlot | None = None
        """The room that this process has for the run."""
        self.warden = warden
        self.sock = sock
        self.remembered = remembered
        """What the warden was told of the last launch over this socket."""
        self.reusable = False
        """Set by whoever held a conversation to its end: the socket can serve another run."""

    def __enter__(self) -> Connection:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the socket back."""
        try:
            self.warden.take_back(self)
        finally:
            if self.place is not None:
                self.place.leave()
