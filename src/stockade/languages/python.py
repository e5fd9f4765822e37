"""Python: the caller's own interpreter, or a named one, or a named virtual environment."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from stockade._errors import JobError
from stockade._facts import HostFacts
from stockade._job import Command, Job
from stockade.languages.base import JOB_FOLDER

_AGENT = Path(__file__).parent / "agents" / "python_agent.py"
_ASK = (
    "import json, sys, sysconfig; print(json.dumps([sys.executable, sys.version_info[:2], "
    "[sys.prefix, sys.base_prefix, sys.base_exec_prefix]]))"
)
_ASK_SECONDS = 20


@dataclass(frozen=True)
class _Interpreter:
    executable: str
    folders: tuple[str, ...]


class Python:
    """CPython 3.8 or newer."""

    name = "python"
    aliases = ("py", "python3")
    suffixes = (".py",)
    own_tasks = 1

    def command(self, job: Job, facts: HostFacts, folder: str = JOB_FOLDER) -> Command:  # noqa: ARG002
        """Return the command that runs the source under the agent, which reports value and error."""
        interpreter = _own() if job.interpreter is None else _named(job.interpreter)
        script = f"{folder}/{job.name or 'main.py'}"
        agent = f"{folder}/.agent/agent.py"
        return Command(
            argv=(interpreter.executable, "-B", agent, script, *job.arguments),
            files={script: job.source or b"", agent: _agent()},
            readable=interpreter.folders,
            channel=True,
        )


@lru_cache(maxsize=1)
def _agent() -> bytes:
    return _AGENT.read_bytes()


@lru_cache(maxsize=1)
def _own() -> _Interpreter:
    """Return the interpreter that runs this very process, without its virtual environment."""
    executable = Path(getattr(sys, "_base_executable", None) or sys.executable or "")
    if not executable.is_file():
        raise JobError("this program has no Python executable of its own; name an interpreter")
    folders = dict.fromkeys((sys.base_prefix, sys.base_exec_prefix))
    return _Interpreter(str(executable.resolve()), tuple(folders))


@lru_cache(maxsize=32)
def _named(name: str) -> _Interpreter:
    """Return the interpreter that ``name`` (an executable or a virtual environment) stands for.

    It is asked, once, so that a version manager's shim gives way to the real executable.
    """
    path = Path(name).expanduser().absolute()
    executable = path / "bin" / "python" if path.is_dir() else path
    if not executable.is_file():
        raise JobError(f"interpreter {name!r}: {executable} is not there")
    try:
        answer = subprocess.run(
            [str(executable), "-I", "-c", _ASK], capture_output=True, check=True, timeout=_ASK_SECONDS, text=True
        )
        real, version, folders = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise JobError(f"interpreter {name!r} does not answer as a Python does: {error}") from error
    if tuple(version) < (3, 8):
        raise JobError(f"interpreter {name!r} is Python {version[0]}.{version[1]}; 3.8 is the oldest that can be used")
    in_environment = folders[0] != folders[1]
    return _Interpreter(real if in_environment else str(Path(real).resolve()), tuple(dict.fromkeys(folders)))
