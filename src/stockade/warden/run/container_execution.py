"""The execution of a guest in a container of an engine: no process of it descends from the warden.

The engine makes the container and holds its limits. The warden sees the container's processes and control groups, since
both are on this host; it reads the counters there, and ends the container by its pidfd. What only the engine can do
goes through the engine client. The first process of the container is a shell of ours. It reports over a pipe that the
guest could write to as well. So its report decides only the exit status, which is the guest's own word anyway.
"""

from __future__ import annotations

import os
import time

from stockade.linux import descendants, faults, processes, tree
from stockade.linux.cgroups import engine_group
from stockade.warden import loop
from stockade.warden.run import execution as requests
from stockade.warden.run.guest_processes import GuestProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any

    from stockade.core.launch import Launch
    from stockade.linux.cgroups.engine_group import EngineGroup
    from stockade.linux.tree import Sample
    from stockade.warden.containers.containers import Containers
    from stockade.warden.containers.run_folder import RunFolder
    from stockade.warden.proxy.handle import ProxyHandle
    from stockade.warden.run.execution import Callbacks
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

GO = b"go\n"
_CHUNK = 4096
_SIGNALS = frozenset(map(int, signal.valid_signals()))
_NEVER = float("inf")
_NEEDS = (
    "the image needs /bin/sh and cp, and the engine must run on this host, see its /tmp and share its PID namespace "
    "(docs/backends/docker.md)"
)


class _Unattended:
    """Answers for an execution that has no helper of the warden's between it and the guest."""

    head = 0

    def sample(self, bound: int | None) -> Sample:
        """Return memory, CPU time and tasks below the container's first process, from /proc."""
        return tree.sample(self.head, bound)

    def check(self, now: float, *, starting: bool) -> float:  # noqa: ARG002
        """Return that there is no helper to look after: a dead one is an event of the loop."""
        return _NEVER

    def standing_still(self) -> str:
        """Return an empty text: no helper of the warden's stands between it and the end of the container."""
        return ""

    def tasks(self) -> int | None:
        """Return ``None``: only a worker is asked."""
        return None

    def holds_one(self) -> bool:
        """Return ``False``: only a worker is asked."""
        return False

    def measure(self) -> dict[str, Any]:
        """Return no measurements: the control groups have them all."""
        return {}


