"""Find programs of the host that build sandboxes, ask for their version, and try each once. Nothing is assumed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from stockade.core.dataclass import dataclass
from stockade.linux.uids import first_uid

_SECONDS = 0.9  # the two queries must take under two seconds together
_EVIDENCE = 300


@dataclass(frozen=True)
class Engine:
    """The result of looking for one program."""

    path: str = ""
    version: tuple[int, ...] = ()
    options: frozenset[str] = frozenset()
    """The long options in its help text."""
    trouble: str = ""
    """Why the program is unusable; empty if the trial succeeded."""


def look(
    name: str,
    trial: tuple[str, ...],
    *,
    as_root: bool = False,
    through: tuple[str, ...] = (),
    seconds: float = _SECONDS,
) -> Engine:
    """Return the engine of the program ``name``; with the arguments ``trial``, it must exit with status 0.

    ``through`` is a command that prepares the trial: it gets the program's path and ``trial`` as further arguments.
    ``seconds`` is how long the trial may take.
    If root calls, an ordinary user runs the trial, as in a run, unless ``as_root``. A trial is repeated only after the
    program changes. PATH is searched again only after PATH changes, or the program is gone.
    """
    key = name, os.environ.get("PATH", os.defpath)
    place = _places.get(key)
    if place is None or not place.exists():
        found = shutil.which(name)
        if found is None:
            return Engine(trouble=f"{name} is not installed")
        place = _places[key] = Path(os.path.realpath(found))
    return _tried(str(place), place.stat().st_mtime_ns, trial, as_root, through, seconds)


_places: dict[tuple[str, str], Path] = {}
"""The path of each program by its name and PATH. A search takes longer than all other work before a run."""


@lru_cache(maxsize=16)
def _tried(
    path: str, _changed: int, trial: tuple[str, ...], as_root: bool, through: tuple[str, ...], seconds: float
) -> Engine:
    version, trouble = _ask(path, ("--version",), as_root)
    numbers = re.search(r"\d+(\.\d+)+", version)
    if trouble or numbers is None:
        return Engine(path=path, trouble=trouble or f"{path} --version says {version[:_EVIDENCE]!r}")
    text, trouble = _ask(path, ("--help",), as_root)
    options = frozenset(re.findall(r"--[a-z][a-z0-9-]+", text))
    if not trouble:
        _, trouble = _ask(path, trial, as_root, through, seconds)
    return Engine(path, tuple(map(int, numbers[0].split("."))), options, trouble)


def _ask(
    path: str, arguments: tuple[str, ...], as_root: bool, through: tuple[str, ...] = (), seconds: float = _SECONDS
) -> tuple[str, str]:
    """Return the program's output, and the reason of a failure or an empty text."""
    uid = first_uid() if os.geteuid() == 0 and not as_root else None
    try:
        answer = subprocess.run(
            [*through, path, *arguments], capture_output=True, text=True, errors="replace", timeout=seconds,
            check=False, stdin=subprocess.DEVNULL, cwd="/", env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            user=uid, group=uid, extra_groups=None if uid is None else (),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"{path} cannot be run: {error}"
    evidence = (answer.stderr.strip() or answer.stdout.strip())[-_EVIDENCE:]
    return answer.stdout, "" if answer.returncode == 0 else f"{path}: exit status {answer.returncode}: {evidence}"
