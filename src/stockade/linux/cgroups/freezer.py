"""Freeze and thaw all processes of a group: cgroup v2 only (cgroup-v2.rst, ``cgroup.freeze``; Linux 5.2).

The freezer of v1 is not used. A process that it has frozen does not die of SIGKILL before it is thawed. If the warden
were killed, such processes would remain, and nothing could end them.
"""

from __future__ import annotations

import errno
import os

from stockade.linux import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FROZEN = "frozen"
"""The name of this group below a run's own group."""
_MOST_ROUNDS = 100


class Freezer:
    """A separate group for the guest's processes, so that their init is not frozen with them."""

    def __init__(self, path: str) -> None:
        """Make the group ``path`` unless it exists; raise ``OSError`` if this kernel cannot freeze it.

        The owner of the parent group removes it.
        """
        self._path = path
        if not os.path.isdir(path):
            os.mkdir(path)
        if not os.path.exists(f"{path}/cgroup.freeze"):
            files.remove_folder(path)
            raise OSError(errno.EOPNOTSUPP, f"{path}: this kernel cannot freeze control groups")

    def freeze(self, tree: Callable[[], Iterable[int]]) -> None:
        """Freeze the processes that ``tree`` finds. Each process stops on entry, so each round finds fewer new ones."""
        files.write(f"{self._path}/cgroup.freeze", "1")
        inside: set[int] = set()
        for _ in range(_MOST_ROUNDS):
            outside = set(tree()) - inside
            if not outside:
                return
            for pid in outside:
                try:
                    files.write(f"{self._path}/cgroup.procs", str(pid))
                except ProcessLookupError:
                    pass  # it has ended
            inside |= outside
        raise OSError(errno.EAGAIN, "the guest creates processes faster than they can be frozen")

    def thaw(self) -> None:
        """Continue all processes; they stay in the group."""
        files.write(f"{self._path}/cgroup.freeze", "0")
