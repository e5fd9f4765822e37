"""A group whose processes stand still together: cgroup v2 alone (cgroup-v2.rst, ``cgroup.freeze``; Linux 5.2).

The freezer of v1 is left alone: what it has frozen does not even die of SIGKILL until it is thawed, so a warden that is
killed would leave processes behind that nobody can end.
"""

from __future__ import annotations

import errno
import os

from stockade.linux import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FROZEN = "frozen"
"""The name of such a group below a run's own."""
_MOST_ROUNDS = 100


class Freezer:
    """A group of its own for the guest's processes: whoever watches over them must not be frozen with them."""

    def __init__(self, path: str) -> None:
        """Make the group ``path``, if it is not there; the ``OSError`` says why it cannot be had. Whoever has the group
        around it removes it."""
        self._path = path
        if not os.path.isdir(path):
            os.mkdir(path)
        if not os.path.exists(f"{path}/cgroup.freeze"):
            files.remove_folder(path)
            raise OSError(errno.EOPNOTSUPP, f"{path}: this kernel freezes no groups")

    def freeze(self, tree: Callable[[], Iterable[int]]) -> None:
        """Freeze the processes that ``tree`` finds. One that enters stops, so each look finds fewer newcomers."""
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
        raise OSError(errno.EAGAIN, "the guest makes processes faster than they can be frozen")

    def thaw(self) -> None:
        """Let them go on; they stay in the group."""
        files.write(f"{self._path}/cgroup.freeze", "0")
