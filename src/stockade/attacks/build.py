"""Compiles attacks in C on demand. The programs are static, so they need no libraries where they run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from stockade.attacks import outside

_COMPILERS = ("cc", "gcc", "clang")
_SECONDS = 60


class BuildError(Exception):
    """No compiler is installed, or the compiler failed."""


@lru_cache(maxsize=64)
def program(source: str) -> bytes:
    """Return the compiled program; raise ``BuildError`` with the last line of the compiler's output."""
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise BuildError(f"no C compiler: none of {', '.join(_COMPILERS)} is installed")
    with tempfile.TemporaryDirectory(prefix=outside.prefix()) as folder:
        made, text = Path(folder, "attack"), Path(folder, "attack.c")
        text.write_text(source, encoding="utf-8")
        try:
            done = subprocess.run(
                [compiler, "-static", "-O1", "-pthread", "-o", made, text],
                capture_output=True, text=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise BuildError(f"{compiler}: {error}") from None
        if done.returncode != 0:
            last_line = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise BuildError(f"{compiler} cannot make a static program: {last_line}")
        return made.read_bytes()
