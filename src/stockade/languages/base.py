"""The interface of a language, and of an interpreter that was found on the host."""

from __future__ import annotations

from typing import Protocol

from stockade.core.dataclass import dataclass
from stockade.planning.plan import Plan
from stockade.runs.job import Command, Job

JOB_FOLDER = "/job"
"""The folder of a job's source inside the sandbox, read-only."""
OWN_CODE = f"{JOB_FOLDER}/.stockade"
"""The folder in which a zygote finds stockade's code. The folder of a job hides it from the guest."""


IN_IMAGE = "image:"
"""The prefix of ``Job.interpreter`` for a program that an image brings along: its name or path there follows."""
_IN_IMAGE = {"python": ("python3", 1), "ruby": ("ruby", 1), "javascript": ("node", 11), "shell": ("sh", 1)}
"""Program and own tasks of each language's interpreter in an image, which nobody has asked."""


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


def in_image(language: str, named: str | None) -> str:
    """Return the ``Job.interpreter`` for the program ``named`` of an image, or for the language's usual one there."""
    return IN_IMAGE + (named or _IN_IMAGE.get(language, (language, 1))[0])


def of_image(language: str, named: str | None) -> Interpreter | None:
    """Return the interpreter that ``in_image`` named, without a version; ``None`` if ``named`` is one of the host."""
    if named is None or not named.startswith(IN_IMAGE):
        return None
    return Interpreter(named.removeprefix(IN_IMAGE), (), own_tasks=_IN_IMAGE.get(language, ("", 1))[1])


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
