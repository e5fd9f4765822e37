"""The init of a living instance: it starts a process for each exec, reaps all orphans, and runs until the sandbox ends.

The init is trusted, and as well protected as that of a run (``cold/init``). It runs no guest code, and it takes orders
only from the warden's socket. Guests exist while it works, so it also imports nothing: a guest may have written a file
where a module would be searched.
"""

from __future__ import annotations

import _socket as socket
import fcntl
import os
import resource
import select
import sys
import time

from stockade.core import trace
from stockade.core.launch import decode_steps
from stockade.linux import faults, processes
from stockade.warden import protocol
from stockade.warden.cold.init import SETUP_FAILED, Init, exit_message
from stockade.warden.cold.instance import descriptors, send_with
from stockade.warden.stdio import STREAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn

    from stockade.linux.stage import Stage
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_MOST_FDS = 16
_START = "start a process in the sandbox"


class ExecServer(Init):
    """Everything that the init needs to know. It applies the steps of the instance itself."""

    def run(self) -> NoReturn:
        """Run as the init; never return."""
        try:
            processes.close_all_but((2, self.parent, self.control.fileno(), *self.ends))
            self.adding(parent=fcntl.fcntl(self.parent, fcntl.F_DUPFD_CLOEXEC, 10))._live()
        except BaseException as error:
            self._fail("init", error)
        os._exit(SETUP_FAILED)

    def _live(self) -> NoReturn:
        try:
            self._take_over_streams()  # no descriptor that the steps open may get the number of an exec's stream
            self._prepare()
            stage = self._stage()
            stage.apply(decode_steps(self.base))
            self._send("ready")
            self._send("set_up")
            fields = self._receive()
            begin = time.process_time()
            stage.apply(fields["steps"])
            execs = _Execs(self, stage)
            self._give_up_privileges()
            _import_nothing()
            usage, spent = resource.getrusage(resource.RUSAGE_SELF), time.process_time() - begin
            peak, notes = usage.ru_maxrss * 1024, trace.take()
            self._send("exec", at=time.monotonic(), cpu_seconds=spent, peak_memory=peak, notes=notes)
            execs.serve()
        except BaseException as error:
            self._fail("setup", error)
        os._exit(SETUP_FAILED)

    def become_exec(self, stage: Stage, cgroup_fds: list[int]) -> NoReturn:
        """Become the process of one exec, which takes its launch from its own socket."""
        try:
            signal.set_wakeup_fd(-1)
            for fd in cgroup_fds:
                os.write(fd, b"0")
            self._take_over_streams()
            stage.report_to(self._send_listener)
            send_with(self.control, protocol.encode("set_up"), [os.pidfd_open(os.getpid())])
        except BaseException as error:
            self._fail("setup", error)
            os._exit(SETUP_FAILED)
        self._perform(stage)

    def report_end(self, status: int, usage: resource.struct_rusage) -> None:
        """Report the end of the exec's first process. The warden may have given the exec up."""
        try:
            self.control.sendall(exit_message(status, usage, self._measure("/tmp")), socket.MSG_NOSIGNAL)
        except OSError:
            pass
        self.control.close()

    def refuse(self, error: OSError) -> None:
        """Report why the exec gets no process."""
        self._fail("setup", faults.explained(_START, error))
        self.control.close()


class _Execs:
    """The execs of one living instance, as their init sees them."""

    def __init__(self, init: ExecServer, stage: Stage) -> None:
        """Read the values that a guest could change, before the first guest runs."""
        self._init = init
        self._stage = stage
        self._running: dict[int, ExecServer] = {}
        """The exec behind the pid of its first process."""
        self._oom_score = stage.oom_score
        self._decoder = protocol.Decoder()
        self._fds: list[int] = []
        self._woken, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def serve(self) -> NoReturn:
        """Start execs and reap processes until the warden closes the socket."""
        poll = select.poll()
        for fd in (self._init.control.fileno(), self._woken):
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._woken:
                    os.read(self._woken, 1 << 12)
                elif not self._receive():
                    os._exit(0)
            self._reap()

    def _reap(self) -> None:
        try:
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    return
                ended = self._running.pop(pid, None)
                if ended is not None:
                    ended.report_end(status, usage)
        except ChildProcessError:
            return  # no process is left, which is the usual state between two execs

    def _receive(self) -> bool:
        """Receive orders; return ``False`` if the warden has closed the socket."""
        data, ancillary, _, _ = self._init.control.recvmsg(
            1 << 12, socket.CMSG_SPACE(4 * _MOST_FDS), socket.MSG_CMSG_CLOEXEC
        )
        self._fds += descriptors(ancillary)
        for kind, fields in self._decoder.feed(data):
            fds, self._fds = self._fds[: fields["fds"]], self._fds[fields["fds"] :]
            if kind == "start_exec" and len(fds) == fields["fds"]:
                self._start(fds)
            else:  # no descriptor was free here: the exec's socket closes, and the warden sees that
                for fd in fds:
                    os.close(fd)
        return bool(data)

    def _start(self, fds: list[int]) -> None:
        control, ends, cgroup_fds = fds[0], fds[1 : 1 + STREAMS], fds[1 + STREAMS :]
        begun = self._init.adding(control=socket.socket(fileno=control), ends=ends)
        try:
            self._oom_score.set_first()
            pid = os.fork()
            if pid == 0:
                begun.become_exec(self._stage, cgroup_fds)
            self._running[pid] = begun
        except OSError as error:
            begun.refuse(error)
        finally:
            self._oom_score.restore()
            for fd in (*ends, *cgroup_fds):
                os.close(fd)


def _import_nothing() -> None:
    """Forget where modules are searched. From now on an import finds only what is loaded."""
    sys.path.clear()
    sys.meta_path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
