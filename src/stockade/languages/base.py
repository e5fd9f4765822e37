"""What a language is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stockade.planning.plan import Plan
from stockade.runs.job import Command, Job

JOB_FOLDER = "/job"
"""Where a job's source lies inside the sandbox, read-only."""
OWN_CODE = f"{JOB_FOLDER}/.stockade"
"""Where an interpreter that is kept warm finds what it needs of this package; a job's own folder hides it."""


@dataclass(frozen=True)
class Interpreter:
    """A program that runs source text, as it was found on the host and answered for itself."""

    executable: str
    version: tuple[int, ...]
    places: tuple[str, ...] = ()
    """Files and folders of the host that it consists of."""
    own_tasks: int = 1
    """Threads that it needs for itself, its main one included."""

    @property
    def release(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version))


class Language(Protocol):
    """How the source of one language becomes a command."""

    @property
    def name(self) -> str:
        """The language's usual name, in lower case."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names people use."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File name suffixes, with the dot."""

    @property
    def counts_operations(self) -> bool:
        """Whether its agent counts lines and turns of loops."""

    def interpreter(self, named: str | None = None) -> Interpreter:
        """Return the interpreter ``named``, or the usual one.

        Raises ``JobError`` saying what to install if there is none.
        """

    def command(self, job: Job, plan: Plan, folder: str = JOB_FOLDER) -> Command:
        """Return the command that runs ``job``, whose own files the guest finds in ``folder``.

        Raises ``JobError`` if the interpreter, or what the job wants of it, is not there.
        """
