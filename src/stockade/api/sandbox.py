"""``Sandbox``: a sandbox that lives over many calls, with its files, its processes and its limits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar, Unpack

from stockade.api import configured
from stockade.api.brokered import opened, with_secrets
from stockade.api.creating import Access, chosen_for, first_job
from stockade.api.exec_limits import ExecLimits, checked_folder, checked_seconds
from stockade.api.job_arguments import job_from_command
from stockade.api.launcher import check_command, unchecked
from stockade.api.observation import observation
from stockade.api.options import CommandOptions, PolicyOptions, known_options
from stockade.api.pausing import Clock
from stockade.api.ports import Ports
from stockade.api.process import WINDOW, Process
from stockade.api.sessions import agents
from stockade.api.sessions.opening import Sessions
from stockade.api.snapshots.copies import Copies
from stockade.api.snapshots.store import Snapshot, load
from stockade.api.terminal import Terminal, check_size
from stockade.api.workspace import finished
from stockade.backends.base import Backend
from stockade.backends.shared import living
from stockade.client import blocking, warden_process
from stockade.client.exchange import Exchange, introduction
from stockade.client.send_queue import SendQueue
from stockade.core.errors import JobError, SandboxClosed, SetupError
from stockade.core.launch import Stdio
from stockade.planning.plan import plan_for_job
from stockade.runs.events import Event, Finished, LimitReached, OnWarning, Started, UsageReport
from stockade.runs.hooks import Hooks
from stockade.runs.job import Job
from stockade.runs.result import Result
from stockade.warden.protocol import SANDBOX_ENDED

if TYPE_CHECKING:
    from stockade.core.launch import Launch
    from stockade.planning.plan import Plan
    from stockade.policy.ceiling import Given
    from stockade.policy.model import PolicyLike
    from stockade.runs.secret import Secret

_TERM = "xterm-256color"
_P = TypeVar("_P", bound=Process)


class Sandbox(Sessions, Ports, Copies):
    """A sandbox that lives: files, processes and limits last from call to call, until it is closed.

    All commands of one sandbox share one trust domain: each can read, change and end whatever another one does. Memory,
    processes and disk space are limits of the whole sandbox. Wall time, CPU time and output are limits of each command.

    Make one with ``Sandbox.create``, and use it as a context manager. Any thread may call its methods, and several
    commands may run at a time. The sandbox ends with the process that made it.
    """

    def __init__(
        self, backend: Backend, plan: Plan, job: Job, *, idle: float | None, lifetime: float, hooks: Hooks | None = None
    ) -> None:
        """Start the sandbox for ``create``, which checks its arguments."""
        self.backend, self.plan, self.policy = backend, plan, plan.policy
        self.id = token_hex(8)
        """The name of the sandbox: unguessable, and unique on every host."""
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._packages = job.packages
        self._hooks, self._labels = hooks, configured.labelled(job.labels)
        self._stack = ExitStack()
        self._result: Result | None = None
        self._processes: dict[Process, None] = {}
        self._limits = ExecLimits(plan)
        self._clock = Clock()
        self._fresh = partial(type(self), backend, plan, job, idle=idle, lifetime=lifetime, hooks=hooks)
        try:
            self._made = self._stack.enter_context(unchecked(backend, plan, job))
            launch = living.instance(self._made, self.id, max_lifetime=lifetime, idle_timeout=idle)
            whole = plan_for_job(self._limits.of_sandbox(lifetime), "a command", counts=False)
            self._events = self._open(launch, whole, job)
            _begin(self._events)
        except BaseException:
            self._stack.close()
            raise

    @classmethod
    @known_options
    def create(
        cls,
        policy: PolicyLike | None = None,
        *,
        backend: str | Backend | None = None,
        trust: str | None = None,
        ceiling: Given | None = None,
        workspace: str | os.PathLike[str] | None = None,
        access: Access | None = None,
        environment: Mapping[str, str] | None = None,
        packages: str | os.PathLike[str] | None = None,
        requirements: Sequence[str] | None = None,
        secrets: Mapping[str, Secret] | None = None,
        on_ask: Callable[[str], bool] | None = None,
        idle_timeout: float | None = 600.0,
        max_lifetime: float = 3600.0,
        snapshot: Snapshot | str | os.PathLike[str] | None = None,
        labels: Mapping[str, str] | None = None,
        hooks: Hooks | None = None,
        **limits: Unpack[PolicyOptions],
    ) -> Sandbox:
        """Start a sandbox and return it.

        ``policy``, ``trust``, ``ceiling`` and the limits are those of ``stockade.Runner``. ``workspace`` is a folder of
        the host to work in, and ``access`` says how: the fields ``filesystem.workspace`` and ``filesystem.access`` of
        the policy. ``environment``, ``packages`` and ``requirements`` are those of ``stockade.run_command``, and hold
        for every command and Python interpreter; ``secrets`` and ``on_ask`` are for the one way out of all commands.

        ``idle_timeout`` ends the sandbox after so many seconds without a call and without a byte to or from a started
        process; ``None`` means never. ``max_lifetime`` ends it after so many seconds, whatever happens. ``snapshot`` is
        a ``Snapshot``, its name or its path: the sandbox begins with its files, within its own limit on the disk.
        ``hooks`` learn of the sandbox and of every command in it, with these ``labels``: see ``stockade.Hooks``.

        Raises what ``Runner`` raises, ``SetupError`` if the sandbox does not start, and ``SnapshotRefused``.

            with stockade.Sandbox.create(memory="512MiB") as sandbox:
                sandbox.run_command(["sh", "-c", "echo kept > /tmp/note"]).check()
                print(sandbox.run_command(["cat", "/tmp/note"]).stdout)
        """
        idle = None if idle_timeout is None else checked_seconds("idle_timeout", idle_timeout)
        lifetime = checked_seconds("max_lifetime", max_lifetime)
        files = None if snapshot is None else load(snapshot)
        chosen = chosen_for(policy, limits, workspace, access, backend=backend, trust=trust, ceiling=ceiling)
        own: CommandOptions = {"environment": environment, "packages": packages, "secrets": secrets, "on_ask": on_ask}
        own |= {"labels": labels, "requirements": requirements}
        job = first_job(chosen, own)
        plan = with_secrets(chosen.plan, job.secrets)
        made = cls(chosen.backend, plan, job, idle=idle, lifetime=lifetime, hooks=hooks)
        return made if files is None else made._begun_with_snapshot(files)

    def _open(self, launch: Launch, plan: Plan, job: Job) -> Generator[Event, None, None]:
        broker = self._stack.enter_context(opened(job, plan.policy))
        self._connection = connection = self._stack.enter_context(warden_process.connect(broker=broker))
        launch = launch.adding(labels=configured.as_texts(self._labels))
        message, connection.remembered = introduction(launch, {}, live=True, silent=True)
        exchange = Exchange(launch, plan, outgoing=message, finish=finished, silent=True)
        observed = observation(self._hooks, self.plan, "sandbox", job, self._labels, sandbox=self.id)
        self._send_queue = SendQueue(exchange, connection.sock, self._stack.enter_context(observed).note)
        return blocking.events(self._send_queue, connection, None)

    def __enter__(self) -> Sandbox:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sandbox."""
        self.close()

    def __del__(self) -> None:
        """End the sandbox, because nothing can use it any more."""
        if hasattr(self, "_stack") and self._owner == os.getpid():
            self._stack.close()

    # -- commands ----------------------------------------------------------------------------------------------

    @known_options
    def run_command(
        self,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: str | bytes | BinaryIO | None = None,
        timeout: float | None = None,
        cpu_time: float | None = None,
        output: int | str | None = None,
        on_warning: OnWarning | None = None,
    ) -> Result:
        """Run a command to the end of its first process and return its verdict.

        ``cwd`` is a folder of the sandbox; a relative one starts at the workspace. ``environment`` is added to the
        sandbox's own. ``timeout`` and ``cpu_time`` are seconds, ``output`` is bytes or a text such as ``"1MiB"``: each
        lowers the policy's limit for this command.

        Processes that the command leaves behind live on in the sandbox; what they write then is not kept. A limit ends
        the command with everything that it started. Raises ``SandboxClosed`` if the sandbox has ended.
        """
        limits: dict[str, Any] = {"timeout": timeout, "cpu_time": cpu_time, "output": output}
        job, plan = self._limits.call(argv, environment, stdin, **limits)
        with self._exec(job, plan, checked_folder(cwd)) as (send_queue, connection):
            for event in blocking.events(send_queue, connection, job.stdin):
                if on_warning is not None and isinstance(event, LimitReached) and event.is_warning:
                    on_warning(event)
            return self._concluded(send_queue)

    @known_options
    def start_command(
        self,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: Literal["pipe", "none"] = "pipe",
        stdout: str = "pipe",
        stderr: str = "pipe",
        timeout: float | None = None,
        cpu_time: float | None = None,
    ) -> Process:
        """Start a command and return it at once, as a ``Process`` that goes on until it ends or the sandbox does.

        ``stdout`` and ``stderr`` are ``"pipe"``, or a file of the sandbox to append to. ``stdin`` is ``"pipe"`` or
        ``"none"``. ``timeout`` bounds its wall time; without it, ``max_lifetime`` of the sandbox does. The other
        arguments are those of ``run_command``.
        """
        if stdin not in ("pipe", "none"):
            raise JobError(f"stdin = {stdin!r}: 'pipe' or 'none'")
        files = {1: stdout, 2: stderr}
        files = {number: self._inside(path) for number, path in files.items() if path != "pipe"}
        how = {"stdio": Stdio(files=files, window=WINDOW), "interactive": stdin == "pipe"}
        return self._start(Process, argv, how, cwd=cwd, environment=environment, timeout=timeout, cpu_time=cpu_time)

    @known_options
    def terminal(
        self,
        argv: Sequence[str] = ("sh", "-i"),
        *,
        rows: int = 24,
        columns: int = 80,
        cwd: str | os.PathLike[str] | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
        cpu_time: float | None = None,
    ) -> Terminal:
        """Start a command at a terminal of its own, and return it at once. See ``start_command`` for the arguments.

        The variable TERM is ``xterm-256color`` unless ``environment`` sets it.
        """
        check_size(rows, columns)
        how = {"stdio": Stdio(rows=rows, columns=columns, window=WINDOW), "interactive": True}
        own = {"TERM": _TERM, **(environment or {})}
        return self._start(Terminal, argv, how, cwd=cwd, environment=own, timeout=timeout, cpu_time=cpu_time)

    def _start(
        self, kind: type[_P], argv: Sequence[str], how: dict[str, Any], *, cwd: Any, environment: Any, **limits: Any
    ) -> _P:
        job = job_from_command(argv, environment=environment)
        plan = self._limits.of_process(**limits)
        check_command(plan, job.argv)
        stack = ExitStack()
        try:
            started = stack.enter_context(self._exec(job, plan, checked_folder(cwd), detached=True, **how))
            process = kind(job.argv, started, stack)
            if not how.get("serves"):
                process._clock = self._clock
            if process.returncode is not None:
                self._concluded(started[0])
        except BaseException:
            stack.close()
            raise
        with self._lock:  # a process goes on if its caller drops it
            running = [each for each in self._processes if each.poll() is None]
            self._processes = dict.fromkeys((*running, process))
        return process

    @property
    def processes(self) -> tuple[Process, ...]:
        """The commands of ``start_command`` and ``terminal`` that still run, in the order of their start.

        The programs behind interpreters, shells and ``files`` are not among them.
        """
        own = agents.command("")[1:]
        with self._lock:
            return tuple(each for each in self._processes if each.argv[1:] != own and each.poll() is None)

    def usage(self) -> UsageReport:
        """Return what the whole sandbox uses now, and has used."""
        with self._lock:
            self._check_open()
            with self._send_queue.locked() as exchange:
                if exchange is not None:
                    exchange.ask("usage")
            for event in self._events:
                if isinstance(event, UsageReport):
                    return event
        raise SandboxClosed(f"{SANDBOX_ENDED}: close it, and see its result")

    # -- the end -----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the sandbox was closed. It may have ended by itself before, which the next call reports."""
        return self._result is not None

    @property
    def result(self) -> Result:
        """The verdict on the whole sandbox: usage, receipt and changes. Raises ``JobError`` before ``close``."""
        if self._result is None:
            raise JobError("the sandbox has no result before it is closed")
        return self._result

    def close(self) -> None:
        """End every process of the sandbox, and the sandbox. Files of its own are gone after that.

        ``result`` then has its usage, and the changes of a workspace with ``access="overlay"`` or ``"copy"``. Closing
        a closed sandbox does nothing.
        """
        with self._lock:
            if self._result is not None or self._owner != os.getpid():
                return
            with self._send_queue.locked() as exchange:
                if exchange is not None:
                    exchange.cancel()
            for _ in self._events:
                pass
            self._result = self._send_queue.exchange.result
            self._stack.close()  # ends the sandbox even if an interrupted call has ended its events
            for process in self._processes:
                process.wait()  # each ends with the sandbox


def _begin(events: Iterator[Event]) -> None:
    for event in events:
        if isinstance(event, Started):
            return
        if isinstance(event, Finished):
            raise SetupError(f"the sandbox did not start: {event.result.error and event.result.error.message}")
