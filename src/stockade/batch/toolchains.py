"""Compilers outside of the system's folders: where they are installed, and which folder a sandbox must show."""

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
_COMPANIONS = {"javac": ("jar", "java")}
"""Other programs that must be in the same folder."""
_LOCATE_ARGUMENTS = {"rustc": ("--print", "sysroot"), "go": ("env", "GOROOT")}
"""Arguments that make a tool print its installation folder. The named file may be a version manager's own program."""


class Toolchain(NamedTuple):
    """A compiler that was found."""

    program: Path
    folder: Path
    """The installation folder, with everything that the compiler needs; its programs are in the folder ``bin``."""


@lru_cache(maxsize=32)
def located(tool: str, named: str) -> Toolchain:
    """Return the compiler at the path ``named``: the ``tool`` itself, or the folder in which it is installed.

    Raises ``JobError`` if it is not there, or if its folder holds more than a compiler.
    """
    path = Path(named).expanduser().absolute()
    program = path / "bin" / tool if path.is_dir() else path
    if not os.access(program, os.X_OK):
        raise JobError(f"compiler {named!r}: {program} does not exist, or is not executable")
    if tool in _LOCATE_ARGUMENTS:
        folder = Path(os.path.realpath(_output_of(program, *_LOCATE_ARGUMENTS[tool])))
        program = folder / "bin" / tool
    else:
        folder = Path(os.path.realpath(program)).parents[1]
    missing = [each for each in (tool, *_COMPANIONS.get(tool, ())) if not os.access(folder / "bin" / each, os.X_OK)]
    if missing and tool in (*_LOCATE_ARGUMENTS, *_COMPANIONS):
        raise JobError(
            f"compiler {named!r}: {folder}/bin has no {missing[0]}; name a compiler of a complete installation"
        )
    if folder in _homes() or len(folder.parts) < 2:
        raise JobError(f"compiler {named!r}: {folder} holds more than a compiler; install it in a folder of its own")
    return Toolchain(program, folder)


def _output_of(path: Path, *arguments: str) -> str:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "RUSTUP_HOME") if name in os.environ}
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, check=True, timeout=_SECONDS, text=True, env=_set_home(environment)
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise JobError(f"compiler {str(path)!r} does not say where it is installed: {error}") from None
    return done.stdout.strip()


def _set_home(environment: Mapping[str, str]) -> dict[str, str]:
    return {"HOME": str(Path.home()), **environment}


def _homes() -> set[Path]:
    return {Path(os.path.realpath(entry.pw_dir)) for entry in pwd.getpwall()} | {Path.home()}
