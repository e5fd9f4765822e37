"""The processes of an instance without namespaces: a trusted reaper in the place of init, and the process that becomes
the guest or an engine. An engine builds a sandbox of its own.

The reaper adopts every orphan (PR_SET_CHILD_SUBREAPER), so no descendant of the guest can leave its tree. If root
starts the run, the reaper keeps the right to kill, and the guest has another uid. If an ordinary user starts it, both
have the same uid. Then the guest's Landlock domain or its filter must refuse signals to outside processes.

SIGTERM makes the reaper end everything. The warden sends it, or the kernel does when the reaper's parent dies.
"""

from __future__ import annotations

import os
import resource

from stockade.linux import descendants, places, processes
from stockade.linux.stage import Stage
from stockade.warden.cold.init import Init, exit_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from typing import Any, NoReturn
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_PRIORITY = -10
_MAX_NOTE_BYTES = 1 << 16
_UNUSED = 255  # a descriptor
_KEPT = (processes.CAP_KILL, processes.CAP_DAC_OVERRIDE, processes.CAP_FOWNER)  # the last two remove the run's folder


class Reaper(Init):
    """Everything that these processes need to know. ``place`` and ``status`` are pipes from the process to be guest."""

    place: tuple[int, int]
    """Carries the path of the host folder that was made for the run."""
    status: tuple[int, int]
    """Carries the engine's own report about its sandbox."""

    def _note_fds(self) -> Sequence[int]:
        return (*self.place, *self.status)

    def _prepare(self) -> None:
        processes.adopt_orphans()

    def _harden(self) -> None:
        for fd in (2, *self.ends, self.place[1], self.status[1]):
            os.close(fd)
        signal.signal(signal.SIGTERM, self._stop)
        processes.set_dumpable(False)
        if self.privileged:
            os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)  # else a guest that uses all CPUs would delay its own end
            processes.empty_bounding_set()
            processes.keep_capabilities(*_KEPT)
        processes.no_new_privileges()
        processes.die_with(self.parent, by=signal.SIGTERM)

    def _measure(self, scratch: str) -> dict[str, Any]:  # noqa: ARG002
        return {"disk_free": None, "inodes_free": None, "engine": _read(self.status[0])}

    def _end_all_others(self) -> None:
        descendants.end_all()

    def _stop(self, _number: int, _frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._end_all_others()
        if self._report_end():  # before the folder is removed, which a guest can make slow
            self._wait_for_release()
        place = _read(self.place[0])
        if place:
            places.remove(os.fsdecode(place))
        os._exit(0)

    def _leave(self) -> NoReturn:
        self._stop(0, None)

    def _wait_for_release(self) -> None:
        """Wait until the warden has collected files from the run's folder, or has died."""
        try:
            while self.control.recv(1):
                pass
        except OSError:
            pass

    def _report_end(self) -> bool:
        """Return whether the warden can hear of the end. If the socket has failed, it waits for this process to end."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            self.control.sendall(exit_message(None, usage, self._measure("")))
        except OSError:
            return False
        return True

    def _warm_up(self, stage: Stage) -> None:
        stage.apply([["data", _UNUSED, bytes(200)]])
        os.close(_UNUSED)
        super()._warm_up(stage)

    def _stage(self) -> Stage:
        return Stage(
            uid=self.uid,
            gid=self.gid,
            privileged=self.privileged,
            supervise=self._send_listener,
            hand_out=self._send_collect_fds,
            place=self.place[1],
            status=self.status[1],
        )


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _MAX_NOTE_BYTES)
    except BlockingIOError:
        return b""
