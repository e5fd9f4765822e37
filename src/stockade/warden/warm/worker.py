"""The keeper of a slot: a copy of the warm interpreter that is PID 1 of a namespace, makes guests there, one at a
time, and sees to it that nothing of one is left when the next is made.

Like a cell's init it is out of the guest's reach: no signal without a handler reaches the init of a namespace from
inside (pid_namespaces(7)), it is not dumpable, and it lies in a user namespace above the guest's.
"""

from __future__ import annotations

import _socket as socket
import gc
import os
import resource
import time

from stockade.core import trace
from stockade.core.launch import decode_steps
from stockade.linux import descendants, faults, processes
from stockade.linux.stage import Stage
from stockade.warden import protocol
from stockade.warden.cold.init import SETUP_FAILED, exit_message
from stockade.warden.cold.instance import COLLECT_FDS, send_with
from stockade.warden.warm.guest_mounts import GuestMounts
from stockade.warden.warm.guest_setup import GuestSetup
from stockade.warden.warm.network import Network
from stockade.warden.warm.oom import OomScore
from stockade.warden.warm.prefault import Prefault, ProfilingRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    WarmUpJob = tuple[bytes, Callable[[str], None]]
    """A job that stands for all, and what runs it as one, given the name of its file in the job's folder."""
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

    Protocol = object

_CHUNK = 1 << 16
_STREAMS = (0, 1, 2, 3)
"""Never free in a keeper: what it opens must not lie on the numbers that a guest's own streams will take."""
_SET_UP, _COLLECT_FDS = protocol.encode("set_up"), protocol.encode(COLLECT_FDS)
_UNKNOWN = {"disk_free": None, "inodes_free": None}  # a guest has its file systems to itself: the warden looks


class Embedded(Protocol):
    """An interpreter that has this process as its own, beside the one that runs this: it has to take part in forks."""

    descriptors: tuple[int, ...]
    """Those that it has opened, and a keeper keeps."""
    of_guests: tuple[int, ...]
    """Those that a guest keeps."""

    def after_closing(self) -> None:
        """All other descriptors are closed, and none was opened yet."""

    def fork(self) -> int:
        """Fork, and return 0 in the child, else its pid."""


