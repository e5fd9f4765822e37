"""The interfaces that zygotes and worker pools need from their surrounding warden."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from stockade.core.launch import Launch
    from stockade.linux import cgroups
    from stockade.warden.cold.cgroup_slot import CgroupSlot
    from stockade.warden.run.run import Run
else:
    Protocol = object


class PoolOwner(Protocol):
    """The warden as a worker pool sees it."""

    def take_group(self) -> cgroups.Group | None:
        """Return fresh control groups, or ``None`` if this host has none for us."""

    def release_resources(self, uid: int | None, group: cgroups.Group | None) -> None:
        """Take back a uid and groups that no process uses any more."""

    def dispose(self, gone: Callable[[], bool], then: Callable[[bool], None]) -> None:
        """Wait for dying processes; see ``Disposal.add``."""

    def has_slack(self) -> bool:
        """Return whether the host has enough left for something that no run waits for."""


class ZygoteOwner(PoolOwner, Protocol):
    """The warden as a zygote sees it."""

    def start(self, run: Run, launch: Launch) -> str:
        """Begin ``run`` as soon as admission allows it."""

    def begin(self, run: Run, launch: Launch) -> None:
        """Find a worker for ``run``, or a cold instance without one."""

    def release_admission(self, run: Run) -> None:
        """Let other runs be admitted until ``run`` starts: it only waits."""

    def take_slot(self) -> CgroupSlot:
        """Return a cgroup slot for an instance."""

    def drop(self, slot: CgroupSlot) -> None:
        """End a cgroup slot."""

    def expect(self, slot: CgroupSlot, waiter: Any) -> None:
        """Tell ``waiter`` when the instance that was requested of ``slot`` is there."""

    def take_uid(self) -> int | None:
        """Return a host uid, or ``None`` unless root starts the runs."""
