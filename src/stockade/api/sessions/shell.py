"""A shell that keeps its folder, variables, functions and history from one command to the next."""

from __future__ import annotations

from collections.abc import Callable

from stockade.api.sessions import agents
from stockade.api.sessions.agents import AgentProcess
from stockade.api.sessions.gathered import Gathered
from stockade.api.sessions.handle import SECONDS, SessionHandle
from stockade.api.sessions.records import CellLimits, CellOutcome, OnEvent, ShellResult, number_of, text_of
from stockade.api.sessions.session import Session
from stockade.core.errors import JobError
from stockade.core.frozen import FrozenDict
from stockade.core.hints import known_options

_LONGEST_COMMAND = 256 * 1024


class Shell(SessionHandle):
    """Runs commands one after another in one bash. Made by ``Sandbox.shell``.

    A command that prints what looks like the end of a command ends nothing: the end comes over a descriptor that the
    command does not have, with a token that bash reads after the command.
    """

    def __init__(
        self,
        open_process: Callable[[], AgentProcess],
        *,
        limits: CellLimits | None = None,
        longest: float = SECONDS,
    ) -> None:
        self._session = Session(open_process, agents.shell_start(), "shell", limits or CellLimits(), longest)

    @known_options
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
