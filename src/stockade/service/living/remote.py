"""``RemoteSandbox``: a sandbox that lives on a service, with the methods of ``Sandbox``."""

from __future__ import annotations

from collections.abc import Callable
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
    from stockade.service.client import Client
    from stockade.service.living.remote_terminal import RemoteTerminal

T = TypeVar("T")
P = ParamSpec("P")


def _done(model: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[Any, P], T]:
    """Return the method that carries out the steps of ``model``."""

    def method(self: Any, /, *values: P.args, **options: P.kwargs) -> T:
        done: T = self._client._complete(model(self._steps, *values, **options))
        return done

    return named_after(model, method)


def _terminal(model: Callable[Concatenate[Any, P], Steps[Opened]]) -> Callable[Concatenate[Any, P], RemoteTerminal]:
    """Return the method that opens a terminal by the steps of ``model``."""

    def method(self: Any, /, *values: P.args, **options: P.kwargs) -> RemoteTerminal:
        from stockade.service.living.remote_terminal import RemoteTerminal

        return RemoteTerminal(self._client._service, model(self._steps, *values, **options))

    return named_after(model, method, "RemoteTerminal")


class RemoteSandbox(Shown):
    """A sandbox that lives on a service. ``Client.create_sandbox`` makes it; use it as a context manager.

    Its methods are those of ``Sandbox`` with the same arguments, results and errors. They also raise ``ServiceError``.
    A command or cell whose answer is lost is not repeated: it may have run.
    """

    def __init__(self, client: Client, steps: SandboxSteps) -> None:
        """Use ``Client.create_sandbox``."""
        self._client, self._steps = client, steps
        self.files = RemoteFiles(client, FileSteps(steps))
        """The files of the sandbox."""

    def __enter__(self) -> RemoteSandbox:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sandbox."""
        self.close()

    def interpreter(self, language: str = "python") -> RemoteInterpreter:
        """Return the interpreter of a language. It starts at its first cell; all callers share one."""
        return RemoteInterpreter(self._client, InterpreterSteps(self._steps, language))

    def fork(self) -> RemoteSandbox:
        """Return a new sandbox with copies of the files, and a whole ``max_lifetime``. See ``Sandbox.fork``."""
        return RemoteSandbox(self._client, self._client._complete(self._steps.fork()))

    run_command = _done(SandboxSteps.run_command)
    terminal = _terminal(SandboxSteps.terminal)
    close = _done(SandboxSteps.close)


class RemoteFiles:
    """Reads and writes files of a sandbox on a service: ``RemoteSandbox.files``. See ``Files``."""

    def __init__(self, client: Client, steps: FileSteps) -> None:
        """Use ``RemoteSandbox.files``."""
        self._client, self._steps = client, steps

    read_bytes = _done(FileSteps.read_bytes)
    read_text = _done(FileSteps.read_text)
    write = _done(FileSteps.write)
    remove = _done(FileSteps.remove)


class RemoteInterpreter:
    """Runs cells one after another in one namespace, on a service. ``RemoteSandbox.interpreter`` makes it."""

    def __init__(self, client: Client, steps: InterpreterSteps) -> None:
        """Use ``RemoteSandbox.interpreter``."""
        self._client, self._steps = client, steps

    run = _done(InterpreterSteps.run)
    restart = _done(InterpreterSteps.restart)
