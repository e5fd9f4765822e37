"""Who is the first to go when memory runs out, in its group and on the host (proc(5), oom_score_adj)."""

from __future__ import annotations

import os

from stockade.linux import processes

_FIRST = b"1000"


class OomScore:
    """The keeper's. A guest has it from its birth, and the keeper for that moment: the kernel makes a folder of /proc
    for each process that looks for a file of its own, and takes it down at its end."""

    def __init__(self, proc: int) -> None:
        """``proc`` is a descriptor of a writable /proc. There must be no guest yet: it could reach who is dumpable."""
        processes.set_dumpable(True)  # or the file is not ours
        self._file = os.open("self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC, dir_fd=proc)
        processes.set_dumpable(False)
        self._own = os.pread(self._file, 16, 0)

    def be_first(self) -> None:
        """Be the first to go."""
        os.pwrite(self._file, _FIRST, 0)

    def be_as_before(self) -> None:
        """Be no sooner to go than whoever started this."""
        os.pwrite(self._file, self._own, 0)
