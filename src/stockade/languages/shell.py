"""Shell scripts: bash where it is installed, else the system's sh."""

from __future__ import annotations

from pathlib import Path

from stockade._facts import HostFacts
from stockade._job import Command, Job
from stockade.languages.base import JOB_FOLDER


class Shell:
    """The system's shell."""

    name = "shell"
    aliases = ("sh", "bash")
    suffixes = (".sh", ".bash")
    own_tasks = 1

    def command(self, job: Job, facts: HostFacts, folder: str = JOB_FOLDER) -> Command:  # noqa: ARG002
        """Return ``bash SCRIPT ARGUMENTS``."""
        shell = job.interpreter or next(path for path in ("/bin/bash", "/bin/sh") if Path(path).exists())
        script = f"{folder}/{job.name or 'main.sh'}"
        return Command(argv=(shell, script, *job.arguments), files={script: job.source or b""})