class ContainerExecution(_Unattended):
    """A guest in a container. It begins when both the engine and the container's first process are ready."""

    lasting = may_start_again = False
    own_tasks = 1
    name = "the container"
    uid: int | None = None
    proxy: ProxyHandle | None = None
    group: EngineGroup | None = None
    _callbacks: Callbacks

    def __init__(
        self, events: loop.Guarded, containers: Containers, number: int, launch: Launch, folder: RunFolder
    ) -> None:
        """Connect the parts. The ``folder`` belongs to this object from now on."""
        self._loop, self._containers, self._number = events, containers, number
        self._launch, self._folder = launch, folder
        self.streams = folder
        self.collect_fds: list[int] = []
        self._processes = GuestProcesses(0, 0, lambda: None)
        self._pidfd = -1
        self._is_ready = self._begun = self._killed = self._removed = self._dead = False
        self._reports = b""
        self._status: int | None = None

    @property
    def setup_state(self) -> str:
        """The step that a slow set-up waits for, as a clause for messages."""
        if not self.head:
            return "the engine did not start the container"
        return f"the container's first process did not open its pipes; {_NEEDS}"

    def start(self, callbacks: Callbacks) -> None:
        """Have the container made, and listen."""
        assert self._launch.container is not None
        self._callbacks = callbacks
        self._loop.watch(self._folder.reports, loop.READ, self._on_reports)
        self._containers.start(self._number, self._folder.token, self._launch.container)

    def take_stdin(self) -> int:
        """Return the descriptor that feeds the guest's standard input."""
        fd, self._folder.stdin = self._folder.stdin, -1
        return fd

    # -- the begin ---------------------------------------------------------------------------------------------

    def on_engine(self, kind: str, fields: dict[str, Any]) -> None:
        """Take a report of the engine client."""
        if kind == "started":
            self._on_started(fields["id"], fields["pid"])
        elif kind == "failed":
            self._callbacks.on_trouble(fields["message"])
        elif kind == "inspected":
            self._on_inspected(oom=fields["oom"], running=fields["running"])
        elif kind == "removed":
            self._removed = True
            if self._pidfd < 0 and not self._dead:
                self._on_end()

    def _on_started(self, container: str, pid: int) -> None:
        if self._killed:
            return
        found = self._find(container, pid)
        if found is None:
            self._callbacks.on_trouble(
                f"the container's first process (pid {pid} by the engine's count) has ended, or is not visible here; "
                f"{_NEEDS}"
            )
            return
        self._pidfd, self.group = found
        self.head = pid
        self.name = f"the container's first process (pid {pid})"
        self._processes = GuestProcesses(pid, 0, lambda: None)
        self._loop.watch(self._pidfd, loop.READ, self._on_death)
        self._begin()

    def _find(self, container: str, pid: int) -> tuple[int, EngineGroup] | None:
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

    def _begin(self) -> None:
        """Let the guest begin, if the engine and the first process have reported."""
        if self._begun or self._killed or not (self._is_ready and self.head):
            return
        self._begun = True
        try:
            self._folder.are_open_inside()
            assert self.group is not None
            self.group.begin_run(self._launch.groups, self.own_tasks)
            self._callbacks.on_handing_over()
            os.write(self._folder.orders, GO)
        except OSError as error:
            self._callbacks.on_trouble(faults.explain("let the guest in the container begin", error))
            return
        now = time.monotonic()
        self._callbacks.on_started({"at": now, "cpu_seconds": 0.0, "peak_memory": 0, "notes": [], "pid": 0})

    # -- the first process -------------------------------------------------------------------------------------

    def _on_reports(self, _events: int) -> None:
        self.poll()

    def poll(self) -> bool:
        """Read reports of the first process. Return whether more may come."""
        if self._folder.reports < 0:
            return False
        try:
            data = os.read(self._folder.reports, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data or len(self._reports) > _CHUNK:
            self._loop.forget(self._folder.reports)
            return False
        *lines, self._reports = (self._reports + data).split(b"\n")
        for line in lines:
            self._on_report(line.decode("ascii", "replace"))
        return True

    def _on_report(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "ready" and not self._is_ready:
            self._is_ready = True
            self._begin()
        elif word == "broken" and not self._begun:
            self._callbacks.on_trouble(f"the container's first process could not {rest}; see docs/backends/docker.md")
        elif self._begun and self._status is None and word in ("exit", "missing", "forbidden"):
            self._on_exit(word, rest)

    def _on_exit(self, word: str, rest: str) -> None:
        """Take the guest's status, and end what it has left behind. Only then is the run over."""
        program = self._launch.argv[0] if self._launch.argv else ""
        if word == "exit":
            code = int(rest) & 0xFF if rest.isdigit() else 0xFF
            number = code - 128
            self._status = number if number in _SIGNALS else code << 8
        else:
            self._status = (127 if word == "missing" else 126) << 8
            why = "command not found" if word == "missing" else "Permission denied"
            self._callbacks.on_failed("exec", f"{program}: {why}")
        if self.group is not None:
            self.group.keep()
        self._kill()

    # -- requests ----------------------------------------------------------------------------------------------

    def control(self, request: str, number: int = 0) -> bool:
        """Carry out a request. Return ``False`` if it must be repeated after a moment."""
        if request == requests.SIGNAL:
            return self._signal(number)
        if request == requests.PAUSE:
            return self._processes.pause()
        if request == requests.RESUME:
            self._processes.resume()
        elif request in (requests.KILL, requests.END_GUEST, requests.KILL_AT_ONCE):
            if self.group is not None:
                self.group.keep()
            self._kill()
        return True

    def _signal(self, number: int) -> bool:
        """Signal the guest. An interrupt goes to its whole process group, as a terminal's does.

        The container's first process is in that group unless the guest has left it, and has a handler."""
        guest = next(iter(descendants.children(self.head)), 0) if number == signal.SIGINT else 0
        try:
            if guest and os.getpgid(guest) == self.head:
                os.killpg(self.head, number)  # the head lives, or its pidfd would have told, so the number is its own
                return True
        except ProcessLookupError:
            pass  # it has just ended
        return self._processes.signal(number)

    def _kill(self) -> None:
        """Kill the container's first process. The kernel takes its whole PID namespace along."""
        self._killed = True
        if self._pidfd < 0:
            self._containers.ask("remove", self._number)
            return
        try:
            processes.kill(self._pidfd)
        except PermissionError:  # a member of the engine's group who is not root
            self._containers.ask("kill", self._number)

    # -- the end -----------------------------------------------------------------------------------------------

    def _on_death(self, _events: int) -> None:
        """Everything in the container's PID namespace is dead, by the kernel's word."""
        self._loop.forget(self._pidfd)
        while self.poll():
            pass
        if not (self._begun or self._killed):
            self._callbacks.on_trouble(f"the container ended before its first process was ready; {_NEEDS}")
        if self._status is None and self.group is not None and not self.group.is_kept and not self._removed:
            self.group.keep()
            self._containers.ask("inspect", self._number)  # it may have run out of memory, shell and all
            return
        self._on_end()

    def _on_inspected(self, *, oom: bool, running: bool) -> None:
        if oom and not running and self.group is not None:
            self.group.note_oom()
        self._on_end()

    def _on_end(self) -> None:
        if self._dead:
            return
        self._dead = True
        if self._status is not None:
            self._callbacks.on_exit({"status": self._status, "at": time.monotonic()})
        self._callbacks.on_death()

    def dismiss(self) -> None:
        """Take no more reports, and end the container; its death follows."""
        self._kill()

    def release(self) -> None:
        """Give back everything: the guest is dead. The engine client removes the container."""
        if self._folder.reports >= 0:
            self._loop.forget(self._folder.reports)
        self._folder.close()
        if self._pidfd >= 0:
            self._loop.forget(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if self.group is not None:
            self.group.close()
        self._containers.ask("remove", self._number)
        self._containers.forget(self._number)
