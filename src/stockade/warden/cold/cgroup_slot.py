"""A cgroup slot: control groups for one run at a time, and the spawner that makes instances inside them.

A process enters a group by being born in it. Moving a process in waits for a grace period of the kernel, up to 10 ms.
Meanwhile no process of the whole machine can be made, executed or ended. So a spawner enters its groups once, and
every instance is its child.
"""

from __future__ import annotations

import _socket as socket
import errno
import os
import time

from stockade.core.launch import Groups
from stockade.linux import cgroups, faults
from stockade.warden import protocol
from stockade.warden.cold.instance import Instance, descriptors
from stockade.warden.cold.spawner import FDS, Spawner
from stockade.warden.helper_liveness import Helper

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence

    from stockade.core.launch import Launch
else:
    import _signal as signal

_KEPT = 2
"""Idle slots that stay for good. More exist after several runs at the same time."""
_IDLE_SECONDS = 10.0
"""The pool ends an idle slot above that number when it was unused for this long."""


class SlotError(Exception):
    """The spawner failed to make an instance, or is gone. ``errno`` is the kernel's reason, if the kernel gave one."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.errno = number


class SlotLostError(SlotError):
    """The spawner is gone."""


class CgroupSlot:
    """The warden's side of a slot: requests an instance, receives it, and makes the slot fit for the next run."""

    own_tasks = 2
    """Tasks in the groups that are not the guest's: the spawner and the instance's init."""
    pid: int
    """The process that stays in the groups between runs."""
    used = 0.0
    """The time when the slot was made or came back from a run, by the monotonic clock."""
    asked = 0.0
    """The time of the last request that has no answer yet."""
    helper: Helper
    """The process that owes the answer."""
    role = "the process that makes sandboxes"

    def __init__(self, *, warden: int, privileged: bool, uid: int | None, group: cgroups.Group | None) -> None:
        """Fork the spawner. ``warden`` is the warden's pidfd, ``uid`` the host uid leased for this slot."""
        self.uid = uid
        self.group = group
        self.instance: Instance | None = None
        self.base = b""
        self.without_namespaces = False
        self.groups = Groups()
        self._armed: Groups | None = None
        self._killed = False
        self._decoder = protocol.Decoder()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control.setblocking(False)  # a stopped spawner must not delay every run
        cgroup_fds = group.open_cgroup_fds() if group else []
        try:
            self.pid = os.fork()
            if self.pid == 0:
                Spawner(theirs, privileged=privileged, warden=warden, cgroup_fds=cgroup_fds).run()
        except OSError:
            self.control.close()
            raise
        finally:
            theirs.close()
            for fd in cgroup_fds:
                os.close(fd)

    def tasks(self) -> int | None:
        """Return the number of the run's tasks in the groups now, or ``None`` if no group counts tasks."""
        held = None if self.group is None else self.group.look()
        return None if held is None else held - self.own_tasks

    def holds_one(self) -> bool:
        """Return whether the run has no process but the guest's first one, dead or alive; ``False`` if unknown.

        The tasks are counted first. If the first process is unreaped after that, it was the one counted.
        """
        tasks = self.tasks()
        return tasks is not None and self.instance is not None and self.instance.has_guest() and tasks <= 1

    def order(self, launch: Launch) -> bytes:
        """Return the message that gives ``launch`` to the process that waits in the instance."""
        return protocol.order(launch)

    def request(
        self,
        base: bytes,
        groups: Groups,
        *,
        own_network: bool,
        without_namespaces: bool = False,
        uid: int | None = None,
        lives: bool = False,
    ) -> None:
        """Request an instance that has applied ``base``; ``receive`` takes it once the control socket is readable.

        ``groups`` are the limits that its run will most likely have.
        """
        self.base, self.groups, self.without_namespaces = base, groups, without_namespaces
        uid = self.uid if uid is None else uid
        how = {"own_network": own_network, "without_namespaces": without_namespaces, "uid": uid, "lives": lives}
        self._send(protocol.encode("make", base=base, **how))

    def _expect_answer(self) -> None:
        self.asked = time.monotonic()
        self.helper = Helper(self.pid, self.role, self.asked)

    def _send(self, message: bytes) -> None:
        """Send the spawner a message. The socket has space for it, because only one request is open at a time."""
        self._expect_answer()
        try:
            if self.control.send(message) == len(message):
                return
            reason = "its socket accepts no message"
        except OSError as error:
            reason = str(error.strerror)
        raise SlotLostError(f"the process that makes its sandboxes (pid {self.pid}) is lost: {reason}")

    def receive(self) -> str:
        """Receive the answer to the last request.

        Returns ``"made"`` after storing the new instance, or ``"reaped"``. Raises ``SlotError`` with the reason if the
        spawner made no instance, and ``SlotLostError`` if the spawner is gone.
        """
        try:
            data, ancillary, _, _ = self.control.recvmsg(1 << 12, socket.CMSG_SPACE(4 * FDS), socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise SlotLostError(f"its control socket failed: {error}") from None
        fds = descriptors(ancillary)
        for kind, fields in self._decoder.feed(data):
            if kind == "reaped":
                return kind
            if kind == "made" and len(fds) == FDS:
                self.instance = Instance(fields["init"], fds, without_namespaces=self.without_namespaces)
                return kind
            if kind == "made":
                none = OSError(errno.EMFILE, f"recvmsg: {os.strerror(errno.EMFILE)}")
                raise SlotError(faults.explain("take the descriptors of a sandbox", none), errno.EMFILE)
            raise SlotError(str(fields.get("message")), fields.get("errno"))
        raise SlotLostError("it has ended")

    def arm(self, groups: Groups) -> None:
        """Set these limits and begin to count, unless that happened ahead of demand. The instance must be ready."""
        if self.group is None or self._armed == groups:
            return
        if self._armed is not None:
            self.group.lift_limits()
        self.group.begin(self.own_tasks)
        self.group.limit(groups.with_tasks(self.own_tasks))
        self._armed = groups

    def ask_renewal(self) -> bool:
        """Ask the spawner to reap the dead instance; return whether the request was sent.

        ``receive`` returns ``"reaped"`` when the spawner has done so.
        """
        instance, self.instance = self.instance, None
        self._armed = None
        if instance is None:
            return False
        try:
            self._send(protocol.encode("reap", init=instance.init))
        except SlotError:
            return False
        return True

    def renew(self) -> bool:
        """Make the empty groups ready for another run; return whether they are."""
        return self.group is None or self.group.renew({self.pid})

    def end(self) -> None:
        """Start to end the spawner and everything it made; ``is_gone`` says when they are dead."""
        self.control.close()
        if self.instance is not None:
            self.instance.dismiss()

    def is_gone(self) -> bool:
        """Return whether every process of the slot is dead."""
        if self.instance is not None:
            if not self.instance.gone():
                return False
            self.instance.close()
            self.instance = None
        try:
            if not self._killed:
                os.kill(self.pid, signal.SIGKILL)  # our child, not reaped yet, so no other process has its pid
                self._killed = True
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except (ChildProcessError, ProcessLookupError):
            return True

    def abandon(self) -> None:
        """Kill the processes that did not end in time, and stop waiting for them."""
        for pid in (self.pid, *([] if self.instance is None else [self.instance.init])):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if self.instance is not None:
            self.instance.close()
            self.instance = None


def idle_until(slots: Sequence[CgroupSlot]) -> float:
    """Return when to end the first of these idle slots, which are sorted by last use."""
    return slots[0].used + _IDLE_SECONDS if len(slots) > _KEPT else float("inf")
