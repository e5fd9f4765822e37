"""The order of kills when memory runs out, in a control group and on the host (proc(5), oom_score_adj)."""

from __future__ import annotations

import os

from stockade.linux import processes

_FIRST = b"1000"


class OomScore:
    """The score of a worker, or of the init of a living instance. That process raises it while it forks, so that a
    guest is born with the raised score.

    A guest could write its own score, but that is slower. The kernel makes a folder of /proc for each process that
    opens a file of its own there, and takes the folder down at the end.
    """

    def __init__(self, proc: int) -> None:
        """``proc`` is a descriptor of a writable /proc.

        There must be no guest yet, because a guest could reach a dumpable process.
        """
        processes.set_dumpable(True)  # else the file belongs to root
        self._file = os.open("self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC, dir_fd=proc)
        processes.set_dumpable(False)
        self._own = os.pread(self._file, 16, 0)

    def set_first(self) -> None:
        """Make this process the first to be killed."""
        os.pwrite(self._file, _FIRST, 0)

    def restore(self) -> None:
        """Restore the score with which this process started."""

        os.pwrite(self._file, self._own, 0)
