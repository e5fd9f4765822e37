"""A worker as the warden sees it: a fork of a zygote that takes the place of spawner and init at once."""

from __future__ import annotations

import _socket as socket
import os

from stockade.core.launch import Groups
from stockade.linux import cgroups, faults, files, processes
from stockade.warden import protocol
from stockade.warden.cold.cgroup_slot import CgroupSlot, SlotError
from stockade.warden.cold.instance import WorkerInstance, descriptors
from stockade.warden.cold.spawner import FDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator

    from stockade.core.launch import Launch, TemplateFields
    from stockade.warden.cold.instance import Instance
    from stockade.warden.run.run import Run
    from stockade.warden.warm.worker_pool import WorkerPool
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_LEAST_FDS, _MOST_FDS = FDS + 2, FDS + 3
"""Descriptors that come with a guest; see ``WorkerInstance``."""
_MAX_TEMPLATE_BYTES = 1 << 14
"""The largest launch template worth sending. A socket's buffer always has space for it."""


class WorkerHandle(CgroupSlot):
    """The warden's side of one worker. Making a handle asks the zygote for the worker."""

    own_tasks = 1
    role = "the worker process that forks guests"

    def __init__(
        self,
        fork: Callable[[list[int], int], None],
        pool: WorkerPool,
        *,
        number: int,
        uid: int | None,
        group: cgroups.Group | None,
    ) -> None:
        """``fork`` asks the zygote for a worker that belongs to ``pool``.

        ``number`` is ``uid`` as the zygote's user namespace knows it, or 0 if there is only one uid.
        """
        self.pool = pool
        self.number = number
        self.uid = uid
        self.group = group
        self.instance: Instance | None = None
        self._armed: Groups | None = None
        self._template: TemplateFields | None = None
        self._counting = False
        self.run: Run | None = None
        self._had_runs = False
        self.traced = 0  # the trace number of the last run
        self._decoder = protocol.Decoder()
        self._guest_ready = False  # whether the next ``exit`` message is about a guest that was ready
        self.pidfd = -1
        """The worker's, once it is known."""
        self.pid = -1
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control.setblocking(False)  # a stopped worker must not delay every run
        cgroup_fds = group.open_cgroup_fds() if group else []
        try:
            fork([theirs.fileno(), *cgroup_fds], number)
        except OSError as error:
            self.control.close()
            raise SlotError(faults.explain("ask the zygote for a worker", error), error.errno) from None
        finally:
            theirs.close()
            for fd in cgroup_fds:
                os.close(fd)

    def ask(self, command: bytes, template: TemplateFields | None) -> None:
        """Ask the worker to fork another guest (``FORK_WARMED_UP`` or ``FORK_AT_ONCE``) when this one is gone.

        ``read_messages`` yields ``set_up`` once that guest is there. ``template`` is the launch template that the guest
        will most likely need.
        """
        if template is not None and template != self._template:
            update = protocol.template_message(template)
            if len(update) <= _MAX_TEMPLATE_BYTES:
                command = protocol.SET_TEMPLATE + update + command
                self._template = template
        self._send(command)

    def fits_template(self, launch: Launch) -> bool:
        """Return whether the guest knows all of ``launch`` from the launch template, except for its source."""
        return launch.repeats and launch.template == self._template

    def order(self, launch: Launch) -> bytes:
        """Return the message that gives ``launch`` to the guest."""
        return (
            protocol.source_message(launch.source, launch.trace)
            if self.fits_template(launch)
            else protocol.order(launch)
        )

    def read_messages(self) -> Iterator[protocol.Message]:
        """Yield the messages of worker and guest. ``instance`` is set before the message ``set_up`` is yielded."""
        try:
            data, ancillary, _, _ = self.control.recvmsg(
                1 << 12, socket.CMSG_SPACE(4 * _MOST_FDS), socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return
        except OSError as error:
            raise SlotError(faults.explain("receive from a worker", error), error.errno) from None
        if not data:
            raise SlotError("it has ended")
        fds = descriptors(ancillary)
        for kind, fields in self._decoder.feed(data):
            if kind == "born":
                self._on_born(fds)
                continue
            if kind == "set_up":
                self.instance = self._new_instance(fds)
            elif kind == "exit" and not self._guest_ready:
                raise SlotError("the guest was killed while it was set up")
            self._guest_ready = kind == "set_up"
            yield kind, fields

    def _new_instance(self, fds: list[int]) -> Instance:
        if len(fds) < _LEAST_FDS:
            for fd in fds:
                os.close(fd)
            raise SlotError("the warden has too few free descriptors")
        instance = WorkerInstance(-1, fds)
        try:
            if self.pidfd < 0:
                self._learn_pid(os.dup(instance.pidfd))
        except (OSError, SlotError):
            instance.close()
            raise
        instance.init = self.pid
        return instance

    def _on_born(self, fds: list[int]) -> None:
        if self.pidfd < 0:
            self._learn_pid(fds[0] if fds else -1)
        else:  # the worker's own message came first
            os.close(fds[0])

    def _learn_pid(self, pidfd: int) -> None:
        """Keep the worker's ``pidfd``, and read its pid from it (proc(5), fdinfo of a pidfd).

        The worker cannot report its pid: in its own namespace it is 1.
        """
        if pidfd < 0:
            raise SlotError("the warden has too few free descriptors")
        self.pidfd = pidfd
        lines = files.read(f"/proc/self/fdinfo/{pidfd}").splitlines()
        self.pid = next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), -1)
        if self.pid < 0:
            raise SlotError("the worker ended before the warden could read its pid")
        self._expect_answer()

    def arm(self, groups: Groups) -> None:
        """Begin to count, and set these limits if others are set; guests of one kind usually have the same."""
        if self.group is None:
            return
        if not self._counting:
            self.group.begin(self.own_tasks)
            self._counting = True
        if self._armed != groups:
            if self._armed is not None:
                self.group.lift_limits()
            self.group.limit(groups.with_tasks(self.own_tasks))
            self._armed = groups

    @property
    def has_residual_memory(self) -> bool:
        """Whether memory that earlier runs left charged would count for the next run: see ``Group.renew``."""
        if self.group is None or not self._had_runs:
            return False
        return self.group.left_behind(cgroups.RENEWABLE) > cgroups.RENEWABLE

    def reuse(self, command: bytes, template: TemplateFields | None) -> None:
        """Forget the guest, and ask for the next. The worker forks it once every process of the run is reaped."""
        self.instance, self._counting, self._had_runs = None, False, True
        self.ask(command, template)

    @property
    def dead(self) -> bool:
        """Whether the worker has ended."""
        return self.pidfd < 0 or processes.is_dead(self.pidfd)

    def kill(self) -> None:
        """Kill the worker, and with it everything in its PID namespace."""
        if self.pidfd < 0:
            return
        try:
            processes.kill(self.pidfd)
        except OSError:
            if not self.dead:  # alive, so no other process has its pid
                os.kill(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Start to end the worker; ``is_gone`` says when it is dead."""
        self.control.close()
        try:
            self.kill()
        except OSError:
            pass  # the worker ends when it sees the closed socket, or dies with its zygote
        if self.instance is not None:
            self.instance.close()
            self.instance = None

    def is_gone(self) -> bool:
        """Return whether every process of the worker is dead."""
        if self.pidfd < 0:
            return True
        if not self.dead:
            return False
        os.close(self.pidfd)
        self.pidfd = -1
        return True

    def abandon(self) -> None:
        """Stop waiting for a worker that did not end in time."""
        os.close(self.pidfd)
        self.pidfd = -1
