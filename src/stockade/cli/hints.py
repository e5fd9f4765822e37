"""Hints after a failed run: a file that the code did not find is there on the host, and how to show it.

The guest writes the text in which the names are looked up, so a guest can choose a name. A hint names a path only if it
lies below the current folder or the script's folder, is not hidden, and leads out of the folder by no link. Nothing is
shown to a guest because of its text.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stockade.backends.shared.guest_environment import lies_below
from stockade.cli.reporting import say

if TYPE_CHECKING:
    from stockade.policy.model import Policy
    from stockade.runs.job import Job
    from stockade.runs.result import Result

_MOST = 3
_TAIL = 8192
_MODULES = re.compile(
    r"No module named '?([\w.]+)|cannot load such file -- (\S+)|Cannot find (?:module|package) '([^'\n]+)'"
)
_FILES = re.compile(
    r"[Nn]o such file or directory(?:, \w+| @ \w+ -|:) ['\"]?([^'\"\n]+)"
    r"|can't open file '([^'\n]+)'|^[^\n]*?([^\s:'][^:'\n]*)'?: No such file(?: or directory)?$"
    r"|cannot open ([^\n]+): No such file",
    re.MULTILINE,
)
_REFUSED = re.compile(
    r"[Pp]ermission denied(?:, \w+| @ \w+ -|:) ['\"]?([^'\"\n]+)|^[^\n]*?([^\s:'][^:'\n]*)'?: Permission denied$",
    re.MULTILINE,
)
_UNREACHED = re.compile(
    r"Could not resolve host|Temporary failure in name resolution|Name or service not known|getaddrinfo (?:EAI|ENOT)"
    r"|Network is unreachable|Failed to establish a new connection",
)
_READ_ONLY = re.compile(r"Read-only file system")
_NO_INPUT = re.compile(r"\bEOFError\b")
_UNCOUNTED = {
    "processes": re.compile(r"Resource temporarily unavailable|can't start new thread|[Cc]annot fork|pthread_create"),
    "memory": re.compile(r"MemoryError\b|std::bad_alloc|[Cc]annot allocate memory|OutOfMemoryError|heap out of memory"),
}
"""What the code says when it is refused more of a limit that has no counter on some hosts."""
_RAISED = ("processes", "disk", "file_size", "memory")
"""Limits whose refusal the code sees as an error of its own, and that a caller may want to raise."""
_ENDINGS = ("", ".py", ".rb", ".js", ".mjs", ".cjs", ".json")
_INSIDE = re.compile(r"^(?:/workspace|/job)/")


def say_hints(result: Result, policy: Policy, job: Job, script: str | None) -> None:
    """Print what would show a missing file to the code. ``script`` is the path of a source's file, if it has one."""
    text = f"{result.stderr[-_TAIL:]}\n{result.error.message if result.error else ''}"
    beside = script if script is not None and Path(script).is_file() else next(filter(os.path.isfile, job.inputs), "")
    own = os.path.normpath(Path(beside).parent)
    start = own if script is not None else "."
    given = (*job.inputs, *job.files)
    missing = (path for path in _there(text, (own, ".")) if not lies_below(path, given))
    found = list(missing)[:_MOST]
    for path in found:
        say(_advice(path, start, policy, job.inputs))
    if not found and result.error is not None and result.error.type == "ModuleNotFoundError" and job.packages is None:
        say("a package for the code: --with NAME downloads it before the run, --packages FOLDER shows an environment")
    if " " in (program := next(iter(job.argv), "")) and result.error and result.error.type == "CommandNotFound":
        say(f"a command is a list of words, without quotes around all of it: stockade run -- {program}")
    for path in list(_closed(text, job.inputs))[:_MOST]:
        say(f"{path} is shown, but its mode closes it to the uid of the guest: chmod o+r, or --file")


def say_general(result: Result, policy: Policy, job: Job, origins: Mapping[str, str]) -> None:
    """Print what opens the network or provides packages, if the code seems to miss one, but no name from the code.

    Also print each limit that refused the code something. ``origins`` tells where each field of the policy is from.
    """
    from stockade.policy.guarantees import Guarantee
    from stockade.runs.result import Met

    text = result.stderr[-_TAIL:]
    if policy.network == "none" and _UNREACHED.search(text):
        say("the code has no network, which is the default; --allow HOST:443 opens one target, --network host all")
    for name, refusal in _UNCOUNTED.items():
        counted = result.limits_met.get(Guarantee(name))
        if counted is not None and counted.state is Met.UNKNOWN and refusal.search(text):
            say(f"the limit on {name} may have been met, which no counter shows here; --limit {name}=MORE raises it")
    for name, state in result.limits_met.items():
        origin = origins.get(f"limits.{name}", "")
        is_lowered = origin.startswith("ceiling ")
        if result.limit == name and is_lowered:
            say(f"the {origin} allows no more {name}")
        if state.state is Met.MET and name in _RAISED and result.limit != name:
            way = f"the {origin} allows no more" if is_lowered else f"--limit {name}=MORE raises it"
            say(f"the limit on {name} was met ({state.evidence}), and the code failed; {way}")
    if job.stdin is None and _NO_INPUT.search(text) and sys.stdin is not None and sys.stdin.isatty():
        say("the code got no input, since standard input is a terminal; --interactive passes it on")
    files = policy.filesystem
    if files.workspace != "empty" and files.way == "read" and _READ_ONLY.search(text):
        say(f"{files.workspace} is shown read-only; --access overlay lets the code write, --commit keeps what it wrote")


