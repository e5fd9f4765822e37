"""An interpreter that keeps its state from one cell to the next."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stockade.api.sessions import agents
from stockade.api.sessions.agents import AgentProcess
from stockade.api.sessions.functions import Functions
from stockade.api.sessions.gathered import Gathered
from stockade.api.sessions.handle import SECONDS, SessionHandle
from stockade.api.sessions.records import (
    CellLimits,
    CellOutcome,
    CellResult,
    Display,
    OnEvent,
    display_of,
    error_of,
    text_of,
)
from stockade.api.sessions.session import Session
from stockade.core.errors import JobError
from stockade.core.frozen import FrozenDict
from stockade.core.hints import known_options


class Interpreter(SessionHandle):
    """Runs cells one after another in one namespace, as a notebook does. Made by ``Sandbox.interpreter``.

    All cells share one process with each other's code: a cell can change what a later one sees, and its results.
    """

    def __init__(
        self,
        open_process: Callable[[], AgentProcess],
        language: str = "python",
        executable: str = "",
        *,
        preload: Sequence[str] = (),
        limits: CellLimits | None = None,
        longest: float = SECONDS,
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._language = language
        limits = limits or CellLimits()
        known = Functions(functions or {}, limits.display_bytes)
        start = agents.interpreter_start(language, executable, preload, known.names)
        self._session = Session(open_process, start, "interpreter", limits, longest, functions=known)

    @property
    def version(self) -> str:
        """The interpreter's version, as it says itself."""
        return str(self._session.hello.get("version", ""))[:40]

    @known_options
    def run(self, source: str, *, timeout: float | None = None, on_event: OnEvent | None = None) -> CellResult:
        """Run one cell and wait for its end.

        ``timeout`` is in seconds of wall time, by default what the policy allows. A cell past its time is interrupted;
        if it does not end within five seconds, its interpreter is killed, and ``result.ended`` says so. ``on_event`` is
        called with output and displays as they come; if it raises, the interpreter ends. Cells of several threads take
        turns.

        Raises ``SessionEnded`` if the interpreter is gone: ``restart`` starts a fresh one.
        """
        return _result(self._session.run(source, timeout, on_event))

    def fork(self) -> Interpreter:
        """Copy the interpreter as it is now, and return the copy. Only Python can do that.

        Both have the same variables and modules, and then go their own ways in the same sandbox, with its files.
        ``random``, ``numpy.random`` and the ids of processes are new in the copy, and so is its event loop. Open files
        and connections are shared, as after ``os.fork``. The copy counts as a process, and shares the CPU time of the
        interpreter. Each is closed by itself.

        Raises ``JobError`` while a cell runs, if threads or tasks of asyncio wait in the interpreter, which the copy
        would lose, or if the sandbox has no process left. Raises ``SetupError`` if the copy does not start, and
        ``SessionEnded`` if the interpreter is gone.

            with stockade.Sandbox.create() as sandbox, sandbox.interpreter() as py:
                py.run("numbers = list(range(1000))")
                print(py.fork().run("sum(numbers)").value_repr)
        """
        if self._language != "python":
            raise JobError(f"fork(): only an interpreter of Python can fork, and this one is of {self._language}")
        twin = copy.copy(self)
        twin._session = self._session.fork()
        return twin


def _result(found: Gathered) -> CellResult:
    """Return the result of a cell. A value or an error that breaks the protocol is one of the guest's making."""
    outcome, value, shown, error = found.outcome, None, None, None
    try:
        if found.value is not None:
            value, shown = text_of(found.value, "repr"), display_of(found.value.get("data"))
        if found.error is not None:
            error = error_of(found.error)
    except ValueError:
        value, shown = None, Display()
    if error is not None and outcome is CellOutcome.COMPLETED:
        outcome = CellOutcome.FAILED
    return CellResult(
        outcome=outcome,
        execution_count=found.count,
        stdout=found.stdout.decode("utf-8", "replace"),
        stderr=found.stderr.decode("utf-8", "replace"),
        value_repr=value,
        value=shown,
        displays=tuple(found.displays),
        error=error,
        usage=found.usage,
        omitted=FrozenDict(found.omitted),
        ended=found.ended,
    )
