"""The interface of a language, and of an interpreter that was found on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stockade.planning.plan import Plan
from stockade.runs.job import Command, Job

JOB_FOLDER = "/job"
"""The folder of a job's source inside the sandbox, read-only."""
OWN_CODE = f"{JOB_FOLDER}/.stockade"
"""The folder in which a zygote finds stockade's code. The folder of a job hides it from the guest."""


@dataclass(frozen=True)
class Interpreter:
    """A program that runs source text. Its properties are its own answers on this host."""

    executable: str
    version: tuple[int, ...]
    places: tuple[str, ...] = ()
    """The host files and folders that belong to it."""
    own_tasks: int = 1
    """Threads that the interpreter needs for itself, including its main thread."""

    @property
    def release(self) -> str:
        """The version in its usual form, such as ``3.1.2``."""
        return ".".join(map(str, self.version))


class Language(Protocol):
    """Turns the source of one language into a command."""

    @property
    def name(self) -> str:
        """The language's main name, in lower case."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names for the language."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File name suffixes, each with its dot."""

    @property
    def counts_operations(self) -> bool:
        """Whether the language's agent counts lines and loop iterations."""

    def interpreter(self, named: str | None = None) -> Interpreter:
        """Return the interpreter ``named``, or the default one.

        Raises ``JobError`` with an install hint if the interpreter is missing.
        """

    def command(self, job: Job, plan: Plan, folder: str = JOB_FOLDER) -> Command:
        """Return the command that runs ``job``. The guest finds the job's files in ``folder``.

        Raises ``JobError`` if the interpreter is missing, or lacks something that the job asks for.
        """
