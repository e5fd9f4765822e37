"""Languages with a compiler: a program is compiled once, in a sandbox, and run from what came out for each case.

What comes out of the compiler's sandbox is as hostile as what went in. It goes nowhere but into another sandbox.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stockade._errors import JobError
from stockade._given import job_from_command
from stockade._job import Job
from stockade._result import Result

COMPILE_LIMITS: Mapping[str, Any] = {
    "cpu_time": 30, "wall_time": 60, "memory": 1 << 30, "processes": 32, "disk": 256 << 20, "file_size": 64 << 20,
    "output": 32 << 20,
}  # fmt: skip
"""Of the compiler; ``output`` bounds the size of the program that it makes."""
_PROGRAM = "program"
_RUN = f'chmod +x ./{_PROGRAM} && exec ./{_PROGRAM} "$@"'
_PATH = "/usr/local/bin:/usr/bin:/bin"  # a sandbox's own


@dataclass(frozen=True)
class Compiler:
    """How one language is compiled."""

    source: str
    """The file's name: compilers go by its suffix."""
    tool: str
    command: str
    """For the shell; leaves the program in the file ``program``."""


_COMPILERS = {
    "c": Compiler("main.c", "gcc", f"gcc -O2 -o {_PROGRAM} main.c -lm"),
    "c++": Compiler("main.cpp", "g++", f"g++ -O2 -o {_PROGRAM} main.cpp"),
    "rust": Compiler("main.rs", "rustc", f"rustc -O -o {_PROGRAM} main.rs"),
}
_ALIASES = {"cpp": "c++", "cxx": "c++", "cc": "c++", "rs": "rust"}
SUFFIXES = {".c": "c", ".cpp": "c++", ".cc": "c++", ".cxx": "c++", ".rs": "rust"}


def is_compiled(language: str) -> bool:
    """Return whether programs in a language are compiled first."""
    name = language.lower()
    return _ALIASES.get(name, name) in _COMPILERS


def find(language: str) -> Compiler | None:
    """Return the compiler of a language, if it has one. Raises ``JobError`` where it is not installed here."""
    name = language.lower()
    compiler = _COMPILERS.get(_ALIASES.get(name, name))
    if compiler is not None and shutil.which(compiler.tool, path=_PATH) is None:
        raise JobError(f"language = {language!r}: {compiler.tool} is not installed in {_PATH}")
    return compiler


def compiling(compiler: Compiler, source: str, files: Mapping[str, bytes]) -> Job:
    """Return the job whose standard output is the program."""
    return job_from_command(
        ["sh", "-c", f"{compiler.command} >&2 && cat {_PROGRAM}"], files={**files, compiler.source: source}
    )


def program_of(result: Result) -> bytes | None:
    """Return the program that a compiler's run has made, whole; ``None`` if it has made none."""
    whole = result.ok and not result.stdout_truncated
    return result.stdout_bytes if whole else None


def running(program: bytes, stdin: str, files: Mapping[str, bytes]) -> Job:
    """Return the job of running a compiled program."""
    return job_from_command(["sh", "-c", _RUN], stdin=stdin, files={**files, _PROGRAM: program})
