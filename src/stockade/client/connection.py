"""A socket to the warden, which serves one run after another."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stockade.client.run_slots import RunSlot

if TYPE_CHECKING:
    from stockade.client.warden_process import WardenProcess


class Connection:
    """A socket to the warden for one run. Leaving the context ends the run, unless the exchange is complete."""

    def __init__(self, warden: WardenProcess, sock: socket.socket, remembered: Mapping[str, Any]) -> None:
        self.slot: RunSlot | None = None
        """The run slot of this process that the run takes."""
        self.warden = warden
        self.sock = sock
        self.remembered = remembered
        """The fields of the last launch that was sent over this socket."""
        self.reusable = False
        """Whether the socket can serve another run. The driver sets it after a complete exchange."""

    def __enter__(self) -> Connection:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Return the socket to the warden process, and release the slot."""
        try:
            self.warden.take_back(self)
        finally:
            if self.slot is not None:
                self.slot.leave()
