"""A worker: a fork of a zygote that is PID 1 of a PID namespace. It forks guests there, one at a time, and removes all
traces of one guest before it forks the next.

Like the init of an instance, a worker is out of the guest's reach. No signal without a handler reaches the init of a
namespace from inside (pid_namespaces(7)). It is not dumpable, and lies in a user namespace above the guest's.
"""

from __future__ import annotations

import _socket as socket
import gc
import os

from stockade.core.launch import decode_steps
from stockade.linux import descendants, faults, processes
from stockade.linux.oom_score import OomScore
from stockade.linux.stage import Stage
from stockade.warden import protocol, stdio
from stockade.warden.cold.init import exit_message
from stockade.warden.warm.guest import STREAMS, Guest
from stockade.warden.warm.guest_mounts import GuestMounts
from stockade.warden.warm.guest_setup import GuestSetup
from stockade.warden.warm.network import Network
from stockade.warden.warm.prefault import Prefault, ProfilingRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    import signal
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from stockade.warden.warm.guest import WarmUpJob
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

    Protocol = object

_UNKNOWN = {"disk_free": None, "inodes_free": None}  # the warden measures: a guest's file systems are its own


class Embedded(Protocol):
    """A second interpreter in this process that runs the jobs, beside the Python that runs this. It must join forks."""

    descriptors: tuple[int, ...]
    """Descriptors that the interpreter opened, and that a worker keeps."""
    of_guests: tuple[int, ...]
    """Descriptors of the interpreter in a guest."""

    def after_closing(self) -> None:
        """Repair the interpreter's state, after all other descriptors are closed and before any new one is opened."""

    def fork(self) -> int:
        """Fork, and return 0 in the child, or the child's pid."""


