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
            place = _place()
            if place is None:
                return None
            self._tree = cgroups.Tree([place], os.urandom(8).hex())
        if slot not in self._separate:
            self._separate[slot] = self._tree.make()
        return cgroups.Freezer(self._separate[slot].folders[0])


def reclaim() -> None:
    """Remove the freezers of dead wardens, which a warden that never pauses a run would leave there."""
    place = _place()
    try:
        if place is not None:
            cgroups.reclaim(place.path)
    except OSError:
        pass  # a caller that cannot list the folder has no freezers in it


def _place() -> cgroups.Hierarchy | None:
    """Return the v2 hierarchy, without controllers for us."""
    unified = [each for each in cgroups.find() if each.version == 2]
    return cgroups.Hierarchy(version=2, path=unified[0].path, controllers=()) if unified else None
