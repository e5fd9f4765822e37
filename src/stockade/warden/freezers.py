"""Freezers for the guests of one warden, made on demand: few runs are ever paused."""

from __future__ import annotations

import os

from stockade.linux import cgroups
from stockade.linux.cgroups.freezer import FROZEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.warden.cold.cgroup_slot import CgroupSlot


class Freezers:
    """Finds a freezer for a run: below the run's own group, or in a v2 hierarchy without controllers for us."""

    def __init__(self) -> None:
        self._tree: cgroups.Tree | None = None
        self._separate: dict[CgroupSlot, cgroups.Group] = {}

    def find(self, slot: CgroupSlot) -> cgroups.Freezer | None:
        """Return the freezer for the run in ``slot``, or ``None`` if the host allows none."""
        try:
            if slot.group is not None and slot.group.unified is not None:
                return cgroups.Freezer(f"{slot.group.unified}/{FROZEN}")  # removed with the group
            return self._find_separate(slot)
        except OSError:
            return None

    def release(self, slot: CgroupSlot) -> None:
        """Remove the freezer of the run in ``slot``, whose processes are dead."""
        group = self._separate.pop(slot, None)
        if group is not None and self._tree is not None:
            self._tree.remove(group)

    def close(self) -> None:
        """Remove all freezers."""
        if self._tree is not None:
            self._tree.close()

    def _find_separate(self, slot: CgroupSlot) -> cgroups.Freezer | None:
        """Return a freezer in the v2 hierarchy for a run without a group there. It limits nothing."""
        if self._tree is None:
            unified = [each for each in cgroups.find() if each.version == 2]
            if not unified:
                return None
            unlimited = cgroups.Hierarchy(version=2, path=unified[0].path, controllers=())
            self._tree = cgroups.Tree([unlimited], os.urandom(8).hex())
        group = self._separate.setdefault(slot, self._tree.make())
        return cgroups.Freezer(group.folders[0])