class Worker:
    """Lives as long as the warm interpreter, unless a run has to be ended with it."""

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
        """``uid`` is the guests', as the warm interpreter's user namespace knows it; 0 leaves them who it is.
        ``steps`` are those of the slot, of its network, of its room, and of a guest (see ``Warm``)."""
        self._warm_up_job = warm_up_job
        self._embedded = embedded
        self._parent = parent
        self._control = socket.socket(fileno=control)
        self._cgroup_fds = cgroup_fds
        self._uid = uid
        self._slot, self._bring_up, self._mount_steps, self._guest_steps = map(decode_steps, steps)
        self._template: dict[str, Any] = {}

    def serve(self) -> dict[str, Any]:
        """Make guests until the warden lets go. Returns in a guest alone, with its launch."""
        try:
            self._set_up()
            while word := self._control.recv(1):
                if word == protocol.SET_TEMPLATE:
                    self._read_template()
                    continue
                launch = self._make(leisurely=word == protocol.FORK_WARMED_UP)
                if launch is not None:
                    return launch
        except (OSError, protocol.WireError) as error:
            self._say("failed", message=faults.explain("copy a warm interpreter", error))
        os._exit(0)

    def _set_up(self) -> None:
        """Become the init of the slot: in its groups, with a network and a view of processes of its own."""
        own = self._embedded.descriptors if self._embedded else ()
        processes.close_all_but((*_STREAMS, *own, self._parent, self._control.fileno(), *self._cgroup_fds))
        if self._embedded:
            self._embedded.after_closing()
        processes.set_dumpable(False)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interpreter has a handler, and by that a guest could reach us
        processes.no_new_privileges()
        processes.die_with(self._parent)
        for fd in self._cgroup_fds:
            os.write(fd, b"0")
            os.close(fd)
        self._itself = os.pidfd_open(os.getpid())
        self._stage = Stage(uid=self._uid, gid=self._uid, privileged=self._uid != 0)
        self._stage.apply(self._slot)
        self._stage.remember_limits()
        self._mounts = GuestMounts(self._mount_steps, uid=self._uid, proc=self._stage.proc)
        self._guest_setup = GuestSetup(self._guest_steps, self._mounts, uid=self._uid, proc=self._stage.proc)
        self._network = Network(self._stage, self._bring_up)
        self._prefault = Prefault(self._uid)
        self._oom_score = OomScore(self._stage.proc)
        gc.freeze()  # as in the warm interpreter

    def _read_template(self) -> None:
        """Hear what the next guests are most likely going to be told, and do of it what can be done once for all."""
        words = self._control.recv(protocol.HEAD, socket.MSG_WAITALL)
        words += self._control.recv(protocol.length(words), socket.MSG_WAITALL)
        for _, fields in protocol.Decoder().feed(words):
            self._mounts.expect(self._stage.prepare_template(fields.pop("steps")))
            self._template = fields
        self._forget()

    def _forget(self) -> None:
        """Collect what is left of what was done here, or each guest would at its end; what is there stays for good."""
        gc.collect()
        gc.freeze()

    def _make(self, *, leisurely: bool) -> dict[str, Any] | None:
        """Make one guest and see it end; return its launch in the guest itself."""
        if self._prefault.unknown:
            launch = self._try()
            if launch is not None:
                return launch
        return self._fork_guest(self._control, self._warm_up_job if leisurely else None, self._see_end)

    def _try(self) -> dict[str, Any] | None:
        """Make one for nobody, to learn what all are going to write to; return its launch in the guest itself."""
        trial = ProfilingRun()
        source = self._warm_up_job[0] if self._warm_up_job and self._template else None

        def see_end(pid: int, channel: int) -> None:
            self._prefault.watch(self._stage.proc, pid, lambda: trial.live(source, channel))
            os.close(channel)
            self._reap(pid)

        launch = self._fork_guest(trial.slot, self._warm_up_job if source is None else None, see_end)
        if launch is not None:
            trial.leave()
            return launch
        trial.close()
        self._forget()
        return None

    def _fork_guest(
        self, slot: socket.socket, warm_up_job: WarmUpJob | None, see_end: Callable[[int, int], None]
    ) -> dict[str, Any] | None:
        """Make a guest that says through ``slot`` that it is there; ``see_end`` gets its pid and our end of the pipe
        that it reports on."""
        self._network.renew()
        self._mounts.renew()
        self._stage.forget_pids()
        guest_in, stdin = os.pipe2(os.O_CLOEXEC)
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        ends = [guest_in, *(write for _, write in pipes)]
        own_ends = [stdin, *(read for read, _ in pipes)]
        for fd in own_ends:
            os.set_blocking(fd, False)
        if self._uid:
            for fd in ends:
                os.fchown(fd, self._uid, self._uid)  # or it could not open /dev/stderr, which leads to its own pipe
        self._oom_score.be_first()
        pid = processes.fork_by(self._embedded.fork) if self._embedded else os.fork()
        if pid == 0:
            own = self._embedded.of_guests if self._embedded else ()
            self._guest = Guest(slot, self._stage, self._mounts, own, self._template)
            return self._guest.become(ends, [self._itself, *own_ends], self._guest_setup, warm_up_job)
        self._oom_score.be_as_before()
        *others, channel = own_ends
        for fd in (*ends, *others):
            os.close(fd)
        see_end(pid, channel)
        return None

    def _see_end(self, guest: int, channel: int) -> None:
        os.close(channel)
        status, usage = self._reap(guest)
        self._control.sendall(exit_message(status, usage, _UNKNOWN))

    def _reap(self, guest: int) -> tuple[int, resource.struct_rusage]:
        """Reap orphans until the guest ends, then end and reap all that is left: the proof that the slot is empty is
        that its init, whose child every orphan becomes, has no child any more."""
        while True:
            pid, status, usage = os.wait4(-1, 0)
            if pid == guest:
                break
        descendants.end_namespace()
        return status, usage

    def _say(self, kind: str, **fields: Any) -> None:
        try:
            self._control.sendall(protocol.encode(kind, **fields))
        except OSError:
            os._exit(1)


