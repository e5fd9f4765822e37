"""Choose the words of a command that name files below the current folder. The sandbox shows those files."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path


def inputs(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words of ``argv`` that name existing files or folders below the current folder.

    A word counts if it is relative, has no ``..`` in it and leads, through any links, to a regular file or folder below
    the current folder. The program's own name counts only with a slash in it; otherwise the PATH is searched for it. A
    path inside of another chosen folder is left out.
    """
    try:
        root = os.path.realpath(".")
    except FileNotFoundError:
        return ()  # the current folder was deleted, so no word names a file
    words = argv if "/" in argv[0] else argv[1:]
    found = dict.fromkeys(name for word in words if (name := _name(word)) and _lies_in(root, name))
    return tuple(name for name in found if not any(name.startswith(other + "/") for other in found))


def _name(word: str) -> str:
    """Return the word as a plain relative path, or an empty string if it is not one."""
    if not word or word.startswith("/") or "\0" in word or ".." in word.split("/"):
        return ""
    name = os.path.normpath(word)
    return "" if name == "." else name


def _lies_in(root: str, name: str) -> bool:
    try:
        real = os.path.realpath(name, strict=True)
        mode = Path(real).stat().st_mode
    except OSError:
        return False
    below = real.startswith(root.rstrip("/") + "/")
    return below and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
