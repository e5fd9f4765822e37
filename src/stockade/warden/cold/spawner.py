"""The spawner: a process of the warden that lives in a run's control groups and makes instances there."""

from __future__ import annotations

import _socket as socket
import os

from stockade.linux import descendants, faults, processes
from stockade.warden import protocol, stdio
from stockade.warden.cold import init as inside
from stockade.warden.cold.exec_server import ExecServer
from stockade.warden.cold.instance import send_with
from stockade.warden.cold.reaper import Reaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

FDS = 6
"""Descriptors of an instance: its init's pidfd, the control socket, and the warden's end of four pipes."""
_NOTE = os.O_CLOEXEC | os.O_NONBLOCK
_NAMESPACES = processes.NEW_NS | processes.NEW_PID | processes.NEW_IPC | processes.NEW_UTS


class Spawner:
    """Makes instances on request, and reaps their inits."""

    def __init__(self, control: socket.socket, *, privileged: bool, warden: int, cgroup_fds: Sequence[int]) -> None:
        self._control = control
        self._privileged = privileged
        self._warden = warden
        self._cgroup_fds = cgroup_fds
        self._pin = -1
        self._without_namespaces = False

    def run(self) -> NoReturn:
        """Serve requests until the warden ends or closes the socket."""
        try:
            processes.close_all_but((2, self._warden, self._control.fileno(), *self._cgroup_fds))
            processes.die_with(self._warden)
            for fd in self._cgroup_fds:
                os.write(fd, b"0")
                os.close(fd)
            self._self = os.pidfd_open(os.getpid())
            decoder = protocol.Decoder()
            while data := self._control.recv(1 << 16):
                for kind, fields in decoder.feed(data):
                    self._handle(kind, fields)
        except OSError as error:
            self._send(
                "failed", message=faults.explain("start the process that makes sandboxes", error), errno=error.errno
            )
        os._exit(0)

    def _handle(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "reap":
            os.waitpid(fields["init"], 0)
            if self._without_namespaces:
                descendants.end_all()  # finds nothing, unless someone outside has killed the reaper
            self._send("reaped")
            if self._pin >= 0:
                os.close(self._pin)
                self._pin = -1
            return
        self._without_namespaces = fields["without_namespaces"]
        if self._without_namespaces:
            processes.adopt_orphans()
        try:
            init, fds = make(
                privileged=self._privileged,
                parent=self._self,
                base=fields["base"],
                own_network=fields["own_network"],
                without_namespaces=fields["without_namespaces"],
                uid=fields["uid"],
                lives=fields["lives"],
            )
        except OSError as error:
            self._send("failed", message=faults.explain("make namespaces", error), errno=error.errno)
            return
        self._pin = _pin_mounts(init)
        send_with(self._control, protocol.encode("made", init=init), fds)
        for fd in fds:
            os.close(fd)

    def _send(self, kind: str, **fields: Any) -> None:
        try:
            self._control.sendall(protocol.encode(kind, **fields))
        except OSError:
            os._exit(1)


def _pin_mounts(pid: int) -> int:
    """Return a descriptor that keeps an instance's mount namespace beyond its last process, or -1.

    The kernel may need milliseconds to take the mounts down. Without the pin, that delays the report of the process's
    end. The pin changes nothing else.
    """
    try:
        return os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def make(
    *,
    privileged: bool,
    parent: int,
    base: bytes,
    own_network: bool,
    without_namespaces: bool,
    uid: int | None,
    lives: bool = False,
) -> tuple[int, list[int]]:
    """Fork an instance that applies ``base``; return its init's pid and the warden's descriptors of it.

    ``parent`` is the calling process's own pidfd. ``uid`` is the leased host uid if root starts the run. ``lives`` asks
    for a living instance.
    """
    flags = _NAMESPACES | (processes.NEW_NET if own_network else 0) | (0 if privileged else processes.NEW_USER)
    if without_namespaces:
        flags, privileged = 0, os.geteuid() == 0
    own_ends, guest_ends = stdio.open_pipes(uid if privileged else None)
    control, guest_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    notes = {"place": os.pipe2(_NOTE), "status": os.pipe2(_NOTE)} if without_namespaces else {}
    kind: type[inside.Init] = Reaper if without_namespaces else ExecServer if lives else inside.Init
    instance = kind(
        privileged=privileged,
        parent=parent,
        ends=guest_ends,
        control=guest_control,
        uid=uid if uid is not None else os.geteuid(),
        gid=uid if uid is not None else os.getegid(),
        base=base,
        lives=lives,
        **notes,
    )
    try:
        pid = processes.clone(flags)
    except OSError:
        control.close()
        for fd in own_ends:
            os.close(fd)
        raise
    else:
        if pid == 0:
            instance.run()
    finally:
        guest_control.close()
        for fd in (*guest_ends, *(end for pipe in notes.values() for end in pipe)):
            os.close(fd)
    return pid, [os.pidfd_open(pid), control.detach(), *own_ends]
