"""The warden's side of one container, whether a run has it or it still waits for one."""

from __future__ import annotations

import os

from stockade.linux import processes
from stockade.linux.cgroups import engine_group
from stockade.warden import loop
from stockade.warden.containers.run_folder import RunFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from stockade.core.launch import ContainerOrder
    from stockade.linux.cgroups.engine_group import EngineGroup
    from stockade.warden.containers.containers import Containers
else:
    Protocol = object

_CHUNK = 4096
NEEDS = (
    "the image needs /bin/sh and cp, and the engine must run on this host, see its /tmp and share its PID namespace "
    "(docs/backends/docker.md)"
)


class Listener(Protocol):
    """The owner of a container: a run, or the pool. All calls come from the loop."""

    def on_ready(self) -> None:
        """Learn that engine and first process are ready: the container waits for a job."""

    def on_report(self, word: str, rest: str) -> None:
        """Take a later report of the container's first process: untrusted."""

    def on_trouble(self, message: str) -> None:
        """Learn that the container cannot be used."""

    def on_inspected(self, *, ran_out: bool) -> None:
        """Learn whether the dead container had run out of memory, by the engine's word."""

    def on_death(self) -> None:
        """Learn that everything in the container's PID namespace is dead, by the kernel's word."""

    def on_removed(self) -> None:
        """Learn that the engine has removed the container, or that the engine client is gone."""


class Watching(Protocol):
    """The loop, or the loop as one run sees it."""

    def watch(self, fd: int, events: int, callback: Any) -> None:
        """See ``Loop.watch``."""

    def forget(self, fd: int) -> None:
        """See ``Loop.forget``."""


class ContainerHandle:
    """A container: asks the engine client for it, and listens to its first process."""

    head = 0
    """The pid of its first process; 0 until the engine has started it."""
    pidfd = -1
    group: EngineGroup | None = None
    is_ready = is_removed = is_killed = False
    _listener: Listener

    def __init__(self, containers: Containers, number: int, order: ContainerOrder, owner: str) -> None:
        """Make the folder. Raises ``OSError``. ``owner`` is the process that will remove the container."""
        self._containers, self._number = containers, number
        self.order = order.without_job()
        self.folder = RunFolder(order, owner)
        self._reports = b""
        self._is_requested = self._is_waiting = False
        self._trouble = ""

    def request(self) -> None:
        """Have the engine make and start the container, unless that was requested before."""
        if self._is_requested:
            return
        self._is_requested = True
        self._containers.send("start", self._number, token=self.folder.token, order=self.order.as_dict())

    def attach(self, events: Watching, listener: Listener) -> None:
        """Tell ``listener`` what happens from now on, and first what it has missed."""
        self._loop, self._listener = events, listener
        self._loop.watch(self.folder.reports, loop.READ, self._on_reports)
        if self.pidfd >= 0:
            self._loop.watch(self.pidfd, loop.READ, self._on_death)
        if self._trouble:
            listener.on_trouble(self._trouble)
        elif self.is_ready:
            listener.on_ready()

    # -- the engine --------------------------------------------------------------------------------------------

    def on_engine(self, kind: str, fields: dict[str, Any]) -> None:
        """Take a report of the engine client."""
        if kind == "started":
            self._on_started(fields["id"], fields["pid"])
        elif kind == "failed":
            self._fail(fields["message"])
        elif kind == "inspected":
            self._listener.on_inspected(ran_out=fields["oom"] and not fields["running"])
        elif kind == "removed":
            self.is_removed = True
            self._listener.on_removed()

    def _on_started(self, container: str, pid: int) -> None:
        if self.is_killed:
            return
        found = _find(container, pid)
        if found is None:
            self._fail(
                f"the container's first process (pid {pid} by the engine's count) has ended, or is not visible here; "
                f"{NEEDS}"
            )
            return
        self.pidfd, self.group = found
        self.head = pid
        self._loop.watch(self.pidfd, loop.READ, self._on_death)
        self._look_whether_ready()

    def _look_whether_ready(self) -> None:
        if self._is_waiting and self.head and not self.is_ready:
            self.folder.are_open_inside()
            self.is_ready = True
            self._listener.on_ready()

    def _fail(self, message: str) -> None:
        self._trouble = self._trouble or message
        self._listener.on_trouble(message)

    # -- the first process -------------------------------------------------------------------------------------

    def _on_reports(self, _events: int) -> None:
        self.poll()

    def poll(self) -> bool:
        """Read reports of the first process. Return whether more may come."""
        if self.folder.reports < 0:
            return False
        try:
            data = os.read(self.folder.reports, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data or len(self._reports) > _CHUNK:
            self._loop.forget(self.folder.reports)
            return False
        *lines, self._reports = (self._reports + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode("ascii", "replace").partition(" ")
            if word == "ready" and not self._is_waiting:
                self._is_waiting = True
                self._look_whether_ready()
            else:
                self._listener.on_report(word, rest)
        return True

    def say(self, word: str) -> None:
        """Send a word to the first process. Raises ``OSError`` if it is gone."""
        os.write(self.folder.orders, f"{word}\n".encode())

    # -- the end -----------------------------------------------------------------------------------------------

    def _on_death(self, _events: int) -> None:
        self._loop.forget(self.pidfd)
        while self.poll():
            pass
        self._listener.on_death()

    @property
    def is_dead(self) -> bool:
        """Whether the first process is dead, although the loop may not have heard of it yet."""
        return self.pidfd >= 0 and processes.is_dead(self.pidfd)

    def kill(self) -> None:
        """Kill the container's first process. The kernel takes its whole PID namespace along."""
        self.is_killed = True
        if self.pidfd < 0:
            self._containers.send("remove", self._number)
            return
        try:
            processes.kill(self.pidfd)
        except PermissionError:  # a member of the engine's group who is not root
            self._containers.send("kill", self._number)

    def inspect(self) -> None:
        """Ask the engine about the dead container."""
        self._containers.send("inspect", self._number)

    def release(self) -> None:
        """Give back everything. The engine client removes the container, dead or alive."""
        if self.folder.reports >= 0:
            self._loop.forget(self.folder.reports)
        self.folder.close()
        if self.pidfd >= 0:
            self._loop.forget(self.pidfd)
            os.close(self.pidfd)
            self.pidfd = -1
        if self.group is not None:
            self.group.close()
        self._containers.send("remove", self._number)
        self._containers.forget(self._number)


def _find(container: str, pid: int) -> tuple[int, EngineGroup] | None:
    """Return pidfd and groups of the container's first process, if it lives and is certainly the container's."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        group = engine_group.find(pid, container)
    except OSError:
        group = None
    if group is None or processes.is_dead(pidfd):  # a dead one's pid may be another's by now
        os.close(pidfd)
        return None
    return pidfd, group
