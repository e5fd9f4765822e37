"""The part of a living sandbox that opens interpreters, shells and files in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from stockade.api.job_arguments import warmth
from stockade.core.errors import JobError
from stockade.core.hints import Hinting, known_options
from stockade.core.loading import load, loading
from stockade.languages import registry as languages
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.api.process import Process
    from stockade.api.sessions.files import Files
    from stockade.api.sessions.interpreter import Interpreter
    from stockade.api.sessions.records import CellLimits
    from stockade.api.sessions.shell import Shell
    from stockade.backends.base import Backend
    from stockade.languages.base import Language
    from stockade.policy.model import Policy

_LONGEST_CELL = 3600.0
_LANGUAGES = ("python", "python3", "py", "ruby", "rb", "javascript", "js", "node", "nodejs")
_MADE = 3
"""Values that ``Sandbox.create`` passes by position."""
_SYSTEM_PYTHONS = (None, "/usr/bin/python3")


class Sessions(Hinting):
    """The methods of ``Sandbox`` that open what keeps its state from call to call."""

    policy: Policy
    if TYPE_CHECKING:
        backend: Backend
        id: str
        _result: object | None
    _packages: str | None = None
    _waiting: list[tuple[str, Sequence[str], Interpreter]]
    """At most one interpreter that nobody has yet, with its language and the modules that it has imported."""

    def __new__(cls, *made: object, **_how: object) -> Self:
        """Refuse a call of the class by anyone but ``create``."""
        if len(made) < _MADE:
            raise TypeError(f"{cls.__name__}.create(...) starts a sandbox; Runner(...) runs each call in a fresh one")
        sandbox = super().__new__(cls)
        sandbox._waiting = []
        return sandbox

    start_command: Callable[..., Process]
    _check_open: Callable[[], None]

    @known_options
    def interpreter(
        self,
        language: str = "python",
        *,
        cwd: str | os.PathLike[str] | None = None,
        limits: CellLimits | None = None,
        preload: Sequence[str] = (),
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> Interpreter:
        """Start an interpreter that keeps its state from cell to cell, and return it.

        ``language`` is ``"python"``, ``"ruby"`` or ``"javascript"``. Python is that of ``packages``, if the sandbox has
        some, and else the sandbox's own. ``cwd`` is a folder of the sandbox. ``limits`` bounds what a cell gives back;
        without it, a cell has the policy's limit on output. ``preload`` names Python modules to import before the first
        cell, such as ``["pandas"]``. The policy's wall time is the longest that a cell may take,
        and its CPU time is that of the whole interpreter.

        ``functions`` are functions of yours that cells of Python call by name. They run here, outside of the sandbox,
        in the thread that runs the cell, and their time counts as the cell's. Arguments and values are plain data, as
        those of ``stockade.call``, of at most ``limits.display_bytes``. The guest chooses the arguments: check them.

        In a sandbox of a ``SandboxPool``, the first call without ``cwd``, ``limits`` and ``functions`` returns the one
        that waits.

        Raises ``JobError`` if the sandbox lacks the interpreter, and ``SetupError`` if it does not start.
        """
        with loading:
            from stockade.api.sessions.interpreter import Interpreter
        known, modules = checked_interpreter(language, preload)
        if functions and known.name != "python":
            raise JobError(f"functions: only cells of Python call functions of yours, and the language is {known.name}")
        if cwd is None and limits is None and not functions and (waiting := self._take_waiting(known.name, modules)):
            return waiting
        executable = "" if known.name == "python" else known.interpreter().executable
        seconds = self._cell_seconds()
        return Interpreter(
            lambda: self._agent(cwd),
            known.name,
            executable,
            preload=modules,
            limits=limits or self._cell_limits(),
            longest=seconds,
            functions=functions,
        )

    def _prepare(self, language: str, preload: Sequence[str]) -> None:
        """Start an interpreter that waits for the first call of ``interpreter``."""
        self._waiting.append((languages.find(language).name, preload, self.interpreter(language, preload=preload)))

    def _take_waiting(self, language: str, preload: Sequence[str]) -> Interpreter | None:
        try:
            waiting = self._waiting.pop()  # one thread gets it
        except IndexError:
            return None
        if waiting[0] == language and set(preload) <= set(waiting[1]):
            return waiting[2]
        self._waiting.append(waiting)
        return None

    @known_options
    def shell(self, *, cwd: str | os.PathLike[str] | None = None, limits: CellLimits | None = None) -> Shell:
        """Start a bash that keeps its folder, variables, functions and history from command to command.

        The arguments and errors are those of ``interpreter``.
        """
        with loading:
            from stockade.api.sessions.shell import Shell
        limits = limits or self._cell_limits()
        return Shell(lambda: self._agent(cwd), limits=limits, longest=self._cell_seconds())

    @cached_property
    def files(self) -> Files:
        """The files of the sandbox: read, write, list and remove them from outside."""
        with loading:
            from stockade.api.sessions.files import Files
        return Files(lambda: self._agent(None), check=self._check_open)

    def _agent(self, cwd: str | os.PathLike[str] | None) -> Process:
        command = load("stockade.api.sessions.agents:command")(python_for_agents(self._packages))
        return self.start_command(command, cwd=cwd, stderr=os.devnull)

    def _cell_seconds(self) -> float:
        return self.policy.limits.figure(Guarantee.WALL_TIME) or _LONGEST_CELL

    def _cell_limits(self) -> CellLimits:
        limits: CellLimits = load("stockade.api.sessions.records:CellLimits")
        output = self.policy.limits.figure(Guarantee.OUTPUT)
        made: CellLimits = limits() if output is None else limits(output=int(output))  # type: ignore[operator]
        return made


def checked_interpreter(language: str, preload: Sequence[str]) -> tuple[Language, tuple[str, ...]]:
    """Return a language whose interpreters keep state, and the modules to import. Raises ``JobError``."""
    if language not in _LANGUAGES:
        raise JobError(f"{language!r:.80} has no interpreter that keeps state; there are python, ruby and javascript")
    known, modules = languages.find(language), warmth(preload, None).get("preload", ())
    if modules and known.name != "python":
        raise JobError(f"preload: only Python imports modules in advance, and the language is {known.name}")
    return known, modules


def python_for_agents(packages: str | None) -> str:
    """Return the Python that runs the agents: that of a virtual environment, or one that every sandbox shows."""
    python = languages.find("python")
    if packages is not None and Path(packages, "pyvenv.cfg").is_file():
        return python.interpreter(packages).executable
    for name in _SYSTEM_PYTHONS:
        try:
            found = python.interpreter(name)
        except JobError:
            continue
        if all(Path(place).is_relative_to("/usr") for place in (found.executable, *found.places)):
            return found.executable
    raise JobError(
        "the sandbox shows no Python, which interpreters, shells and files need: install one (apt install python3), or "
        "create the sandbox with packages= of a virtual environment"
    )
