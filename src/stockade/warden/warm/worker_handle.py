"""A slot whose cells are copies of a warm interpreter: its keeper takes the place of nursery and init at once."""

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
"""Descriptors of a guest's place; see ``WorkerInstance``."""
_MAX_TEMPLATE_BYTES = 1 << 14
"""Bytes that are worth it, and that any socket has room for."""


class WorkerHandle(CgroupSlot):
    """The warden's side. It is made in the moment in which the warm interpreter is told to."""

    own_tasks = 1
    role = "the copy of a warm interpreter that makes guests"

    def __init__(
        self,
        copy: Callable[[list[int], int], None],
        pool: WorkerPool,
        *,
        number: int,
        uid: int | None,
        group: cgroups.Group | None,
    ) -> None:
        """``copy`` has the warm interpreter make a copy for this slot, which is one of ``pool``. ``number`` is what the
        interpreter's user namespace calls ``uid``; 0 where there is one uid only."""
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
        self.traced = 0  # the number of the last run that was handed to it
        self._decoder = protocol.Decoder()
        self._guest_ready = False  # the guest whose end is told of next
        self.pidfd = -1
        """The keeper's, when it has made itself known."""
        self.pid = -1
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control.setblocking(False)  # a keeper that stands still must not hold up every run
        cgroup_fds = group.open_cgroup_fds() if group else []
        try:
            copy([theirs.fileno(), *cgroup_fds], number)
        except OSError as error:
            self.control.close()
            raise SlotError(faults.explain("ask the warm interpreter for a copy", error), error.errno) from None
        finally:
            theirs.close()
            for fd in cgroup_fds:
                os.close(fd)

    def ask(self, word: bytes, template: TemplateFields | None) -> None:
        """Ask the worker to fork another guest (``FORK_WARMED_UP`` or ``FORK_AT_ONCE``) when this one is gone.

        ``read_messages`` returns the guest once the control socket is readable. ``template`` is the launch template
        that the guest most likely gets.
        """
        if template is not None and template != self._template:
            news = protocol.template_message(template)
            if len(news) <= _MAX_TEMPLATE_BYTES:
                word = protocol.SET_TEMPLATE + news + word
                self._template = template
        self._send(word)

    def fits_template(self, launch: Launch) -> bool:
        """Return whether the guest was made for launches of this form, and need be told no more than the source."""
        return launch.repeats and launch.template == self._template

    def order(self, launch: Launch) -> bytes:
        """Return what the guest is to be told of ``launch``."""
        return (
            protocol.source_message(launch.source, launch.trace)
            if self.fits_template(launch)
            else protocol.order(launch)
        )

    def read_messages(self) -> Iterator[protocol.Message]:
        """Yield what keeper and guest-to-be have to say. ``instance`` is there when the latter says ``furnished``."""
        try:
            data, ancillary, _, _ = self.control.recvmsg(
                1 << 12, socket.CMSG_SPACE(4 * _MOST_FDS), socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return
        except OSError as error:
            raise SlotError(faults.explain("hear the copy of a warm interpreter", error), error.errno) from None
        if not data:
            raise SlotError("it has ended")
        fds = descriptors(ancillary)
        for kind, fields in self._decoder.feed(data):
            if kind == "born":
                self._keep(fds)
                continue
            if kind == "set_up":
                self.instance = self._place(fds)
            elif kind == "exit" and not self._guest_ready:
                raise SlotError("it was killed while it was made")
            self._guest_ready = kind == "set_up"
            yield kind, fields

    def _place(self, fds: list[int]) -> Instance:
        if len(fds) < _LEAST_FDS:
            for fd in fds:
                os.close(fd)
            raise SlotError("too few descriptors are free")
        place = WorkerInstance(-1, fds)
        try:
            if self.pidfd < 0:
                self._learn_pid(os.dup(place.pidfd))
        except (OSError, SlotError):
            place.close()
            raise
        place.init = self.pid
        return place

    def _keep(self, fds: list[int]) -> None:
        if self.pidfd < 0:
            self._learn_pid(fds[0] if fds else -1)
        else:  # the keeper was faster
            os.close(fds[0])

    def _learn_pid(self, pidfd: int) -> None:
        """Keep the keeper's ``pidfd``, and learn its pid here, which it does not know itself (proc(5), fdinfo of a
        pidfd)."""
        if pidfd < 0:
            raise SlotError("too few descriptors are free")
        self.pidfd = pidfd
        lines = files.read(f"/proc/self/fdinfo/{pidfd}").splitlines()
        self.pid = next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), -1)
        if self.pid < 0:
            raise SlotError("the copy of a warm interpreter has ended before it was looked at")
        self._expect_answer()

    def arm(self, groups: Groups) -> None:
        """Begin to count, and set these limits where others were set: a guest of the same kind had the same."""
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
        """Whether what earlier runs have left charged would count for the next one: see ``Group.renew``."""
        if self.group is None or not self._had_runs:
            return False
        return self.group.left_behind(cgroups.RENEWABLE) > cgroups.RENEWABLE

    def is_armed_with(self, groups: Groups) -> bool:
        """Return whether these limits are set."""
        return self.group is None or self._armed == groups

    def reuse(self, word: bytes, template: TemplateFields | None) -> None:
        """Let go of the guest, and ask for the next: its keeper makes it when the last process is reaped."""
        self.instance, self._counting, self._had_runs = None, False, True
        self.ask(word, template)

    @property
    def dead(self) -> bool:
        """Whether the keeper has ended."""
        return self.pidfd < 0 or processes.is_dead(self.pidfd)

    def kill(self) -> None:
        """Kill the keeper, and with it all that is in its PID namespace."""
        if self.pidfd < 0:
            return
        try:
            processes.kill(self.pidfd)
        except OSError:
            if not self.dead:  # so the number is still its own
                os.kill(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Have the keeper end; ``is_gone`` tells when that is so."""
        self.control.close()
        try:
            self.kill()
        except OSError:
            pass  # it sees that the socket is closed, or dies with the warm interpreter
        if self.instance is not None:
            self.instance.close()
            self.instance = None

    def is_gone(self) -> bool:
        """Return whether no process of the slot is left."""
        if self.pidfd < 0:
            return True
        if not self.dead:
            return False
        os.close(self.pidfd)
        self.pidfd = -1
        return True

    def abandon(self) -> None:
        """Let go of what has not ended in time."""
        os.close(self.pidfd)
        self.pidfd = -1
