"""The interface that a run needs of its warden."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Callable
    from typing import Protocol

    from stockade.core.launch import Launch
    from stockade.linux.cgroups import Freezer, Group
    from stockade.warden import protocol
    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.run.run import Run
    from stockade.warden.run.sandboxes import Sandboxes
    from stockade.warden.weights import Weights
else:
    Protocol = object


class RunOwner(Protocol):
    """The warden, as its runs see it."""

    weights: Weights
    """The scheduler weights of all runs."""
    sandboxes: Sandboxes
    """The living instances."""

    def start(self, run: Run, launch: Launch) -> str:
        """Start ``run`` as soon as it is admitted. Return what the host is short of if it waits for that."""

    def begin(self, run: Run, launch: Launch) -> None:
        """Find an instance for an admitted ``run``."""

    def begun(self, run: Run) -> None:
        """Record that the program of ``run`` has begun, so its set-up is over."""

    def note(self, peak: int | None, *, starved: bool) -> None:
        """Record the peak memory of a run, and whether the kernel killed it because memory was short outside of its own
        limit."""

    def release(self, slot: CgroupSlot) -> None:
        """Take back a slot whose instance is dead."""

    def drop(self, slot: CgroupSlot) -> None:
        """End a slot; it is not used again."""

    def dispose(self, gone: Callable[[], bool], then: Callable[[bool], None]) -> None:
        """Call ``then`` when ``gone`` returns true, or too late: see ``Disposal.add``."""

    def freezer(self, slot: CgroupSlot) -> Freezer | None:
        """Return the freezer for the guest of ``slot``, or ``None``."""

    def take_uid(self) -> int | None:
        """Return a host uid that no other run has, or ``None`` if an ordinary user starts the runs."""

    def release_resources(self, uid: int | None, group: Group | None) -> None:
        """Take back a uid and groups that no process uses any more."""

    def done(self, run: Run) -> None:
        """Forget ``run``."""

    def serve(self, sock: socket.socket, decoder: protocol.Decoder, before: Launch | None) -> None:
        """Wait for a launch on ``sock``."""
