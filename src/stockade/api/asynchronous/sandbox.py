"""``AsyncSandbox``: ``Sandbox`` for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import Any, TypeVar

from stockade.api.asynchronous.process import AsyncProcess, AsyncTerminal
from stockade.api.asynchronous.sessions import AsyncFiles, AsyncInterpreter, AsyncShell
from stockade.api.asynchronous.threads import forwarded, in_thread, like, like_class
from stockade.api.exec_limits import checked_folder
from stockade.api.ports import Forward, PortStream
from stockade.api.process import Process
from stockade.api.sandbox import Sandbox
from stockade.api.sessions.interpreter import Interpreter
from stockade.api.sessions.shell import Shell
from stockade.api.terminal import Terminal
from stockade.client.event_loop import events, take_slot
from stockade.core.hints import known_options
from stockade.runs.events import LimitReached, OnWarning
from stockade.runs.result import Result

T = TypeVar("T")
A = TypeVar("A", bound=AsyncProcess[Any])


class AsyncSandbox:
    """``Sandbox`` for asyncio: a sandbox that lives over many calls. Its methods take the arguments of ``Sandbox``'s.

    Make one with ``await AsyncSandbox.create``, and use it as an asynchronous context manager. Cancelling a task ends
    the command or the cell that it waits for; the sandbox goes on.
    """

    def __init__(self, inner: Sandbox) -> None:
        """Use ``create``."""
        self._inner = inner
        self._started: dict[Process, AsyncProcess[Any]] = {}
        self.id, self.policy, self.plan, self.backend = inner.id, inner.policy, inner.plan, inner.backend

    @classmethod
    @like_class(Sandbox.create)
    async def create(cls, *args: Any, **options: Any) -> AsyncSandbox:
        """See ``Sandbox.create``."""
        return cls(await in_thread(partial(Sandbox.create, *args, **options), undo=Sandbox.close))

    def __repr__(self) -> str:
        """Return what the blocking sandbox shows, in one line."""
        return f"<Async{repr(self._inner)[1:]}"

    async def __aenter__(self) -> AsyncSandbox:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sandbox."""
        await self.close()

    async def _call(self, call: Callable[[], T]) -> T:
        return await in_thread(call)

    @like(Sandbox.run_command)
    @known_options
    async def run_command(
        self,
        argv: Sequence[str],
        *,
        cwd: Any = None,
        environment: Any = None,
        stdin: Any = None,
        on_warning: OnWarning | None = None,
        **limits: Any,
    ) -> Result:
        """See ``Sandbox.run_command``."""
        inner = self._inner
        job, plan = inner._limits.call(argv, environment, stdin, **limits)
        with inner._exec(job, plan, checked_folder(cwd), slot=await take_slot()) as (send_queue, connection):
            async for event in events(send_queue, connection, job.stdin):
                if on_warning is not None and isinstance(event, LimitReached) and event.is_warning:
                    on_warning(event)
            return inner._concluded(send_queue)

    @like(Sandbox.start_command)
    async def start_command(self, *args: Any, **options: Any) -> AsyncProcess[Process]:
        """See ``Sandbox.start_command``."""
        made = await in_thread(partial(self._inner.start_command, *args, **options), undo=Process.kill)
        return _noted(self._started, made, AsyncProcess(made))

    @like(Sandbox.terminal)
    async def terminal(self, *args: Any, **options: Any) -> AsyncTerminal:
        """See ``Sandbox.terminal``."""
        made = await in_thread(partial(self._inner.terminal, *args, **options), undo=Terminal.kill)
        return _noted(self._started, made, AsyncTerminal(made))

    @property
    def processes(self) -> tuple[AsyncProcess[Any], ...]:
        """The commands of ``start_command`` and ``terminal`` that still run, in the order of their start."""
        return tuple(self._started[each] for each in self._inner.processes if each in self._started)

    @like(Sandbox.interpreter)
    async def interpreter(self, *args: Any, **options: Any) -> AsyncInterpreter:
        """See ``Sandbox.interpreter``."""
        made = await in_thread(partial(self._inner.interpreter, *args, **options), undo=Interpreter.close)
        return AsyncInterpreter(made)

    @like(Sandbox.shell)
    async def shell(self, *args: Any, **options: Any) -> AsyncShell:
        """See ``Sandbox.shell``."""
        return AsyncShell(await in_thread(partial(self._inner.shell, *args, **options), undo=Shell.close))

    @cached_property
    def files(self) -> AsyncFiles:
        """The files of the sandbox: read, write, list and remove them from outside."""
        return AsyncFiles(self._inner.files)

    @like(Sandbox.connect)
    async def connect(self, *args: Any, **options: Any) -> PortStream:
        """See ``Sandbox.connect``. ``asyncio.open_connection(sock=...)`` takes the socket."""
        return await in_thread(partial(self._inner.connect, *args, **options), undo=PortStream.close)

    @like(Sandbox.forward)
    async def forward(self, *args: Any, **options: Any) -> Forward:
        """See ``Sandbox.forward``. Threads relay, so the event loop does not wait for them."""
        return await in_thread(partial(self._inner.forward, *args, **options), undo=Forward.close)

    @like(Sandbox.fork)
    async def fork(self) -> AsyncSandbox:
        """See ``Sandbox.fork``."""
        return AsyncSandbox(await in_thread(self._inner.fork, undo=Sandbox.close))

    @like(Sandbox.forks)
    async def forks(self, count: int) -> list[AsyncSandbox]:
        """See ``Sandbox.forks``."""
        made = await in_thread(partial(self._inner.forks, count), undo=_close_all)
        return [AsyncSandbox(each) for each in made]

    snapshot = forwarded(Sandbox.snapshot)
    pause = forwarded(Sandbox.pause)
    resume = forwarded(Sandbox.resume)

    @property
    def paused(self) -> bool:
        """Whether the sandbox is paused."""
        return self._inner.paused

    usage = forwarded(Sandbox.usage)
    close = forwarded(Sandbox.close)

    @property
    def closed(self) -> bool:
        """Whether the sandbox was closed. It may have ended by itself before, which the next call reports."""
        return self._inner.closed

    @property
    def result(self) -> Result:
        """The verdict on the whole sandbox: usage, receipt and changes. Raises ``JobError`` before ``close``."""
        return self._inner.result


def _noted(started: dict[Process, AsyncProcess[Any]], inner: Process, process: A) -> A:
    """Note a process that was started, forget those that have ended, and return it."""
    for each in [each for each in started if each.returncode is not None]:
        del started[each]
    started[inner] = process
    return process


def _close_all(sandboxes: list[Sandbox]) -> None:
    for each in sandboxes:
        each.close()
