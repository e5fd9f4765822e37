"""``AsyncRemoteSandbox``: ``RemoteSandbox`` for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from stockade.service.client_steps import Steps
from stockade.service.living.remote_steps import (
    FileSteps,
    InterpreterSteps,
    Opened,
    SandboxSteps,
    Shown,
    named_after,
)

if TYPE_CHECKING:
    from stockade.service.async_client import AsyncClient
    from stockade.service.living.async_remote_terminal import AsyncRemoteTerminal

T = TypeVar("T")
P = ParamSpec("P")


def _done(model: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the method for asyncio that carries out the steps of ``model``."""

    async def method(self: Any, /, *values: P.args, **options: P.kwargs) -> T:
        done: T = await self._client._complete(model(self._steps, *values, **options))
        return done

    return named_after(model, method)


def _terminal(
    model: Callable[Concatenate[Any, P], Steps[Opened]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncRemoteTerminal]]:
    """Return the method for asyncio that opens a terminal by the steps of ``model``."""

    async def method(self: Any, /, *values: P.args, **options: P.kwargs) -> AsyncRemoteTerminal:
        from stockade.service.living.async_remote_terminal import opened

        return await opened(self._client._service, model(self._steps, *values, **options))

    return named_after(model, method, "AsyncRemoteTerminal")


class AsyncRemoteSandbox(Shown):
    """``RemoteSandbox`` for asyncio, with the methods of ``AsyncSandbox``. ``AsyncClient.create_sandbox`` makes it.

    Cancelling a task ends the command or the cell that it waits for; the sandbox goes on.
    """

    def __init__(self, client: AsyncClient, steps: SandboxSteps) -> None:
        """Use ``AsyncClient.create_sandbox``."""
        self._client, self._steps = client, steps
        self.files = AsyncRemoteFiles(client, FileSteps(steps))
        """The files of the sandbox."""

    async def __aenter__(self) -> AsyncRemoteSandbox:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sandbox."""
        await self.close()

    async def interpreter(self, language: str = "python") -> AsyncRemoteInterpreter:
        """Return the interpreter of a language. It starts at its first cell; all callers share one."""
        return AsyncRemoteInterpreter(self._client, InterpreterSteps(self._steps, language))

    async def fork(self) -> AsyncRemoteSandbox:
        """Return a new sandbox with copies of the files, and a whole ``max_lifetime``. See ``Sandbox.fork``."""
        return AsyncRemoteSandbox(self._client, await self._client._complete(self._steps.fork()))

    run_command = _done(SandboxSteps.run_command)
    terminal = _terminal(SandboxSteps.terminal)
    close = _done(SandboxSteps.close)


class AsyncRemoteFiles:
    """``RemoteFiles`` for asyncio: ``AsyncRemoteSandbox.files``."""

    def __init__(self, client: AsyncClient, steps: FileSteps) -> None:
        """Use ``AsyncRemoteSandbox.files``."""
        self._client, self._steps = client, steps

    read_bytes = _done(FileSteps.read_bytes)
    read_text = _done(FileSteps.read_text)
    write = _done(FileSteps.write)
    remove = _done(FileSteps.remove)


class AsyncRemoteInterpreter:
    """``RemoteInterpreter`` for asyncio. ``AsyncRemoteSandbox.interpreter`` makes it."""

    def __init__(self, client: AsyncClient, steps: InterpreterSteps) -> None:
        """Use ``AsyncRemoteSandbox.interpreter``."""
        self._client, self._steps = client, steps

    run = _done(InterpreterSteps.run)
    restart = _done(InterpreterSteps.restart)
