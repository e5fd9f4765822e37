"""Compilers that lie outside of the system's folders: where they are, and what a sandbox has to show of them."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from stockade.core.errors import JobError

_SECONDS = 20
_MORE = {"javac": ("jar", "java")}
"""Which other programs of the same folder are needed."""
_QUESTIONS = {"rustc": ("--print", "sysroot"), "go": ("env", "GOROOT")}
"""How a tool is asked for the folder that it is installed in: what is named may be a version manager's own program."""


class Toolchain(NamedTuple):
    """A compiler as it was found."""

    program: Path
    folder: Path
    """In which it is installed, with all that it needs; its programs lie in ``bin`` there."""


@lru_cache(maxsize=32)
def located(tool: str, named: str) -> Toolchain:
    """Return the compiler that ``named`` leads to: the ``tool`` itself, or the folder in which it is installed.

    Raises ``JobError`` where it is not there, or where its folder holds more than a compiler.
    """
    path = Path(named).expanduser().absolute()
    program = path / "bin" / tool if path.is_dir() else path
    if not os.access(program, os.X_OK):
        raise JobError(f"compiler {named!r}: {program} is not there, or cannot be executed")
    if tool in _QUESTIONS:
        folder = Path(os.path.realpath(_asked(program, *_QUESTIONS[tool])))
        program = folder / "bin" / tool
    else:
        folder = Path(os.path.realpath(program)).parents[1]
    missing = [each for each in (tool, *_MORE.get(tool, ())) if not os.access(folder / "bin" / each, os.X_OK)]
    if missing and tool in (*_QUESTIONS, *_MORE):
        raise JobError(f"compiler {named!r}: {folder}/bin has no {missing[0]}; name the one of a whole installation")
    if folder in _homes() or len(folder.parts) < 2:
        raise JobError(f"compiler {named!r}: {folder} holds more than a compiler; install it in a folder of its own")
    return Toolchain(program, folder)


def _asked(path: Path, *words: str) -> str:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "RUSTUP_HOME") if name in os.environ}
    try:
        done = subprocess.run(
            [path, *words], capture_output=True, check=True, timeout=_SECONDS, text=True, env=_set_home(environment)
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise JobError(f"compiler {str(path)!r} does not say where it is installed: {error}") from None
    return done.stdout.strip()


def _set_home(environment: Mapping[str, str]) -> dict[str, str]:
    return {"HOME": str(Path.home()), **environment}


def _homes() -> set[Path]:
    return {Path(os.path.realpath(entry.pw_dir)) for entry in pwd.getpwall()} | {Path.home()}
