"""A slot: control groups for one run at a time, and the nursery that makes its cells inside them.

A process enters a group by being born in it. Moving one in waits for a grace period of the kernel, up to 10 ms, during
which no process of the whole machine can be made, executed or ended; so a slot's nursery enters once, and every cell
is its child.
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
"""Spare slots that stay: more are there when more runs have come at a time,"""
_IDLE_SECONDS = 10.0
"""and are given back when they have not been used for so long."""


class SlotError(Exception):
    """The nursery could not make a cell, or is gone. ``errno`` is the kernel's reason, where there is one."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.errno = number


class SlotLostError(SlotError):
    """The nursery is gone."""


class CgroupSlot:
    """The warden's side: asks for a cell, takes it, and makes the slot fit for the next."""

    own_tasks = 2
    """Tasks in the groups that are not the guest's: the nursery and the cell's init."""
    pid: int
    """The process that stays in the groups between runs."""
    used = 0.0
    """When it was made, or came back from a run, by the monotonic clock."""
    asked = 0.0
    """When something was asked of it that it has not answered yet."""
    helper: Helper
    """The process that is to answer."""
    role = "the process that makes sandboxes"

    def __init__(self, *, warden: int, privileged: bool, uid: int | None, group: cgroups.Group | None) -> None:
        """Fork the nursery. ``warden`` is the warden's pidfd, ``uid`` the host uid leased for this slot."""
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
        self.control.setblocking(False)  # a nursery that stands still must not hold up every run
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
        """Return how many tasks of a run its groups hold now; ``None`` where nothing counts them."""
        held = None if self.group is None else self.group.look()
        return None if held is None else held - self.own_tasks

    def holds_one(self) -> bool:
        """Return whether the guest's first process, dead or alive, is all that there is of a run, where that is known.
        It was counted if it has not been reaped after that: else the one counted in its place is a child of it."""
        tasks = self.tasks()
        return tasks is not None and self.instance is not None and self.instance.has_guest() and tasks <= 1

    def order(self, launch: Launch) -> bytes:
        """Return what the process that waits in the cell is to be told of ``launch``."""
        return protocol.order(launch)

    def request(
        self,
        base: bytes,
        groups: Groups,
        *,
        own_network: bool,
        without_namespaces: bool = False,
        uid: int | None = None,
    ) -> None:
        """Ask for a cell furnished with ``base``; ``receive`` gives it when the control socket can be read.

        ``groups`` are the limits that its run will most likely have.
        """
        self.base, self.groups, self.without_namespaces = base, groups, without_namespaces
        uid = self.uid if uid is None else uid
        self._say(
            protocol.encode("make", base=base, own_network=own_network, without_namespaces=without_namespaces, uid=uid)
        )

    def _expect_answer(self) -> None:
        self.asked = time.monotonic()
        self.helper = Helper(self.pid, self.role, self.asked)

    def _say(self, message: bytes) -> None:
        """Send the nursery a message, which it has room for: there is one at a time."""
        self._expect_answer()
        try:
            if self.control.send(message) == len(message):
                return
            reason = "it takes no message"
        except OSError as error:
            reason = str(error)
        raise SlotLostError(f"the process that makes its sandboxes (pid {self.pid}) is gone: {reason}")

    def receive(self) -> str:
        """Take the answer to what was asked: ``"made"``, and the cell is there, or ``"reaped"``. Raises ``SlotError``
        with the reason if there is no cell, ``SlotLostError`` if the nursery is gone."""
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
        """Set these limits and begin to count, unless that was done ahead of demand. The cell must be ready."""
        if self.group is None or self._armed == groups:
            return
        if self._armed is not None:
            self.group.lift_limits()
        self.group.begin(self.own_tasks)
        self.group.limit(groups.with_tasks(self.own_tasks))
        self._armed = groups

    def ask_renewal(self) -> bool:
        """Let go of the dead cell and have it reaped; return whether the nursery was told. ``receive`` tells when that
        is done."""
        instance, self.instance = self.instance, None
        self._armed = None
        if instance is None:
            return False
        try:
            self._say(protocol.encode("reap", init=instance.init))
        except SlotError:
            return False
        return True

    def renew(self) -> bool:
        """Make the groups ready for another run, now that nothing is left in them; return whether they are."""
        return self.group is None or self.group.renew({self.pid})

    def end(self) -> None:
        """Have the nursery end, and with it whatever it made; ``is_gone`` tells when that is so."""
        self.control.close()
        if self.instance is not None:
            self.instance.dismiss()

    def is_gone(self) -> bool:
        """Return whether no process of the slot is left."""
        if self.instance is not None:
            if not self.instance.gone():
                return False
            self.instance.close()
            self.instance = None
        try:
            if not self._killed:
                os.kill(self.pid, signal.SIGKILL)  # our child, and not reaped yet, so the number is still its own
                self._killed = True
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except (ChildProcessError, ProcessLookupError):
            return True

    def abandon(self) -> None:
        """Kill what has not ended in time, and let go of it."""
        for pid in (self.pid, *([] if self.instance is None else [self.instance.init])):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if self.instance is not None:
            self.instance.close()
            self.instance = None


def idle_until(slots: Sequence[CgroupSlot]) -> float:
    """Return when the first of these spare slots, in the order of their last use, is to be given back."""
    return slots[0].used + _IDLE_SECONDS if len(slots) > _KEPT else float("inf")