class Worker:
    """Lives as long as its zygote, unless a run can only be ended together with it."""

    def __init__(
        self,
        *,
        parent: int,
        control: int,
        cgroup_fds: Sequence[int],
        uid: int,
        steps: Sequence[bytes],
        warm_up_job: WarmUpJob | None,
        embedded: Embedded | None,
    ) -> None:
        """``uid`` is the guests' uid in the zygote's user namespace; 0 means that they keep the worker's.

        ``steps`` are the encoded steps of the worker, its network, its guests' mounts and its guests (see ``Warm``).
        """
        self._warm_up_job = warm_up_job
        self._embedded = embedded
        self._parent = parent
        self._control = socket.socket(fileno=control)
        self._cgroup_fds = cgroup_fds
        self._uid = uid
        self._own_steps, self._network_steps, self._mount_steps, self._guest_steps = map(decode_steps, steps)
        self._template: dict[str, Any] = {}

    def serve(self) -> dict[str, Any]:
        """Fork guests until the warden closes the socket. Only a guest returns from here, with its launch."""
        try:
            self._set_up()
            while command := self._control.recv(1):
                if command == protocol.SET_TEMPLATE:
                    self._read_template()
                    continue
                launch = self._make_guest(warmed_up=command == protocol.FORK_WARMED_UP)
                if launch is not None:
                    return launch
        except (OSError, protocol.WireError) as error:
            self._send("failed", message=faults.explain("fork a warm interpreter", error))
        os._exit(0)

    def _set_up(self) -> None:
        """Become PID 1 of the worker's namespaces: enter the control groups, mount /proc, bring up the network."""
        own = self._embedded.descriptors if self._embedded else ()
        processes.close_all_but((*STREAMS, *own, self._parent, self._control.fileno(), *self._cgroup_fds))
        if self._embedded:
            self._embedded.after_closing()
        processes.set_dumpable(False)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler would let a guest's signal reach the worker
        processes.no_new_privileges()
        processes.die_with(self._parent)
        for fd in self._cgroup_fds:
            os.write(fd, b"0")
            os.close(fd)
        self._itself = os.pidfd_open(os.getpid())
        self._stage = Stage(uid=self._uid, gid=self._uid, privileged=self._uid != 0)
        self._stage.apply(self._own_steps)
        self._stage.remember_limits()
        self._mounts = GuestMounts(self._mount_steps, uid=self._uid, proc=self._stage.proc)
        self._guest_setup = GuestSetup(self._guest_steps, self._mounts, uid=self._uid, proc=self._stage.proc)
        self._network = Network(self._stage, self._network_steps)
        self._prefault = Prefault(self._uid)
        self._oom_score = OomScore(self._stage.proc)
        gc.freeze()  # as in the zygote

    def _read_template(self) -> None:
        """Receive the launch template of the next guests, and prepare everything that can be done once."""
        data = self._control.recv(protocol.HEAD, socket.MSG_WAITALL)
        data += self._control.recv(protocol.length(data), socket.MSG_WAITALL)
        for _, fields in protocol.Decoder().feed(data):
            self._mounts.expect(self._stage.prepare_template(fields.pop("steps")))
            self._template = fields
        self._freeze_objects()

    def _freeze_objects(self) -> None:
        """Collect the worker's garbage, so that no guest has to; then freeze the objects that are left."""
        gc.collect()
        gc.freeze()

    def _make_guest(self, *, warmed_up: bool) -> dict[str, Any] | None:
        """Fork one guest and wait for its end. Only the guest itself returns a launch."""
        if self._prefault.unknown:
            launch = self._make_profiling_run()
            if launch is not None:
                return launch
        return self._fork_guest(self._control, self._warm_up_job if warmed_up else None, self._await_end)

    def _make_profiling_run(self) -> dict[str, Any] | None:
        """Fork a guest without a run, to learn which pages guests write to. Only that guest returns a launch."""
        profiling_run = ProfilingRun()
        source = self._warm_up_job[0] if self._warm_up_job and self._template else None

        def await_end(pid: int, channel: int) -> None:
            self._prefault.watch(self._stage.proc, pid, lambda: profiling_run.live(source, channel))
            os.close(channel)
            self._reap(pid)

        launch = self._fork_guest(profiling_run.guest_end, self._warm_up_job if source is None else None, await_end)
        if launch is not None:
            profiling_run.leave()
            return launch
        profiling_run.close()
        self._freeze_objects()
        return None

    def _fork_guest(
        self, warden: socket.socket, warm_up_job: WarmUpJob | None, await_end: Callable[[int, int], None]
    ) -> dict[str, Any] | None:
        """Fork a guest that reports through ``warden``. ``await_end`` gets its pid and our end of its channel."""
        self._network.renew()
        self._mounts.renew()
        self._stage.forget_pids()
        own_ends, ends = stdio.open_pipes(self._uid or None)
        self._oom_score.set_first()
        pid = processes.fork_by(self._embedded.fork) if self._embedded else os.fork()
        if pid == 0:
            own = self._embedded.of_guests if self._embedded else ()
            self._guest = Guest(warden, self._stage, self._mounts, own, self._template)
            return self._guest.become(ends, [self._itself, *own_ends], self._guest_setup, warm_up_job)
        self._oom_score.restore()
        *others, channel = own_ends
        for fd in (*ends, *others):
            os.close(fd)
        await_end(pid, channel)
        return None

    def _await_end(self, guest: int, channel: int) -> None:
        os.close(channel)
        status, usage = self._reap(guest)
        self._control.sendall(exit_message(status, usage, _UNKNOWN))

    def _reap(self, guest: int) -> tuple[int, resource.struct_rusage]:
        """Reap orphans until the guest ends, then kill and reap all others.

        Every orphan becomes a child of this process. So a worker without a child proves that its namespace is empty.
        """
        while True:
            pid, status, usage = os.wait4(-1, 0)
            if pid == guest:
                break
        descendants.end_namespace()
        return status, usage

    def _send(self, kind: str, **fields: Any) -> None:
        try:
            self._control.sendall(protocol.encode(kind, **fields))
        except OSError:
            os._exit(1)
