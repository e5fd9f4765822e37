"""The execution of a guest in a living instance: one exec, which the instance's init started."""

from __future__ import annotations

import _socket as socket
import os

from stockade.core import trace
from stockade.linux import faults, files, tree
from stockade.warden import loop, protocol, stdio
from stockade.warden.cold.instance import LISTENER, descriptors
from stockade.warden.run import execution as requests
from stockade.warden.run.exec_tree import ExecTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any, cast

    from stockade.core.launch import Launch
    from stockade.linux.cgroups import GroupBelow
    from stockade.linux.tree import Sample
    from stockade.warden.proxy.handle import ProxyHandle
    from stockade.warden.run.execution import Callbacks
    from stockade.warden.run.sandbox_execution import SandboxExecution
    from stockade.warden.run.supervision import Supervision
    from stockade.warden.stdio import Ends
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

    def cast(_kind, value):
        """Return ``value``; ``typing.cast`` takes milliseconds to import."""
        return value


_CHUNK = 1 << 16
_LOOK_SECONDS = 0.25


class ExecExecution:
    """A process of a living instance with everything that it starts. It ends with its first process.

    Processes that it leaves behind belong to the sandbox from then on. If the warden ends it, the whole tree dies.
    """

    lasting = may_start_again = False
    head = 0
    proxy: ProxyHandle | None = None
    """The sandbox has the proxy, for all of its execs."""
    own_tasks = 0
    _callbacks: Supervision

    def __init__(
        self,
        events: loop.Guarded,
        control: socket.socket,
        streams: Ends,
        launch: Launch,
        *,
        sandbox: SandboxExecution,
        group: GroupBelow | None,
    ) -> None:
        """``control`` leads to the init and to the exec's process. ``group`` counts for this exec alone."""
        self._loop, self._control, self._launch, self._sandbox = events, control, launch, sandbox
        self.streams, self.uid, self.group = streams, sandbox.uid, group
        self.tree = ExecTree(sandbox.head, group, sandbox.heads, sandbox.census)
        self.name = "the first process of the exec"
        self.serves = launch.serves
        self.collect_fds: list[int] = []
        self._decoder = protocol.Decoder()
        self._arrived: list[int] = []
        self._pidfd = -1
        self._silent = False
        self._pending = b""

    @property
    def moved(self) -> tuple[int, int] | None:
        """Counts that change with every byte to and from the exec; ``None`` if the exec is a call that goes on."""
        callbacks = self._callbacks
        return (callbacks.output.count, callbacks.run.stdin.taken) if self._launch.detached else None

    @property
    def setup_state(self) -> str:
        """The step that a slow set-up waits for, as a clause for messages."""
        return f"the exec's process did not begin its program (pid {self.head or 'unknown'})"

    def start(self, callbacks: Callbacks) -> None:
        """Listen: the init was asked for the process before."""
        self._callbacks = cast("Supervision", callbacks)
        self.meter, self.watcher = self._callbacks.meter, self._callbacks.watcher
        self._watch()

    def _watch(self) -> None:
        events = loop.READ | (loop.WRITE if self._pending else 0)
        self._loop.watch(self._control.fileno(), events, self._on_control)

    def take_stdin(self) -> int:
        """Return the descriptor that feeds the exec's standard input."""
        fd, self.streams.stdin = self.streams.stdin, -1
        return fd

    # -- requests ----------------------------------------------------------------------------------------------

    def control(self, request: str, number: int = 0) -> bool:
        """Carry out a request. Return ``False`` if it must be repeated after a moment."""
        if request == requests.SIGNAL:
            return self._signal(number)
        if request == requests.PAUSE:
            self.tree.signal(signal.SIGSTOP)
            return False  # new processes must be stopped later
        if request == requests.RESUME:
            self.tree.signal(signal.SIGCONT)
        elif request == requests.RESIZE:
            self._resize(number >> 16, number & 0xFFFF)
        elif request == requests.HANG_UP:
            self._hang_up()
        else:
            self._kill()
        return True

    def _resize(self, rows: int, columns: int) -> None:
        if self._launch.stdio.rows and self.streams.stdout >= 0:
            stdio.resize(self.streams.stdout, rows, columns)

    def _hang_up(self) -> None:
        """Close the terminal: the kernel then sends SIGHUP to its session, and its reads and writes fail."""
        self._callbacks.run.stdin.close()
        self._callbacks.output.abandon()
        self.streams.close()

    def _kill(self) -> None:
        """End the exec's tree. What the warden cannot end, it ends together with the sandbox."""
        while self.group is None and not self.tree.mark and self.poll():
            pass  # the report of the begin, by which the children are known, may wait in the socket
        if self._pidfd < 0:
            self._shut()  # the process waits for its launch, and ends without one
        elif not self.tree.kill():
            self._sandbox.end("an exec made processes faster than the warden could end them")

    def _shut(self) -> None:
        try:
            self._control.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side is closed

    def _signal(self, number: int) -> bool:
        if self._pidfd < 0:
            return False
        try:
            if number == signal.SIGINT and os.getpgid(self.head) == self.head:
                os.killpg(self.head, number)  # as a terminal does; a live leader keeps the number from reuse
            else:
                signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass  # it has just ended
        return True

    # -- reports -----------------------------------------------------------------------------------------------

    def _on_control(self, events: int) -> None:
        if events & loop.WRITE and self._pending:
            self._send_on()
        self.poll()
        self._callbacks.conclude_if_ended()

    def poll(self) -> bool:
        """Read reports of the init and of the exec's process. Return whether more may come."""
        if self._silent:
            return False
        try:
            data, ancillary, _, _ = self._control.recvmsg(
                _CHUNK, socket.CMSG_SPACE(8), socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
            )
            self._arrived += descriptors(ancillary)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._silent = True
            self._loop.forget(self._control.fileno())
            self._callbacks.mark_due()
            return False
        for kind, fields in self._decoder.feed(data):
            self._on_report(kind, fields)
        return True

    def _on_report(self, kind: str, fields: dict[str, Any]) -> None:
        if kind in ("set_up", LISTENER) and not self._arrived:
            self._callbacks.on_trouble("no descriptor was free for the processes of an exec")
        elif kind == "set_up":
            self._on_set_up(self._arrived.pop(0))
        elif kind == LISTENER:
            self._callbacks.on_listener(self._arrived.pop(0))
        elif kind == "exec":
            self.tree.mark = fields["mark"]
            self._callbacks.on_started(fields)
        elif kind == "exit":
            self._callbacks.on_exit(fields)
        elif kind.endswith("_failed"):
            self._callbacks.on_failed(kind.removesuffix("_failed"), fields["message"])

    def _on_set_up(self, pidfd: int) -> None:
        """Hand over the launch: the process has reported itself, by a descriptor that the kernel made."""
        self._pidfd = pidfd
        lines = files.read(f"/proc/self/fdinfo/{pidfd}").splitlines()
        self.head = next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), 0)
        if self.head <= 0:
            return  # it has ended, which its init reports
        self.name = f"the first process of the exec (pid {self.head})"
        self.tree.head = self.head
        self._callbacks.on_handing_over()
        if self.group is not None:
            self.group.begin(self.own_tasks)
        trace.note(self._launch.trace, trace.HANDED_OVER)
        self._pending = protocol.order(self._launch)
        self._send_on()

    def _send_on(self) -> None:
        try:
            self._pending = self._pending[self._control.send(self._pending, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._pending = b""
            self._callbacks.on_trouble(faults.explain("hand the exec over to its process", error))
        self._watch()

    # -- measurements ------------------------------------------------------------------------------------------

    def sample(self, bound: int | None) -> Sample:
        """Return memory, CPU time and tasks of the exec's processes, from /proc."""
        return tree.sample_of(self.tree.recent(), bound)

    def check(self, now: float, *, starting: bool) -> float:
        """Report an exec whose process cannot start any more. Return when to check again."""
        if self._silent and starting:
            self._callbacks.on_trouble("the init of the sandbox gave up the exec's process")
            if self._pidfd < 0:  # no copy of the socket is left, so the process that would hold one never started
                self._callbacks.on_death()
        return now + _LOOK_SECONDS if starting else float("inf")

    def standing_still(self) -> str:
        """Return an empty text: whatever stands still here is the guest's own."""
        return ""

    def tasks(self) -> int | None:
        """Return the number of the exec's tasks, or ``None`` if no group counts them."""
        return None if self.group is None else self.group.look()

    def holds_one(self) -> bool:
        """Return ``False``: nothing here depends on it."""
        return False

    def measure(self) -> dict[str, Any]:
        """Return nothing: the init measures."""
        return {}

    def is_out_of_time(self) -> bool:
        """Return whether the exec has used up its CPU time, as far as a group of its own counts it."""
        limit = self._launch.watch.cpu_seconds
        return limit is not None and self.group is not None and (self.group.cpu_seconds() or 0.0) >= limit

    # -- the end -----------------------------------------------------------------------------------------------

    def dismiss(self) -> None:
        """Take no more reports. The exec's first process is dead, or its init is."""
        self._loop.forget(self._control.fileno())
        self._callbacks.on_death()

    def on_instance_death(self, why: str, *, closed: bool) -> None:
        """Conclude: the sandbox has ended, and every process of the exec with it. ``closed``: its owner ended it."""
        if closed:
            self._callbacks.ending.kill("cancelled")
        else:
            self._callbacks.run.lost(why)
        self._callbacks.on_death()

    def release(self) -> None:
        """Close everything. Processes that the exec left behind keep its group."""
        self._loop.forget(self._control.fileno())
        self._control.close()
        self.streams.close()
        for fd in (self._pidfd, *self._arrived):
            if fd >= 0:
                os.close(fd)
        self._sandbox.forget(self)
