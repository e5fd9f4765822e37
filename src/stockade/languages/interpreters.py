"""Find an interpreter on the host, and ask it about itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stockade.core.errors import JobError

_SECONDS = 20


def locate(named: str | None, default_names: Sequence[str], install: str) -> str:
    """Return the path of the interpreter ``named``, or of the first of ``default_names`` on the caller's PATH."""
    if named is not None:
        path = Path(named).expanduser().absolute()
        if not path.is_file():
            raise JobError(f"interpreter {named!r}: {path} is not there")
        return str(path)
    for name in default_names:
        found = shutil.which(name)
        if found is not None:
            return str(Path(found).absolute())
    raise JobError(
        f"{default_names[0]} is not installed: no {' or '.join(default_names)} on the PATH; install it: {install}"
    )


def ask(executable: str, *arguments: str, kind: str, asked: str | None = None) -> list[Any]:
    """Run the interpreter with ``arguments``, and return the list that it prints as JSON.

    It runs outside of any sandbox, as the caller's own program, without environment variables that could change its
    behaviour. Raises ``JobError``, naming ``asked``, if it does not answer like an interpreter of this ``kind``.
    """
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {"LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            [executable, *arguments], capture_output=True, check=True, timeout=_SECONDS, text=True, env=environment
        )
        answer = json.loads(done.stdout)
        if isinstance(answer, list):
            return answer
        raise ValueError(f"it printed {done.stdout[:80]!r}")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = f"it exits with {error.returncode}" if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise JobError(f"interpreter {asked or executable!r} does not answer like {kind}: {why}") from error


def version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version: ``"3.1.2p20"`` becomes ``(3, 1, 2)``."""
    return tuple(map(int, re.findall(r"[0-9]+", text)[:3]))
