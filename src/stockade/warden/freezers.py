"""Where the guests of one warden can be frozen, made on demand: few runs are ever paused."""

from __future__ import annotations

import os

from stockade.linux import cgroups
from stockade.linux.cgroups.freezer import FROZEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.warden.cold.cgroup_slot import CgroupSlot


class Freezers:
    """Gives each run a group to be frozen in: below its own, or in a v2 hierarchy that has no controllers for us."""

    def __init__(self) -> None:
        self._tree: cgroups.Tree | None = None
        self._separate: dict[CgroupSlot, cgroups.Group] = {}

    def find(self, slot: CgroupSlot) -> cgroups.Freezer | None:
        """Return the freezer for the run in ``slot``, ``None`` if there can be none."""
        try:
            if slot.group is not None and slot.group.unified is not None:
                return cgroups.Freezer(f"{slot.group.unified}/{FROZEN}")  # goes with the group
            return self._find_separate(slot)
        except OSError:
            return None

    def release(self, slot: CgroupSlot) -> None:
        """Remove what the run in ``slot`` had; its processes are dead."""
        group = self._separate.pop(slot, None)
        if group is not None and self._tree is not None:
            self._tree.remove(group)

    def close(self) -> None:
        """Remove what is left."""
        if self._tree is not None:
            self._tree.close()

    def _find_separate(self, slot: CgroupSlot) -> cgroups.Freezer | None:
        """Return a group in the v2 hierarchy, where the run has none: it bounds nothing, and can be frozen."""
        if self._tree is None:
            unified = [each for each in cgroups.find() if each.version == 2]
            if not unified:
                return None
            unlimited = cgroups.Hierarchy(version=2, path=unified[0].path, controllers=())
            self._tree = cgroups.Tree([unlimited], os.urandom(8).hex())
        group = self._separate.setdefault(slot, self._tree.make())
        return cgroups.Freezer(group.folders[0])
