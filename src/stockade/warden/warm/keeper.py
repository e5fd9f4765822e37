"""The keeper of a slot: a copy of the warm interpreter that is PID 1 of a namespace, makes guests there, one at a
time, and sees to it that nothing of one is left when the next is made.

Like a cell's init it is out of the guest's reach: no signal without a handler reaches the init of a namespace from
inside (pid_namespaces(7)), it is not dumpable, and it lies in a user namespace above the guest's.
"""

from __future__ import annotations

import _socket as socket
import os
import resource
import sys
import time

from stockade._launch import decode_steps
from stockade.linux import processes
from stockade.linux.stage import Stage
from stockade.warden import wire
from stockade.warden.cell import SCRATCH
from stockade.warden.inside import SETUP_FAILED, Inside, exit_message
from stockade.warden.warm.network import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from typing import Any
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_STREAMS = (0, 1, 2, 3)
"""Never free in a keeper: what it opens must not lie on the numbers that a guest's own streams will take."""
_UNKNOWN = {"disk_free": None, "inodes_free": None}  # a guest has its file systems to itself: the warden looks


class Keeper:
    """Lives as long as the warm interpreter, unless a run has to be ended with it."""

    def __init__(
        self, *, parent: int, control: int, entrances: Sequence[int], uid: int, steps: Sequence[bytes]
    ) -> None:
        """``uid`` is the guests', as the warm interpreter's user namespace knows it; 0 leaves them who it is.
        ``steps`` are those of the slot, of its network, and of a guest (see ``Warm``)."""
        self._parent = parent
        self._control = socket.socket(fileno=control)
        self._entrances = entrances
        self._uid = uid
        self._slot, self._bring_up, self._furnish = map(decode_steps, steps)

    def serve(self) -> dict[str, Any]:
        """Make guests until the warden lets go. Returns in a guest alone, with its launch."""
        try:
            self._settle()
            decoder = wire.Decoder()
            while data := self._control.recv(1 << 16):
                for _ in decoder.feed(data):
                    launch = self._make()
                    if launch is not None:
                        return launch
        except OSError as error:
            self._say("failed", message=f"the copy of a warm interpreter: {error.strerror}")
        os._exit(0)

    def _settle(self) -> None:
        """Become the init of the slot: in its groups, with a network and a view of processes of its own."""
        processes.close_all_but((*_STREAMS, self._parent, self._control.fileno(), *self._entrances))
        processes.set_dumpable(False)
        processes.no_new_privileges()
        processes.die_with(self._parent)
        for fd in self._entrances:
            os.write(fd, b"0")
            os.close(fd)
        self._itself = os.pidfd_open(os.getpid())
        self._stage = Stage(uid=self._uid, gid=self._uid, privileged=self._uid != 0)
        self._stage.apply(self._slot)
        self._network = Network(self._stage, self._bring_up)

    def _make(self) -> dict[str, Any] | None:
        """Make one guest and see it end; return its launch in the guest itself."""
        self._network.renew()
        self._stage.forget_pids()
        guest_in, stdin = os.pipe2(os.O_CLOEXEC)
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        ends = [guest_in, *(write for _, write in pipes)]
        own_ends = [stdin, *(read for read, _ in pipes)]
        if self._uid:
            for fd in ends:
                os.fchown(fd, self._uid, self._uid)  # or it could not open /dev/stderr, which leads to its own pipe
        theirs, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pid = os.fork()
        if pid == 0:
            for fd in (*own_ends, theirs.fileno()):
                os.close(fd)
            theirs.detach()
            uid = self._uid
            guest = Guest(privileged=uid != 0, parent=-1, ends=ends, control=control, uid=uid, gid=uid)
            return guest.become(self._stage, self._furnish)
        for fd in own_ends:
            os.set_blocking(fd, False)
        pidfd = os.pidfd_open(pid)
        self._hand_out([self._itself, theirs.fileno(), *own_ends, pidfd])
        theirs.close()
        for fd in (*ends, *own_ends, pidfd):
            os.close(fd)
        self._see_end(pid, control)
        control.close()
        return None

    def _hand_out(self, fds: Sequence[int]) -> None:
        rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
        self._control.sendmsg([wire.encode("made")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def _see_end(self, guest: int, control: socket.socket) -> None:
        """Reap orphans until the guest ends, then end and reap all that is left: the proof that the slot is empty is
        that its init, whose child every orphan becomes, has no child any more."""
        while True:
            pid, status, usage = os.wait4(-1, 0)
            if pid == guest:
                break
        end_all()
        try:
            control.sendall(exit_message(status, usage, _UNKNOWN))
        except OSError:
            pass  # nobody listens any more

    def _say(self, kind: str, **fields: Any) -> None:
        try:
            self._control.sendall(wire.encode(kind, **fields))
        except OSError:
            os._exit(1)


class Guest(Inside):
    """A copy of the keeper that becomes a guest without executing anything."""

    def become(self, stage: Stage, steps: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Be furnished, wait for the launch, and return it when nothing is left to do but the job itself."""
        try:
            self._take_over_streams()
            stage.supervised_by(self._send_listener, self._send_outlet)
            stage.apply(steps)
            self._rehearse(stage)
            rights = stage.scratch.to_bytes(4, sys.byteorder)
            words = wire.encode("ready") + wire.encode(SCRATCH) + wire.encode("furnished")
            self.control.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            fields = self._receive()
            begin = time.process_time()
            stage.apply(fields["steps"])
            if not fields["channel"]:
                os.close(3)
            usage = resource.getrusage(resource.RUSAGE_SELF)
            self._send("exec", cpu_seconds=time.process_time() - begin, peak_memory=usage.ru_maxrss * 1024)
            self.control.detach()
            processes.close_all_but(_STREAMS)
            stage.seal()
        except BaseException as error:
            self._fail("setup", error)
            os._exit(SETUP_FAILED)
        return fields


def end_all() -> None:
    """Kill and reap until no process is left in this PID namespace but its init: orphans are the init's children."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass  # none but ourselves; some may wait to be reaped
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
