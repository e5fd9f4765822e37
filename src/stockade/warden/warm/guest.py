"""The process that becomes a warm guest: a fork of a worker that executes no other program."""

from __future__ import annotations

import _socket as socket
import gc
import os
import resource
import time

from stockade.core import trace
from stockade.linux import faults, processes
from stockade.warden import protocol
from stockade.warden.cold.init import SETUP_FAILED
from stockade.warden.cold.instance import COLLECT_FDS, send_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from typing import Any

    from stockade.linux.stage import Stage
    from stockade.warden.warm.guest_mounts import GuestMounts
    from stockade.warden.warm.guest_setup import GuestSetup

    WarmUpJob = tuple[bytes, Callable[[str], None]]
    """The source of a sample job, and a function that runs it, given the name of its file in the job's folder."""
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_CHUNK = 1 << 16
STREAMS = (0, 1, 2, 3)
"""Never free in a worker: descriptors that it opens must not get the numbers of a guest's streams."""
_SET_UP, _COLLECT_FDS = protocol.encode("set_up"), protocol.encode(COLLECT_FDS)


class Guest:
    """A fork of a worker, from its birth to the first line of its job."""

    def __init__(
        self, warden: socket.socket, stage: Stage, mounts: GuestMounts, own: Sequence[int], template: dict[str, Any]
    ) -> None:
        """``warden`` is the worker's socket to the warden. ``stage`` applies the steps of the launch.

        ``own`` are descriptors of the interpreter. ``template`` is the launch template without its steps, which
        ``stage`` has already.
        """
        self._warden = warden
        self._mounts = mounts
        self._template = template
        self._own = own
        self._stage = stage

    def become(
        self, ends: Sequence[int], fds: Sequence[int], guest_setup: GuestSetup, warm_up_job: WarmUpJob | None
    ) -> dict[str, Any]:
        """Set up, wait for the launch, and return it when only the job itself is left to do.

        ``ends`` are the guest's ends of its pipes. ``fds`` go to the warden.
        """
        try:
            self._set_up(ends, fds, guest_setup, warm_up_job)
            source_only, fields = self._receive()
            fields = self._apply(source_only, fields)
            self._control.detach()
            processes.close_all_but((*STREAMS, *self._own))
            self._stage.seal()
            if fields["trace"]:
                trace.note(fields["trace"], trace.SEALED)
        except BaseException as error:
            self._fail(error)
            os._exit(SETUP_FAILED)
        return fields

    def _set_up(
        self, ends: Sequence[int], fds: Sequence[int], guest_setup: GuestSetup, warm_up_job: WarmUpJob | None
    ) -> None:
        """Do everything that needs no launch, and report ``set_up`` to the warden."""
        for number, fd in enumerate(ends):
            os.dup2(fd, number)
        theirs, self._control = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        itself = os.pidfd_open(os.getpid())  # before the set-up, because a strict filter refuses this call
        guest_setup.apply()
        mounts = self._mounts
        self._stage.enter_guest(mounts.scratch, mounts.job, (mounts.source_name, mounts.source), self._hand_out)
        if warm_up_job is not None:
            self._warm_up(*warm_up_job)
        listener = [guest_setup.listener] if guest_setup.listener >= 0 else []
        mine = [itself, mounts.scratch, *listener]
        send_with(self._warden, _SET_UP, (fds[0], theirs.fileno(), *fds[1:], *mine))
        theirs.detach()
        self._warden.detach()
        # Close as much as possible now, before a run waits for it.
        processes.close_all_but((*STREAMS, *self._own, self._control.fileno(), *mounts.descriptors))
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _receive(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the message completes the launch template with a source, and its fields."""
        decoder = protocol.Decoder()
        while data := self._control.recv(_CHUNK):
            for kind, fields in decoder.feed(data):
                return kind == "source", fields
        os._exit(0)  # the warden closed the socket of an unused guest

    def _apply(self, source_only: bool, fields: dict[str, Any]) -> dict[str, Any]:
        """Apply the launch, report ``exec``, and return all fields of the launch."""
        traced = fields["trace"]
        if traced:  # the condition saves untraced runs from copying one more page of the interpreter
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
        return fields

    def _warm_up(self, source: bytes, perform: Callable[[str], None]) -> None:
        """Receive and run a sample job ahead of demand, then undo its effects.

        The first write to a page after a fork copies the page, so the real job finds its pages copied.
        """
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
        gc.freeze()  # the job's collections skip all objects that exist by now

    def _hand_out(self, fds: Sequence[int]) -> None:
        send_with(self._control, _COLLECT_FDS, fds)

    def _fail(self, error: BaseException) -> None:
        text = faults.explain("set up the process of the guest", error)
        to = self._warden if self._warden.fileno() >= 0 else self._control
        try:
            to.sendall(protocol.encode("setup_failed", message=text, errno=getattr(error, "errno", None)))
        except OSError:
            return  # the warden has closed the socket
