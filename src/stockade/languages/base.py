"""What a language is."""

from __future__ import annotations

from typing import Protocol

from stockade._facts import HostFacts
from stockade._job import Command, Job

JOB_FOLDER = "/job"
"""Where a job's source lies inside the sandbox, read-only."""


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
    def own_tasks(self) -> int:
        """Threads that the interpreter needs for itself, its main one included."""

    def command(self, job: Job, facts: HostFacts, folder: str = JOB_FOLDER) -> Command:
        """Return the command that runs ``job``, whose own files the guest finds in ``folder``."""
