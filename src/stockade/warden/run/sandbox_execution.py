"""A living instance as an execution: its init starts a process for each exec, until the sandbox is ended."""

from __future__ import annotations

import _socket as socket
import errno
import os
import time

from stockade.linux import faults
from stockade.linux.cgroups import EXEC
from stockade.linux.kill_switch import ENDED
from stockade.warden import protocol, stdio
from stockade.warden.cold.instance import TERMINALS, send_with
from stockade.warden.run import execution as requests
from stockade.warden.run.exec_execution import ExecExecution
from stockade.warden.run.exec_tree import Census
from stockade.warden.run.sandbox_pause import SandboxPause
from stockade.warden.run.slot_execution import SlotExecution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.core.launch import Launch, Stdio
    from stockade.linux.cgroups import GroupBelow
    from stockade.warden.run.run import Run
    from stockade.warden.run.supervision import Supervision

_LOOK_SECONDS = 0.5
_ENDED = {
    "cancelled": "the sandbox was closed",
    "caller_gone": "the process that owns the sandbox is gone",
    "wall_time": "the sandbox reached its max_lifetime",
    "kill_switch": ENDED,
    "idle": "the sandbox was idle for its idle_timeout",
    "memory": "the sandbox used up its memory",
}


class SandboxExecution(SlotExecution):
    """An instance that lives for many execs. All of them share its namespaces, files and limits."""

    _callbacks: Supervision
    _execs: dict[ExecExecution, None]
    _count = 0
    _left: list[ExecExecution]
    """Ended execs that may have left a process behind."""
    _moved: tuple[Any, ...] = ()
    _active = 0.0
    _pause: SandboxPause
    census: Census
    """Its processes, for the execs that no group counts."""
    _terminals = -1
    """The folder of the sandbox's own pseudo-terminals."""

    def _on_report(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == TERMINALS:
            self._terminals = self._instance.take_arrived()
            return
        if kind == "exec":
            self._execs, self._left, self._active = {}, [], time.monotonic()
            self._pause = SandboxPause(self._processes, lambda: (*self._execs, *self._left))
            self.census = Census(self.head)
            self._owner.sandboxes.add(self._launch.sandbox, self)
        super()._on_report(kind, fields)

    def begin(self, run: Run, launch: Launch) -> None:
        """Have the init start a process for ``run``. An error there concerns this exec alone."""
        if self._pause.active and not launch.serves:
            run.refuse(protocol.PAUSED)
            return
        try:
            execution = self._begin(run, launch)
        except OSError as error:
            run.refuse(faults.explain("start a process in the sandbox", error))
            return
        self._execs[execution] = None
        run.execute(execution)

    def _begin(self, run: Run, launch: Launch) -> ExecExecution:
        ours, theirs = self._open_streams(launch.stdio)
        group, control = None, None
        try:
            control, guest_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            control.setblocking(False)
            if launch.port:
                self._replace_stdin(theirs, run.broker)
                run.broker = -1
            theirs.insert(0, guest_control.detach())
            group = None if launch.port else self._make_group()  # to enter one takes longer than to connect
            theirs += group.open_cgroup_fds() if group is not None else []
            if not send_with(self._instance.control, protocol.start_exec(len(theirs)), theirs):
                raise OSError(errno.EAGAIN, "the socket of the sandbox's init is full")
        except OSError:
            stdio.close_all(ours)
            if control is not None:
                control.close()
            if group is not None:
                group.remove()
            raise
        finally:
            stdio.close_all(theirs)
        return ExecExecution(run.loop, control, stdio.Ends(ours), launch, sandbox=self, group=group)

    def _open_streams(self, wanted: Stdio) -> tuple[list[int], list[int]]:
        if not wanted.rows:
            return stdio.open_pipes(self.uid)
        if self._terminals < 0:
            raise OSError(errno.ENODEV, "the sandbox has no pseudo-terminals: its kernel has none")
        return stdio.open_terminal(self._terminals, (wanted.rows, wanted.columns), self.uid)

    @staticmethod
    def _replace_stdin(theirs: list[int], broker: int) -> None:
        """Give the exec's process the descriptor of its caller for the socket that it is going to send."""
        if broker < 0:
            raise OSError(errno.EBADF, "no descriptor came for the socket")
        os.close(theirs[0])
        theirs[0] = broker

    def _make_group(self) -> GroupBelow | None:
        if self.group is None:
            return None
        self._count += 1
        return self.group.make_below(f"{EXEC}{self._count}")

    def heads(self) -> set[int]:
        """Return the pids of the first processes of all execs, as far as they are known."""
        return {each.head for each in self._execs}

    def forget(self, execution: ExecExecution) -> None:
        """Forget an exec that is over. Its group stays as long as a process that it left behind lives."""
        self._execs.pop(execution, None)
        self._left.append(execution)
        self._sweep()

    def _sweep(self) -> None:
        """Remove empty groups, and end what is left of an exec that has used up its CPU time."""
        self._left = [each for each in self._left if each.group is not None and not each.group.remove()]
        for each in self._left:
            if each.is_out_of_time():
                each.tree.kill()

    # -- the end -----------------------------------------------------------------------------------------------

    def check(self, now: float, *, starting: bool) -> float:
        """End an idle sandbox, and do what every instance needs. Return when to check again."""
        due = super().check(now, starting=starting)
        if starting:
            return due
        if self._left:
            self._sweep()
        idle = self._launch.watch.idle_seconds
        due = min(due, _LOOK_SECONDS * (now // _LOOK_SECONDS + 1))  # all sandboxes look in one turn of the loop
        if idle is None or self._pause.active:
            return due
        moved = tuple(each.moved for each in self._execs)
        if moved != self._moved or None in moved:
            self._moved, self._active = moved, now
        if now >= self._active + idle:
            self._callbacks.ending.kill("idle")
        return min(due, self._active + idle)

    def end(self, message: str) -> None:
        """End the sandbox, because the warden cannot end something in it."""
        self._callbacks.on_trouble(message)

    @property
    def why(self) -> str:
        """Why the sandbox has ended, or is about to end."""
        run = self._callbacks.run
        failure = run.failure.message if run.failure is not None else f"{self.name} was killed from outside"
        return f"{protocol.SANDBOX_ENDED}: {_ENDED.get(run.cause or '', failure)}"

    def control(self, request: str, number: int = 0) -> bool:
        """Carry out a request. A signal would reach no guest here, and does nothing."""
        if request in (requests.KILL, requests.KILL_AT_ONCE):
            self._owner.sandboxes.remove(self._launch.sandbox, self.why)
            return super().control(request, number)
        if request == requests.TOUCH:
            self._active = time.monotonic()
        elif request == requests.PAUSE:
            self._pause.begin()
        elif request == requests.RESUME:
            self._active += self._pause.end()
        return True

    def _on_init_death(self, events: int) -> None:
        """Conclude every exec first: the kernel ends an init only after everything in its namespace."""
        while self.poll():
            pass  # the last words of the init
        self._owner.sandboxes.remove(self._launch.sandbox, self.why)
        for execution in list(getattr(self, "_execs", ())):
            execution.on_instance_death(self.why, closed=self._callbacks.run.cause in ("cancelled", "caller_gone"))
        super()._on_init_death(events)

    def release(self) -> None:
        """Close the instance and end its slot: no other run must meet what this one leaves in its groups."""
        for each in getattr(self, "_left", ()):
            if each.group is not None:
                each.group.remove()
        stdio.close_all([self._terminals])
        self._loop.forget(self._instance.control.fileno())
        self._instance.close()
        self._slot.instance = None
        self._owner.drop(self._slot)