def say_misplaced(words: Sequence[str], text: str) -> None:
    """Print which options of stockade came too late, so that the code got them: ``--limit``, and those in ``text``.

    ``text`` is what a failed run has written on standard error. A program may have options of the same names.
    """
    from stockade.cli.commands import stockade
    from stockade.policy.parts import Limits

    run = stockade.get_command(click.Context(stockade), "run")
    own = {name for param in (run.params if run else ()) for name in param.opts if name.startswith("--")}
    for word, following in zip(words, (*words[1:], ""), strict=True):
        option, _, value = word.partition("=")
        is_limit = option == "--limit" and (value or following).partition("=")[0] in Limits.model_fields
        if is_limit or (option in own and option in text):
            say(f"{option} came after the program's name, so the program got it; stockade's own options come before")
            return


def _there(text: str, folders: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths on the host that the text says are missing, each once. It is absolute if the code named it so."""
    wanted: list[tuple[str, tuple[str, ...]]] = [
        (name.replace(".", "/") if "/" not in name else name, _ENDINGS) for name in _names(_MODULES, text)
    ]
    wanted += [(name, ("",)) for name in _names(_FILES, text)]
    seen = set()
    for name, endings in wanted:
        for candidate in dict.fromkeys((name, *([name.split("/")[0]] if endings != ("",) else ()))):
            path = next(filter(None, (_path(at, candidate + end) for end in endings for at in folders)), None)
            if path is not None and path not in seen:
                seen.add(path)
                yield os.path.abspath(path) if candidate.startswith("/") else path  # noqa: PTH100 - keep links


def _closed(text: str, inputs: tuple[str, ...]) -> Iterator[str]:
    """Yield the shown files that the text says are refused, and whose mode refuses other accounts."""
    refused = {os.path.normpath(name) for name in _names(_REFUSED, text) if name}
    for path in sorted(refused):
        if lies_below(path, inputs) and Path(path).exists() and not Path(path).stat().st_mode & stat.S_IROTH:
            yield path


def _names(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    return (_INSIDE.sub("", next(filter(None, found.groups()), "")).strip() for found in pattern.finditer(text))


def _path(folder: str, name: str) -> str | None:
    """Return the path of ``name`` in ``folder``, relative to the current folder, or ``None`` if no hint may name it."""
    try:
        root = os.path.realpath(folder)
        if name.startswith("/"):
            name = os.path.relpath(name, root)
        path = os.path.normpath(f"{folder}/{name}")
        inner = os.path.relpath(f"{root}/{name}", root)
        if inner == "." or any(part.startswith(".") for part in inner.split("/")):
            return None
        real = os.path.realpath(path, strict=True)
    except (OSError, ValueError):
        return None
    return path if real.startswith(root.rstrip("/") + "/") else None


def _advice(path: str, start: str, policy: Policy, inputs: tuple[str, ...]) -> str:
    from stockade.policy.parts import filesystem

    files = policy.filesystem
    if path.startswith("/") and files.workspace == "empty":
        return f"{path} is on the host and was not shown; --read {shlex.quote(path)} shows it there, read-only"
    absolute = filesystem.absolute(path)
    is_beside = path.startswith(f"{start}/")
    folder = start if is_beside else "."
    if files.workspace != "empty":
        return f"{path} is on the host, and the code starts in {files.workspace}; name the path as seen from there"
    name = shlex.quote(os.path.relpath(path, folder) + (f"={path}" if is_beside else ""))
    show = f"--workspace {shlex.quote(folder)} starts the code in that folder, read-only"
    if lies_below(absolute, files.read):
        return f"{path} is shown at its own path, {absolute}; {show}"
    in_shown = any(path.split("/", maxsplit=1)[0] == each.split("/")[0] for each in inputs)
    if Path(path).is_dir() or (in_shown and not is_beside):
        return f"{path} is on the host and was not shown; {show}"
    return f"{path} is on the host and was not shown; --file {name} copies it into the workspace; {show}"
