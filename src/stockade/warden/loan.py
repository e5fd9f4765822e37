"""A guest that the warden lends: the caller behind a line may hand the next launch over it to that guest itself."""

from __future__ import annotations

from stockade.warden import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.warden.link import Link
    from stockade.warden.warm.slot import WarmSlot

_OF_ONE_RUN = {"source", "trace"}
"""What may be new in a launch whose guest was chosen by the launch before."""


class Loan:
    """What is lent over one line, between two of its runs."""

    def __init__(self) -> None:
        self._slot: WarmSlot | None = None

    def make(self, link: Link, slot: WarmSlot) -> bool:
        """Lend the guest in ``slot``; return whether the caller was told so."""
        if slot.cell is None or not link.send_with_descriptor("lent", slot.cell.control.fileno()):
            return False
        self._slot = slot
        return True

    def settle(self, fields: dict[str, Any]) -> WarmSlot | None:
        """Take the ``fields`` of a launch, and return the place whose guest has it already, if that is so. A caller who
        begins a run without what it was lent has let go of that. Raises ``wire.WireError`` where a guest was not lent
        for such a run: it is killed."""
        slot, self._slot = self._slot, None
        if not fields.pop("lent", False):
            if slot is not None:
                slot.home.take_back(slot)
            return None
        if slot is None:
            raise wire.WireError("a run was handed to a guest that was not lent")
        if fields.keys() - _OF_ONE_RUN:
            slot.home.call_in(slot)
            raise wire.WireError("a run of another kind than the one before it was handed to the guest that was lent")
        return slot

    def call_in(self) -> None:
        """The line is closed: end the guest, since nobody can know what it was told."""
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.home.call_in(slot)
