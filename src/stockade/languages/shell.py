"""Shell scripts: bash if it is installed, else the system's sh."""

from __future__ import annotations

from pathlib import Path

from stockade.core.errors import JobError
from stockade.languages.base import JOB_FOLDER, Interpreter, of_image
from stockade.planning.plan import Plan
from stockade.runs.job import Command, Job

_SHELLS = ("/bin/bash", "/bin/sh")


class Shell:
    """The system's shell."""

    name = "shell"
    aliases = ("sh", "bash")
    suffixes = (".sh", ".bash")
    counts_operations = False

    def interpreter(self, named: str | None = None) -> Interpreter:
        """Return the shell, without its version."""
        inside = of_image(self.name, named)
        if inside is not None:
            return inside
        path = named or next((path for path in _SHELLS if Path(path).exists()), "")
        if not path:
            raise JobError(
                f"no shell is installed: neither {' nor '.join(_SHELLS)} is there; install it: apt install dash"
            )
        return Interpreter(path, ())

    def command(self, job: Job, plan: Plan, folder: str = JOB_FOLDER) -> Command:  # noqa: ARG002
        """Return ``bash SCRIPT ARGUMENTS``."""
        if job.packages is not None:
            raise JobError("packages: the shell has no packages; they are for Python, Ruby and JavaScript")
        script = f"{folder}/{job.name or 'main.sh'}"
        shell = self.interpreter(job.interpreter).executable
        return Command(argv=(shell, script, *job.arguments), files={script: job.source or b""})
