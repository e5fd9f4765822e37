"""The pages that every guest of a keeper writes to: the first one says which they are, and from then on each guest gets
its own copies of them as it is forked. One by one they cost several times as much (see ``linux/pinning``).
"""

from __future__ import annotations

import os
import struct

from stockade.linux import pinning, processes

_RUN = struct.Struct("=QQ?")


class Hot:
    """What a keeper knows of them."""

    def __init__(self, uid: int) -> None:
        """``uid`` is the guests', if it is another than this process's; what is pinned counts as theirs, since to one
        user it would soon be too much. There must be no guest yet: it could send signals to who has its uid."""
        self._ring = -1
        self._asked = False
        if uid:
            os.setresuid(uid, -1, -1)
        try:
            self._ring = pinning.open_ring()
        except OSError:
            pass  # then guests are only slower
        finally:
            if uid:
                os.setresuid(0, -1, -1)

    def ask(self) -> tuple[int, int] | None:
        """Return the two ends of what the next guest is to answer through, or nothing if it need not."""
        if self._ring < 0 or self._asked:
            return None
        self._asked = True
        return os.pipe2(os.O_CLOEXEC)

    def learn(self, told: int) -> None:
        """Hear the answer, which comes before the guest is anybody's, and have those pages copied from now on."""
        with open(told, "rb") as file:
            answer = file.read()
        try:
            pinning.pin(self._ring, _RUN.iter_unpack(answer[: len(answer) // _RUN.size * _RUN.size]))
        except OSError:
            os.close(self._ring)
            self._ring = -1


class Witness:
    """What the first guest needs to answer; made before its walls are there."""

    def __init__(self, proc: int, tell: int) -> None:
        """``proc`` is a descriptor of /proc, ``tell`` is to be written to."""
        self._tell = tell
        self._fds: list[int] = []
        processes.set_dumpable(True)  # or these two were not its own to read
        try:
            for name in ("maps", "pagemap"):
                self._fds.append(os.open(f"self/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc))
        except OSError:
            pass  # a kernel without them (CONFIG_PROC_PAGE_MONITOR): there is nothing to say

    def testify(self) -> None:
        """Say which pages are this process's own by now."""
        runs = pinning.own_pages(*self._fds) if len(self._fds) == 2 else []
        answer = b"".join(_RUN.pack(*run) for run in runs)
        while answer:
            answer = answer[os.write(self._tell, answer) :]
        for fd in (*self._fds, self._tell):
            os.close(fd)
