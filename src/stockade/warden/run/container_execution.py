"""The execution of a guest in a container of an engine: no process of it descends from the warden.

The engine makes the container and holds its limits. The warden sees the container's processes and control groups, since
both are on this host; it reads the counters there, and ends the container by its pidfd. What only the engine can do
goes through the engine client. The first process of the container is a shell of ours. It reports over a pipe that the
guest could write to as well. So its report decides only the exit status, which is the guest's own word anyway.
"""

from __future__ import annotations

import os
import time

from stockade.linux import descendants, faults, tree
from stockade.warden.containers.handle import NEEDS
from stockade.warden.run import execution as requests
from stockade.warden.run.guest_processes import GuestProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any

    from stockade.core.launch import Launch
    from stockade.linux.cgroups.engine_group import EngineGroup
    from stockade.linux.tree import Sample
    from stockade.warden import loop
    from stockade.warden.containers.containers import Containers
    from stockade.warden.containers.handle import ContainerHandle
    from stockade.warden.proxy.handle import ProxyHandle
    from stockade.warden.run.execution import Callbacks
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_TAKE, _GO = "take", "go"
_SIGNALS = frozenset(map(int, signal.valid_signals()))
_NEVER = float("inf")


class _Unattended:
    """Answers for an execution that has no helper of the warden's between it and the guest."""

    head = 0

    def sample(self, bound: int | None) -> Sample:
        """Return memory, CPU time and tasks below the container's first process, from /proc."""
        return tree.sample(self.head, bound)

    def check(self, now: float, *, starting: bool) -> float:  # noqa: ARG002
        """Return nothing: a dead helper is an event of the loop."""
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
    """A guest in a container. Its job goes there when both the engine and the container's first process are ready."""

    lasting = False
    own_tasks = 1
    name = "the container"
    uid: int | None = None
    proxy: ProxyHandle | None = None
    _callbacks: Callbacks

    def __init__(self, events: loop.Guarded, containers: Containers, launch: Launch, handle: ContainerHandle) -> None:
        """Connect the parts. The container behind ``handle`` belongs to this object from now on."""
        self._loop, self._containers = events, containers
        self._launch, self._handle = launch, handle
        self.streams = handle.folder
        self.collect_fds: list[int] = []
        self._processes = GuestProcesses(0, 0, lambda: None)
        self._begun = self._dead = False
        self.may_start_again = handle.is_ready  # it may have died while it waited
        self._status: int | None = None

    @property
    def setup_state(self) -> str:
        """The step that a slow set-up waits for, as a clause for messages."""
        if not self._handle.head:
            return "the engine did not start the container"
        if not self._handle.is_ready:
            return f"the container's first process did not open its pipes; {NEEDS}"
        return "the container's first process did not take the job"

    @property
    def group(self) -> EngineGroup | None:
        """The container's control groups, as soon as there are any."""
        return self._handle.group

    def start(self, callbacks: Callbacks) -> None:
        """Have the container made unless it waits already, and listen."""
        self._callbacks = callbacks
        self._handle.attach(self._loop, self)
        self._handle.request()

    def take_stdin(self) -> int:
        """Return the descriptor that feeds the guest's standard input."""
        folder = self._handle.folder
        fd, folder.stdin = folder.stdin, -1
        return fd

    # -- the begin ---------------------------------------------------------------------------------------------

    def on_ready(self) -> None:
        """Give the job to the container."""
        if self._handle.is_killed:
            return
        self.head = self._handle.head
        self.name = f"the container's first process (pid {self.head})"
        self._processes = GuestProcesses(self.head, 0, lambda: None)
        try:
            self._handle.folder.write_job(self._launch)
            self._handle.say(_TAKE)
        except BrokenPipeError:
            pass  # the first process is dead: the loop is about to hear of it
        except OSError as error:
            self._callbacks.on_trouble(faults.explain("give the job to the container", error))

    def _begin(self) -> None:
        """Let the guest begin: the first process has taken the job."""
        if self._begun or self._handle.is_killed or self.group is None:
            return
        self._begun = True
        try:
            self._handle.folder.is_taken()
            self.group.begin_run(self._launch.groups, self.own_tasks)
            self._callbacks.on_handing_over()
            self._handle.say(_GO)
        except OSError as error:
            self._callbacks.on_trouble(faults.explain("let the guest in the container begin", error))
            return
        now = time.monotonic()
        self._callbacks.on_started({"at": now, "cpu_seconds": 0.0, "peak_memory": 0, "notes": [], "pid": 0})

    # -- reports of the container ------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Read reports of the first process. Return whether more may come."""
        return self._handle.poll()

    def on_report(self, word: str, rest: str) -> None:
        """Take a report of the first process."""
        if word == "taken":
            self._begin()
        elif word == "broken" and not self._begun:
            self._callbacks.on_trouble(f"the container's first process could not {rest}; see docs/backends/docker.md")
        elif self._begun and self._status is None and word in ("exit", "missing", "forbidden"):
            self._on_exit(word, rest)

    def on_trouble(self, message: str) -> None:
        """End the run: the container cannot be used."""
        self._callbacks.on_trouble(message)

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
        self._end_all()

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
            self._end_all()
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

    def _end_all(self) -> None:
        if self.group is not None:
            self.group.keep()
        self._handle.kill()

    # -- the end -----------------------------------------------------------------------------------------------

    def on_death(self) -> None:
        """Everything in the container's PID namespace is dead, by the kernel's word."""
        if not (self._begun or self._handle.is_killed):
            if self.may_start_again:
                self._on_end()
                return
            self._callbacks.on_trouble(f"the container ended before its first process was ready; {NEEDS}")
        group = self.group
        if self._status is None and group is not None and not group.is_kept and not self._handle.is_removed:
            group.keep()
            self._handle.inspect()  # it may have run out of memory, shell and all
            return
        self._on_end()

    def on_inspected(self, *, ran_out: bool) -> None:
        """Conclude: the engine has told what only it knows."""
        if ran_out and self.group is not None:
            self.group.note_oom()
        self._on_end()

    def on_removed(self) -> None:
        """Conclude if the container never began."""
        if self._handle.pidfd < 0:
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
        self._handle.kill()

    def release(self) -> None:
        """Give back everything: the guest is dead. The engine client removes the container."""
        self._handle.release()
        if self._begun and self._launch.container is not None:
            self._containers.prewarmed.want(self._launch.container.without_job())
