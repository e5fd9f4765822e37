"""Check source text in a sandbox: a parser that fails on hostile text harms nobody there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any

from stockade.advice.isolated.checker import LONGEST_MESSAGE, MOST
from stockade.advice.record import Advice, AdviceKind
from stockade.api.job_arguments import Source, job_from_source
from stockade.api.runner import Runner
from stockade.core.errors import JobError, SetupError
from stockade.core.hints import known_options
from stockade.policy.model import Policy
from stockade.runs.result import Outcome, Result

if TYPE_CHECKING:
    from stockade.backends.base import Backend

LONGEST_SOURCE = 256 << 10
_PACKAGE = "stockade.advice.isolated"
_MODULES = ("calls", "loops", "patterns", "checker")
_MAIN = """
import sys
path = sys.path[:]
sys.path.insert(0, ".")
from stockade.advice.isolated.checker import check
import json
check(sys.stdin.buffer.read(), json.loads(sys.argv[1]), path)
"""
_POLICY = {
    "limits": {"memory": "512MiB", "cpu_time": 20, "wall_time": 40, "processes": 1},
    "accept": {"disk": "absent", "process_view": "absent", "no_survivors": "supervisor"},
}
"""The checker is our own code, and the source is only its input. So a host without namespaces is good enough."""
_MOST_NAMES = 1000


@known_options
def check(
    source: Source,
    *,
    language: str | None = None,
    interpreter: str | os.PathLike[str] | None = None,
    packages: str | os.PathLike[str] | None = None,
    requirements: Sequence[str] | None = None,
    files: Iterable[str] = (),
    backend: str | Backend | None = None,
) -> list[Advice]:
    """Return advice on Python source, in the order of its lines: loops without an exit, patterns, calls, imports.

    The check reads the source and does not run it. It is advice, not a wall: code can hide anything from it, and only
    a sandbox holds. ``source``, ``language``, ``interpreter``, ``packages``, ``requirements`` and ``files`` (a
    mapping or names) are those of ``stockade.run``. The interpreter that would run the source parses it in a sandbox of
    its own, within 512 MiB and 20 s of CPU, and looks there for the modules that the source imports.

    Raises ``JobError`` for another language, a source of more than 256 KiB, or one that exceeds these limits, and
    ``PlanError``, ``BackendUnavailable`` or ``SetupError`` if no sandbox can be made.

    >>> stockade.check("import os; os.system('ls')")[0].message
    "os.system starts another program; a sandbox shows the system's own programs, and counts each process"
    """
    job = job_from_source(
        source, language=language, interpreter=interpreter, packages=packages, requirements=requirements
    )
    if job.language != "python":
        raise JobError(f"language: {job.language} cannot be checked; 'stockade check' reads python only")
    names = [] if isinstance(files, str | bytes) else list(files)
    if isinstance(files, str | bytes) or not all(isinstance(name, str) for name in names):
        raise JobError(f"files: expected a mapping or names, such as ['helper.py'], not {files!r:.80}")
    text = job.source or b""
    if len(text) > LONGEST_SOURCE:
        raise JobError(f"source: {len(text):,} bytes are too many to check; at most {LONGEST_SOURCE:,} are read")
    with Runner(Policy.parse(_POLICY), backend=backend, warm=False) as runner:
        result = runner.run(
            _MAIN,
            stdin=text,
            arguments=[json.dumps(names[:_MOST_NAMES])],
            files=_modules(),
            interpreter=interpreter,
            packages=packages,
            requirements=job.requirements or None,
        )
    return _advice(result)


def _advice(result: Result) -> list[Advice]:
    """Return the checker's advice. Its sandbox has parsed hostile text, so every field is checked."""
    if result.outcome is Outcome.SANDBOX_FAILED:
        raise SetupError(f"source: the check could not run: {result.error.message if result.error else 'no sandbox'}")
    if result.outcome is not Outcome.COMPLETED or not isinstance(result.value, list):
        ending = f"its limit on {result.limit}" if result.limit else f"outcome {result.outcome}"
        raise JobError(f"source: the check ended by {ending}; nothing is known about this source")
    try:
        return [_one(*each) for each in result.value[:MOST]]
    except (TypeError, ValueError):
        raise JobError("source: the check returned malformed advice; do not trust this source") from None


def _one(line: Any, column: Any, kind: Any, message: Any) -> Advice:
    if type(line) is not int or type(column) is not int or min(line, column) < 1:
        raise ValueError
    if not isinstance(message, str) or len(message) > LONGEST_MESSAGE:
        raise ValueError
    return Advice(line, column, AdviceKind(kind), message)


@lru_cache(maxsize=1)
def _modules() -> dict[str, bytes]:
    """Return the checker's modules as files of a package, with empty packages around it."""
    folder = _PACKAGE.replace(".", "/")
    parents = [folder.rsplit("/", levels)[0] for levels in range(3)]
    package = resources(_PACKAGE)
    modules = {f"{folder}/{name}.py": (package / f"{name}.py").read_bytes() for name in _MODULES}
    return {**{f"{parent}/__init__.py": b"" for parent in parents}, **modules}
