"""What a run needs of the warden around it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from typing import Protocol

    from stockade.core.launch import Launch
    from stockade.linux.cgroups import Freezer
    from stockade.warden import protocol
    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.run.run import Run
    from stockade.warden.weights import Weights
else:
    Protocol = object


class RunOwner(Protocol):
    """What a run needs of the warden around it."""

    weights: Weights
    """Which runs go first on a processor."""

    def start(self, run: Run, launch: Launch) -> None:
        """Find a cell for ``run``."""

    def begun(self, run: Run) -> None:
        """Take notice that ``run`` is no longer being set up."""

    def note(self, peak: int | None, *, starved: bool) -> None:
        """Take notice of the most memory that a run had, and of one that the kernel has killed for want of memory that
        others hold."""

    def release(self, slot: CgroupSlot) -> None:
        """Take back a slot whose cell is dead."""

    def freezer(self, slot: CgroupSlot) -> Freezer | None:
        """Return the group in which the guest of ``slot`` can be frozen, if there is any."""

    def done(self, run: Run) -> None:
        """Forget ``run``."""

    def serve(self, sock: socket.socket, decoder: protocol.Decoder, before: Launch | None) -> None:
        """Wait for a launch on ``sock``."""
