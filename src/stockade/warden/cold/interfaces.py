"""The interface of both pools, and those that the cold pool needs from its warden and from the runs and zygotes that
wait for an instance."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from stockade.core.launch import Launch
    from stockade.linux import cgroups
    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.run.run import Run
else:
    Protocol = object


class Waiter(Protocol):
    """Waits for an instance, or has one: a run, or a zygote."""

    @property
    def gone(self) -> bool:
        """Whether the waiter has stopped waiting."""

    def adopt(self, slot: CgroupSlot) -> None:
        """Take over the slot, which holds the new instance."""

    def refuse(self, message: str) -> None:
        """Give up: there will be no instance, for the reason in ``message``."""

    def lost(self, message: str) -> None:
        """Learn that the adopted instance is about to end, because its spawner is gone."""


class SlotPool(Protocol):
    """A pool of slots for runs: cold or warm."""

    def acquire(self, run: Run, launch: Launch) -> str:
        """Serve ``run``, now or by a later ``adopt``. Return an empty text, or why the pool does not serve it."""

    def release(self, slot: Any) -> None:
        """Take back a slot whose instance is dead."""


class Resources(Protocol):
    """Hands out uids and control groups, which workers use as well, and knows what the host has left."""

    def has_slack(self) -> bool:
        """Return whether the host has enough left for something that no run waits for."""

    def put_back(self, waiter: Any, launch: Launch, message: str) -> bool:
        """Queue a run again that could not begin; return whether that is possible."""

    def take_uid(self) -> int | None:
        """Return a host uid that no other run has, or ``None`` unless root starts the runs."""

    def take_group(self) -> cgroups.Group | None:
        """Return fresh control groups, or ``None`` if this host has none for us."""

    def release_resources(self, uid: int | None, group: cgroups.Group | None) -> None:
        """Take back a uid and groups that no process uses any more."""
