"""A slot: control groups for one run at a time, and the nursery that makes its cells inside them.

A process enters a group by being born in it. Moving one in waits for a grace period of the kernel, up to 10 ms, during
which no process of the whole machine can be made, executed or ended; so a slot's nursery enters once, and every cell
is its child.
"""

from __future__ import annotations

import _socket as socket
import os

from stockade._launch import Groups
from stockade.linux import cgroups, processes
from stockade.warden import wire
from stockade.warden.cell import Cell, descriptors
from stockade.warden.nursery import FDS, Nursery

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence

    from stockade._launch import Launch
else:
    import _signal as signal

END_SECONDS = 5.0
ANSWER_SECONDS = 5.0
_KEPT = 2
"""Spare slots that stay: more are there when more runs have come at a time,"""
_SPARE_SECONDS = 10.0
"""and are given back when they have not been used for so long."""


class SlotError(Exception):
    """The nursery could not make a cell, or is gone."""


class Slot:
    """The warden's side: asks for a cell, takes it, and makes the slot fit for the next."""

    own_tasks = 2
    """Tasks in the groups that are not the guest's: the nursery and the cell's init."""
    pid: int
    """The process that stays in the groups between runs."""
    used = 0.0
    """When it was made, or came back from a run, by the monotonic clock."""

    def __init__(self, *, warden: int, privileged: bool, uid: int | None, group: cgroups.Group | None) -> None:
        """Fork the nursery. ``warden`` is the warden's pidfd, ``uid`` the host uid leased for this slot."""
        self.uid = uid
        self.group = group
        self.cell: Cell | None = None
        self.base = b""
        self.bare = False
        self.groups = Groups()
        self._armed: Groups | None = None
        self._decoder = wire.Decoder()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control.settimeout(ANSWER_SECONDS)  # a nursery that says nothing must not hold up every run
        entrances = group.open_entrances() if group else []
        try:
            self.pid = os.fork()
            if self.pid == 0:
                Nursery(theirs, privileged=privileged, warden=warden, entrances=entrances).run()
        except OSError:
            self.control.close()
            raise
        finally:
            theirs.close()
            for fd in entrances:
                os.close(fd)

    def tasks(self) -> int | None:
        """Return how many tasks of a run its groups hold now; ``None`` where nothing counts them."""
        held = None if self.group is None else self.group.look()
        return None if held is None else held - self.own_tasks

    def holds_one(self) -> bool:
        """Return whether the guest's first process, dead or alive, is all that there is of a run, where that is known.
        It was counted if it has not been reaped after that: else the one counted in its place is a child of it."""
        tasks = self.tasks()
        return tasks is not None and self.cell is not None and self.cell.has_guest() and tasks <= 1

    def order(self, launch: Launch) -> bytes:
        """Return what the process that waits in the cell is to be told of ``launch``."""
        return wire.order(launch)

    def request(
        self, base: bytes, groups: Groups, *, own_network: bool, bare: bool = False, uid: int | None = None
    ) -> None:
        """Ask for a cell furnished with ``base``; ``receive`` gives it when the control socket can be read.

        ``groups`` are the limits that its run will most likely have.
        """
        self.base, self.groups, self.bare = base, groups, bare
        uid = self.uid if uid is None else uid
        message = wire.encode("make", base=base, own_network=own_network, bare=bare, uid=uid)
        try:
            self.control.sendall(message)
        except OSError as error:
            raise SlotError(f"the nursery is gone: {error}") from None

    def receive(self) -> Cell:
        """Return the cell that was asked for; raise ``SlotError`` with the reason if there is none."""
        try:
            data, ancillary, _, _ = self.control.recvmsg(1 << 12, socket.CMSG_SPACE(4 * FDS), socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise SlotError(f"the nursery is gone: {error}") from None
        fds = descriptors(ancillary)
        for kind, fields in self._decoder.feed(data):
            if kind == "made" and len(fds) == FDS:
                self.cell = Cell(fields["init"], fds, bare=self.bare)
                return self.cell
            raise SlotError(str(fields.get("message", "too few descriptors are free")))
        raise SlotError("the nursery has ended")

    def arm(self, groups: Groups) -> None:
        """Set these limits and begin to count, unless that was done ahead of demand. The cell must be ready."""
        if self.group is None or self._armed == groups:
            return
        if self._armed is not None:
            self.group.lift_limits()
        self.group.begin(self.own_tasks)
        self.group.limit(groups.with_tasks(self.own_tasks))
        self._armed = groups

    def renew(self) -> bool:
        """Let go of the dead cell and return whether the slot can be used again."""
        cell, self.cell = self.cell, None
        self._armed = None
        try:
            if cell is not None:
                self.control.sendall(wire.encode("reap", init=cell.init))
                if self.control.recv(1 << 12) != wire.encode("reaped"):
                    return False
        except OSError:
            return False
        return self.group is None or self.group.renew({self.pid})

    def close(self) -> None:
        """End the nursery, and with it whatever it made; wait for the kernel to have done so."""
        self.control.close()
        if self.cell is not None:
            self.cell.dismiss()
            processes.wait_for_end(self.cell.pidfd, END_SECONDS)
            self.cell.close()
            self.cell = None
        os.kill(self.pid, signal.SIGKILL)  # our child, and not reaped yet, so the number is still its own
        os.waitpid(self.pid, 0)


def spare_until(slots: Sequence[Slot]) -> float:
    """Return when the first of these spare slots, in the order of their last use, is to be given back."""
    return slots[0].used + _SPARE_SECONDS if len(slots) > _KEPT else float("inf")
