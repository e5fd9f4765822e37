"""The caller's files that a run sees: those that words of the command line name, and those that ``--file`` copies."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

from stockade.core.errors import JobError

_PYTHONS = ("python", "pypy")


def inputs(argv: Sequence[str], without: Collection[str] = ()) -> tuple[str, ...]:
    """Return the words of ``argv`` that name existing files or folders below the current folder.

    A word counts if it is relative, has no ``..`` in it and leads, through any links, to a regular file or folder below
    the current folder. The program's own name counts only with a slash in it; otherwise the PATH is searched for it. A
    path inside of another chosen folder is left out. ``python3 -m app.main`` names the folder ``app``, or ``app.py``.
    """
    words = argv if "/" in argv[0] else argv[1:]
    return named_in((*words, *_modules(argv)), without)


def named_in(words: Sequence[str], without: Collection[str] = ()) -> tuple[str, ...]:
    """Return the words that name existing files or folders, as ``inputs`` does, but not those in ``without``."""
    try:
        root = os.path.realpath(".")
    except FileNotFoundError:
        return ()  # the current folder was deleted, so no word names a file
    found = dict.fromkeys(name for word in words if (name := _name(word)) and _lies_in(root, name))
    found = {name: None for name in found if name not in without}
    return tuple(name for name in found if not any(name.startswith(other + "/") for other in found))


def copied(values: Sequence[str]) -> tuple[dict[str, bytes], frozenset[str]]:
    """Return the files that ``--file NAME[=PATH]`` copies into the workspace, and the names that may be executed."""
    files: dict[str, bytes] = {}
    executables = set()
    for value in values:
        name, _, path = value.partition("=")
        name = os.path.normpath(name) if name else ""
        if not name or name == "." or name.startswith("/") or name.split("/")[0] == "..":
            proposed = f"--file {Path(value).name or 'NAME'}={value}"
            raise JobError(f"--file {value}: a name in the workspace is relative, without '..'; write {proposed}")
        if name in files:
            raise JobError(f"--file {value}: another --file has the name {name}; give each file a name of its own")
        files[name], executable = _content(value, path or name)
        if executable:
            executables.add(name)
    return files, frozenset(executables)


def _content(value: str, path: str) -> tuple[bytes, bool]:
    """Return the content of a regular file, and whether its owner may execute it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise JobError(f"--file {value}: {path}: {reason}; name a file as NAME=PATH") from None
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        what, remedy = "not a regular file", f"pass its content on standard input: < {path}"
        if stat.S_ISDIR(mode):
            what, remedy = "a folder", f"--workspace {path} starts in it, and --archive takes it packed"
        raise JobError(f"--file {value}: {path} is {what}; {remedy}")
    with os.fdopen(fd, "rb") as file:
        return file.read(), bool(mode & stat.S_IXUSR)


def _modules(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that the module after ``-m`` can have, if the command is a Python."""
    if not Path(argv[0]).name.startswith(_PYTHONS):
        return ()
    for number, word in enumerate(argv[1:], 1):
        if not word.startswith("-"):
            break
        if word.startswith("-m"):
            top = (word[2:] or "".join(argv[number + 1 : number + 2])).split(".")[0]
            return (top, f"{top}.py") if top.isidentifier() else ()
    return ()


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