class Guest:
    """A copy of the keeper that becomes a guest without executing anything."""

    def __init__(
        self, slot: socket.socket, stage: Stage, mounts: GuestMounts, own: Sequence[int], template: dict[str, Any]
    ) -> None:
        """``slot`` is the keeper's way to the warden, ``stage`` takes the steps of the launch; ``own`` are descriptors
        of the interpreter's. ``template`` is what it is most likely told, but for what ``stage`` knows already."""
        self._slot = slot
        self._mounts = mounts
        self._template = template
        self._own = own
        self._stage = stage

    def become(
        self, ends: Sequence[int], fds: Sequence[int], guest_setup: GuestSetup, warm_up_job: WarmUpJob | None
    ) -> dict[str, Any]:
        """Be furnished, wait for the launch, and return it when nothing is left to do but the job itself.

        ``ends`` are the guest's ends of its pipes; ``fds`` are for the warden.
        """
        try:
            for number, fd in enumerate(ends):
                os.dup2(fd, number)
            theirs, self._control = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            itself = os.pidfd_open(os.getpid())  # a tight filter would not let it
            guest_setup.carry_out()
            mounts = self._mounts
            self._stage.enter_guest(mounts.scratch, mounts.job, (mounts.source_name, mounts.source), self._hand_out)
            if warm_up_job is not None:
                self._warm_up(*warm_up_job)
            listener = [guest_setup.listener] if guest_setup.listener >= 0 else []
            mine = [itself, mounts.scratch, *listener]
            send_with(self._slot, _SET_UP, (fds[0], theirs.fileno(), *fds[1:], *mine))
            theirs.detach()
            self._slot.detach()
            # All that can be closed is closed before anybody waits for it.
            processes.close_all_but((*_STREAMS, *self._own, self._control.fileno(), *mounts.descriptors))
            signal.signal(signal.SIGINT, signal.default_int_handler)
            source_only, fields = self._receive()
            traced = fields["trace"]
            if traced:  # or a page more of the interpreter would be touched, and copied
                trace.note(traced, trace.WOKEN)
            begin = time.process_time()
            if source_only:
                self._stage.apply_template(fields["source"])
                fields = self._template
                fields["trace"] = traced
            else:
                self._stage.apply(fields["steps"])
            if not fields["channel"]:
                os.close(3)
            usage = resource.getrusage(resource.RUSAGE_SELF)
            if traced:
                trace.note(traced, trace.APPLIED)
            spent, notes = time.process_time() - begin, trace.take() if traced else []
            self._control.sendall(
                protocol.encode(
                    "exec",
                    at=time.monotonic(),
                    cpu_seconds=spent,
                    peak_memory=usage.ru_maxrss * 1024,
                    notes=notes,
                )
            )
            self._control.detach()
            processes.close_all_but((*_STREAMS, *self._own))
            self._stage.seal()
            if traced:
                trace.note(traced, trace.SEALED)
        except BaseException as error:
            self._fail(error)
            os._exit(SETUP_FAILED)
        return fields

    def _receive(self) -> tuple[bool, dict[str, Any]]:
        """Return the launch, and whether it is what was foreseen and a source."""
        decoder = protocol.Decoder()
        while data := self._control.recv(_CHUNK):
            for kind, fields in decoder.feed(data):
                return kind == "source", fields
        os._exit(0)  # the warden let go of it unused

    def _warm_up(self, source: bytes, perform: Callable[[str], None]) -> None:
        """Take a launch as the real one will be taken, and perform it, while nobody waits: a page that is written for
        the first time after a fork is copied. What it leaves is undone."""
        decoder = protocol.Decoder()
        for _, fields in decoder.feed(protocol.source_message(source, 0)):
            usage = resource.getrusage(resource.RUSAGE_SELF)
            name = self._stage.warm_up(fields["source"])
            protocol.encode(
                "exec",
                at=time.monotonic(),
                cpu_seconds=time.process_time(),
                peak_memory=usage.ru_maxrss * 1024,
                notes=[],
            )
            perform(name)
        self._stage.end_warm_up()
        gc.freeze()  # what is there by now is none of the job's: its collections leave it alone

    def _hand_out(self, fds: Sequence[int]) -> None:
        send_with(self._control, _COLLECT_FDS, fds)

    def _fail(self, error: BaseException) -> None:
        text = faults.explain("set up the process of the guest", error)
        to = self._slot if self._slot.fileno() >= 0 else self._control
        try:
            to.sendall(protocol.encode("setup_failed", message=text, errno=getattr(error, "errno", None)))
        except OSError:
            return  # nobody listens any more
