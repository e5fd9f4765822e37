"""The tree of one warden's groups, with a lock that shows other wardens whether the tree is abandoned."""

from __future__ import annotations

import errno
import fcntl
import os
import time

from stockade.linux import files
from stockade.linux.cgroups import reserve, weights
from stockade.linux.cgroups.freezer import FROZEN
from stockade.linux.cgroups.group import Group
from stockade.linux.cgroups.places import PREFIX, Hierarchy, hand_down

EXEC = "exec-"
"""The begin of the name of an exec's group, below the group of its sandbox."""
_END_SECONDS = 2.0
_TOKEN_LENGTH = 16


class Tree:
    """The groups of one warden. ``make`` gives each run a group in every hierarchy."""

    def __init__(self, hierarchies: list[Hierarchy], token: str) -> None:
        self._hierarchies = hierarchies
        self._name = PREFIX + token
        self._count = 0
        self._locks: list[int] = []
        self._leftovers: list[str] = []
        self._is_light = False
        self._cores: float | None = None
        self._whole = Group([(each, f"{each.path}/{self._name}") for each in hierarchies])
        try:
            for hierarchy in hierarchies:
                reclaim(hierarchy.path)
                path = f"{hierarchy.path}/{self._name}"
                self._locks.append(_own(path))
                if hierarchy.version == 2:
                    hand_down(path, hierarchy.controllers)
                if "cpu" in hierarchy.controllers:
                    self._cores = _keep_reserve(path, hierarchy)
            self.cpu_seconds()  # opens the file: later, no descriptor may be free
        except OSError:
            self.close()
            raise

    def make(self) -> Group:
        """Return a new group, without limits and without processes."""
        self._sweep()
        self._count += 1
        places = []
        for hierarchy in self._hierarchies:
            path = f"{hierarchy.path}/{self._name}/{self._count}"
            os.mkdir(path)
            places.append((hierarchy, path))
        return Group(places, self._cores)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of all groups together, which stands still while none of their processes runs."""
        return self._whole.cpu_seconds()

    def weigh(self, *, light: bool) -> None:
        """Set the weight of all runs together: light beside the rest of the host, or that of one ordinary task."""
        if light == self._is_light:
            return
        self._is_light = light
        for hierarchy in self._hierarchies:
            if "cpu" in hierarchy.controllers:
                name, value = weights.setting(hierarchy.version, weights.LIGHT_TREE if light else weights.FULL)
                files.write(f"{hierarchy.path}/{self._name}/{name}", value)

    def remove(self, group: Group) -> None:
        """Remove ``group``. A group that is still busy is removed at a later call."""
        group.close()
        self._leftovers += group.folders
        self._sweep()

    def close(self) -> None:
        """Remove the tree.

        Processes killed a moment ago may still be ending, so the removal retries for two seconds.
        """
        deadline = time.monotonic() + _END_SECONDS
        self._whole.close()
        self._leftovers = [path for hierarchy in self._hierarchies for path in self._groups(hierarchy)]
        self._sweep()
        while self._leftovers and time.monotonic() < deadline:
            time.sleep(0.005)
            self._sweep()
        for hierarchy, lock in zip(self._hierarchies, self._locks, strict=False):
            files.remove_folder(f"{hierarchy.path}/{self._name}")
            os.close(lock)
            reclaim(hierarchy.path)  # trees that still held processes when this tree was made

    def _groups(self, hierarchy: Hierarchy) -> list[str]:
        """Return all groups in the tree, even those of runs that were cut short."""
        tree = f"{hierarchy.path}/{self._name}"
        return [f"{tree}/{entry}" for entry in os.listdir(tree) if entry.isdigit()] if os.path.isdir(tree) else []

    def _sweep(self) -> None:
        self._leftovers = [path for path in self._leftovers if not _remove(path)]


def reclaim(path: str) -> int:
    """Remove the trees below ``path`` whose warden is gone; return their number.

    Only empty groups can be removed, and a living warden holds the lock on its tree.
    """
    count = 0
    for entry in os.listdir(path):
        tree = f"{path}/{entry}"
        if not (entry.startswith(PREFIX) and len(entry) == len(PREFIX) + _TOKEN_LENGTH):
            continue
        try:
            fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for group in os.listdir(tree):
                if group.isdigit():
                    _remove(f"{tree}/{group}")
            count += files.remove_folder(tree)
        except OSError:
            pass  # its warden lives
        finally:
            os.close(fd)
    return count


def _keep_reserve(path: str, hierarchy: Hierarchy) -> float | None:
    """Set the quota of the tree at ``path``; return it in cores, or ``None`` where the kernel takes none."""
    cores = reserve.cores(hierarchy)
    try:
        reserve.set_quota(path, hierarchy.version, cores)
    except OSError:
        return None  # a kernel without CONFIG_CFS_BANDWIDTH, or a smaller quota above that this process cannot see
    return cores


def _remove(path: str) -> bool:
    """Remove a run's group with those below it; return whether it is gone."""
    for entry in os.listdir(path) if os.path.isdir(path) else ():
        if entry == FROZEN or entry.startswith(EXEC):
            files.remove_folder(f"{path}/{entry}")
    return files.remove_folder(path)


def _own(path: str) -> int:
    """Make the folder ``path`` and return a descriptor that holds its lock.

    Another warden's ``reclaim`` may remove the folder before it is locked, because it looks abandoned. Then retry.
    """
    for _ in range(100):
        try:
            os.mkdir(path)
        except FileExistsError:
            pass
        lock = -1
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.isdir(path):
                return lock
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError:  # for example, no descriptor is free
            files.remove_folder(path)
            raise
        if lock >= 0:
            os.close(lock)
    raise OSError(errno.EBUSY, f"{path}: cannot lock this folder, because other processes keep taking the lock")
