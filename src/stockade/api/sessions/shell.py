"""A shell that keeps its folder, variables, functions and history from one command to the next."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from stockade.api.sessions import agents
from stockade.api.sessions.agents import AgentProcess
from stockade.api.sessions.records import CellLimits, CellOutcome, OnEvent, ShellResult, number_of, text_of
from stockade.api.sessions.session import Gathered, Session
from stockade.core.errors import JobError
from stockade.core.frozen import FrozenDict

COMMAND_SECONDS = 60.0
_LONGEST_COMMAND = 256 * 1024


class Shell:
    """Runs commands one after another in one bash. Made by ``Sandbox.shell``.

    A command that prints what looks like the end of a command ends nothing: the end comes over a descriptor that the
    command does not have, with a token that bash reads after the command.
    """

    def __init__(
        self,
        open_process: Callable[[], AgentProcess],
        *,
        limits: CellLimits | None = None,
        longest: float = COMMAND_SECONDS,
    ) -> None:
        self._session = Session(open_process, agents.shell_start(), "shell", limits or CellLimits(), longest)

    def __enter__(self) -> Shell:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the shell."""
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the shell can run a command."""
        return not self._session.ended

    def run(self, command: str, *, timeout: float | None = None, on_event: OnEvent | None = None) -> ShellResult:
        """Run one command line or script, and wait for its end; see ``Interpreter.run``.

        Standard input of the command is empty. A command that ends the shell (``exit``) has its status as the reason
        in ``result.ended``; then ``restart`` starts a fresh one.
        """
        if isinstance(command, str) and len(command) > _LONGEST_COMMAND:
            raise JobError(
                f"command: {len(command)} characters, and {_LONGEST_COMMAND} is the most; write it to a file"
            )
        return _result(self._session.run(command, timeout, on_event))

    def interrupt(self) -> bool:
        """Send SIGINT to the command that runs now; return whether one runs. Call it in any thread."""
        return self._session.interrupt()

    def restart(self) -> None:
        """Start afresh. Every process of the shell is killed, in the background as well."""
        self._session.restart()

    def close(self) -> None:
        """End the shell and every process of its commands."""
        self._session.close()


def _result(found: Gathered) -> ShellResult:
    outcome, status, folder = found.outcome, None, ""
    if found.value is not None:
        try:
            status, folder = int(number_of(found.value, "status")), text_of(found.value, "folder")
        except ValueError:
            status = None
    if status and outcome is CellOutcome.COMPLETED:
        outcome = CellOutcome.FAILED
    return ShellResult(
        outcome=outcome,
        exit_code=status,
        stdout=found.stdout.decode("utf-8", "replace"),
        stderr=found.stderr.decode("utf-8", "replace"),
        folder=folder,
        usage=found.usage,
        omitted=FrozenDict(found.omitted),
        ended=found.ended,
    )
