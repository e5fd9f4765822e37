"""The built-in languages, as data. Each is imported at its first use."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import PurePath

from stockade.core.errors import JobError, nearest
from stockade.core.loading import load
from stockade.languages.base import Language

BUILT_IN = {
    "python": "stockade.languages.python:Python",
    "ruby": "stockade.languages.ruby:Ruby",
    "javascript": "stockade.languages.javascript:JavaScript",
    "shell": "stockade.languages.shell:Shell",
}
COMPILED = ("c", "c++", "go", "java", "rust")
"""Further languages of ``stockade eval``, which compiles their source first."""
COMPILED_SUFFIXES = {
    ".c": "c", ".cpp": "c++", ".cc": "c++", ".cxx": "c++", ".rs": "rust", ".go": "go", ".java": "java",
}  # fmt: skip
_ALIASES = {
    "py": "python", "python3": "python", "rb": "ruby", "js": "javascript", "node": "javascript", "nodejs": "javascript",
    "sh": "shell", "bash": "shell",
}  # fmt: skip
_ALSO = f"'stockade eval' also takes {', '.join(COMPILED)}"
_SUFFIXES = {
    ".py": "python", ".rb": "ruby", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".sh": "shell", ".bash": "shell",
}  # fmt: skip


def find(name: str | Language) -> Language:
    """Return the language with this name or alias. A language object is returned as it is."""
    if not isinstance(name, str):
        if not hasattr(name, "command"):
            raise JobError(f"a language is a name or an object with a command, not {name!r:.80}")
        return name
    key = _ALIASES.get(name.lower(), name.lower())
    if key not in BUILT_IN:
        known = sorted((*BUILT_IN, *_ALIASES))
        meant = f"; did you mean {near!r}?" if (near := nearest(key, known)) else ""
        raise JobError(f"there is no language {name!r}{meant}; there are: {', '.join(known)}; {_ALSO}")
    return _made(key)


@cache
def _made(key: str) -> Language:
    found: Language = load(BUILT_IN[key])()
    return found


def by_suffix(path: PurePath) -> str:
    """Return the name of the language for a file's suffix."""
    suffix = path.suffix.lower()
    if suffix in COMPILED_SUFFIXES:
        raise JobError(_compiled(path, COMPILED_SUFFIXES[suffix]))
    if suffix not in _SUFFIXES:
        known = ", ".join(sorted(_SUFFIXES))
        raise JobError(
            f"{path}: no language has the suffix {path.suffix!r} (known: {known}); name the language: "
            f"language='NAME', or --language NAME; {_ALSO}"
        )
    return _SUFFIXES[suffix]


def _compiled(path: PurePath, language: str) -> str:
    """Return how to run the program at ``path``, which has to be compiled first."""
    compiler = {"c": "gcc", "c++": "g++"}.get(language)
    words = f"{compiler} {shlex.quote(path.name)} -o /tmp/program && /tmp/program" if compiler else "COMPILE && RUN"
    more = "" if compiler else "--limit processes=64 "  # these compilers start threads
    how = f"stockade run {more}--workspace {shlex.quote(str(path.parent))} -- sh -c {shlex.quote(words)}"
    return f"{path}: {language} is compiled first, and one command can do both: {how}; {_ALSO}"
