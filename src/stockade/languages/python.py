"""Python: the caller's own interpreter, a named one, or the one of a virtual environment."""

from __future__ import annotations

import platform
import sys
from functools import lru_cache
from pathlib import Path

from stockade.core.errors import JobError
from stockade.languages import interpreters
from stockade.languages.base import JOB_FOLDER, Interpreter, of_image
from stockade.planning.plan import Plan
from stockade.policy.guarantees import Guarantee
from stockade.runs.job import Command, Job, Template

_AGENT = Path(__file__).parent / "agents" / "python_agent.py"
_START, _ZYGOTE = (_AGENT.with_name(f"python_{name}.py") for name in ("start", "zygote"))
_ASK = (
    "import json, platform, sys; print(json.dumps([sys.executable, platform.python_version(), "
    "[sys.prefix, sys.base_prefix, sys.base_exec_prefix]]))"
)
_ONE_THREAD = tuple((f"{library}_NUM_THREADS", "1") for library in ("OPENBLAS", "OMP", "MKL"))
"""Some libraries start threads when they are imported, and a fork does not inherit them."""
BIND_NOW = ("LD_BIND_NOW", "1")
"""Bind all functions of a library when it is loaded (ld.so(8)); else each guest would do so at its first calls."""
_OLDEST = (3, 8)
OLDEST_WARM = (3, 11)  # a zygote runs stockade's own code


class Python:
    """CPython 3.8 or newer."""

    name = "python"
    aliases = ("py", "python3")
    suffixes = (".py",)
    counts_operations = True

    def interpreter(self, named: str | None = None) -> Interpreter:
        """Return the named interpreter, or the one that runs this process, without its virtual environment."""
        return of_image(self.name, named) or (_own() if named is None else _named(named))

    def command(self, job: Job, plan: Plan, folder: str = JOB_FOLDER) -> Command:
        """Return the command that runs the source under the agent, which reports value and error."""
        found = self.interpreter(_environment(job) or job.interpreter)
        script = f"{folder}/{job.name or 'main.py'}"
        agent = f"{folder}/.agent/agent.py"
        operations = plan.policy.limits.figure(Guarantee.OPERATIONS) or 0
        packages = (job.packages,) if job.packages else ()
        return Command(
            argv=(found.executable, "-B", agent, f"{operations:.0f}", script, *job.arguments),
            files={script: job.source or b""},
            agent=((agent, _agent()),),
            readable=tuple(each for each in found.places if each not in packages),
            packages=packages,
            channel=True,
            template=_template(found, job.preload, f"{folder}/.agent") if job.warm is not False else None,
        )


@lru_cache(maxsize=64)
def _template(found: Interpreter, preload: tuple[str, ...], folder: str) -> Template | None:
    """Return how to start this interpreter as a zygote, with the command line of a fresh one."""
    if found.version < OLDEST_WARM:
        return None
    agent = f"{folder}/agent.py"
    return Template(
        argv=(found.executable, "-B", agent, "0", f"{folder.rpartition('/')[0]}/main.py"),
        shown=((str(_START), agent), (str(_ZYGOTE), f"{folder}/zygote.py"), (str(_AGENT), f"{folder}/run.py")),
        files=((f"{folder}/preload", "\n".join(preload).encode()),),
        environment=(BIND_NOW, *(_ONE_THREAD if preload else ())),
    )


@lru_cache(maxsize=1)
def of_the_system() -> str:
    """Return the path of a Python that every sandbox shows and that can run zygotes, or an empty text."""
    for name in (None, "/usr/bin/python3"):
        try:
            found = Python().interpreter(name)
        except JobError:
            continue
        places = (found.executable, *found.places)
        if found.version >= OLDEST_WARM and all(Path(place).is_relative_to("/usr") for place in places):
            return found.executable
    return ""


def _environment(job: Job) -> str | None:
    """Return the virtual environment with the job's packages, if it names one."""
    if job.packages is None:
        return None
    if job.interpreter is not None:
        raise JobError("packages: a virtual environment has an interpreter of its own; leave interpreter out")
    if not Path(job.packages, "pyvenv.cfg").is_file():
        raise JobError(
            f"packages: {job.packages} is not a virtual environment (it has no pyvenv.cfg); make one: "
            f"python3 -m venv {job.packages}"
        )
    return job.packages


@lru_cache(maxsize=1)
def _agent() -> bytes:
    return _AGENT.read_bytes()


@lru_cache(maxsize=1)
def _own() -> Interpreter:
    executable = Path(getattr(sys, "_base_executable", None) or sys.executable or "")
    if not executable.is_file():
        raise JobError("this program has no Python executable of its own; name an interpreter")
    folders = dict.fromkeys((sys.base_prefix, sys.base_exec_prefix))
    return Interpreter(str(executable.resolve()), interpreters.version(platform.python_version()), tuple(folders))


@lru_cache(maxsize=32)
def _named(name: str) -> Interpreter:
    """Return the interpreter for ``name``, an executable or a virtual environment.

    The interpreter itself is asked once for its path, because ``name`` may be a shim of a version manager.
    """
    path = Path(name).expanduser().absolute()
    executable = path / "bin" / "python" if path.is_dir() else path
    if not executable.is_file():
        raise JobError(f"interpreter {name!r}: {executable} is not there")
    real, text, folders = interpreters.ask(str(executable), "-I", "-c", _ASK, kind="Python", asked=name)
    found = interpreters.version(text)
    if found < _OLDEST:
        raise JobError(f"interpreter {name!r} is Python {text}; 3.8 is the oldest that can be used")
    in_environment = folders[0] != folders[1]
    own = real if in_environment else str(Path(real).resolve())
    places = dict.fromkeys(folders)
    if not any(Path(own).is_relative_to(place) for place in places):
        places[own] = None  # the executable may lie outside of its library's folders
    return Interpreter(own, found, tuple(places))
