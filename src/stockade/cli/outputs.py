"""The files of ``stockade run``: write artifacts into a folder, and show or commit changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stockade.cli.reporting import SETUP_FAILED, say
from stockade.core import patterns
from stockade.core.errors import CommitError
from stockade.workspace.artifacts import ArtifactLimits
from stockade.workspace.host_files import open_folder

if TYPE_CHECKING:
    from stockade.backends.base import Backend
    from stockade.policy.model import Policy
    from stockade.runs.job import Job
    from stockade.runs.result import Result
    from stockade.workspace.change_set import ChangeSet

_F = TypeVar("_F", bound=Callable[..., Any])
_FEW = 10
_CACHES = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"))

_OPTIONS = (
    click.option(
        "--file",
        "copied",
        multiple=True,
        metavar="NAME[=PATH]",
        help="Copy the file PATH into an empty workspace as NAME; without PATH, NAME is your own path too. "
        "May be repeated.",
    ),
    click.option("--archive", metavar="FILE", help="Unpack a zip or tar archive into an empty workspace."),
    click.option(
        "--artifacts",
        multiple=True,
        metavar="PATTERN",
        help="Copy files out of the workspace: '*.png' at its top, 'out/**' with all below, '**/*.csv' anywhere.",
    ),
    click.option(
        "--artifacts-to", metavar="FOLDER", help="Write the artifacts into FOLDER; an existing file is never replaced."
    ),
    click.option(
        "--diff",
        is_flag=True,
        help="Show on standard error what the code changed in the workspace. None of it reaches the host. "
        "Gives a --workspace an overlay.",
    ),
    click.option(
        "--commit",
        is_flag=True,
        help="Write the changes of the code into the workspace on the host, if the run completed. Gives a --workspace "
        "an overlay.",
    ),
)


def outcome_options(function: _F) -> _F:
    """Add the options for files that a run takes in or brings out."""
    return reduce(lambda inner, option: option(inner), reversed(_OPTIONS), function)


def check_outcome(options: Mapping[str, Any]) -> None:
    """Raise ``click.UsageError`` for incomplete options."""
    if bool(options["artifacts"]) != bool(options["artifacts_to"]):
        raise click.UsageError("--artifacts names files and --artifacts-to the folder for them: give both or neither")
    if (options["diff"] or options["commit"]) and options["access"] in ("read", "write"):
        raise click.UsageError(f"--diff and --commit need --access overlay or copy, but it is {options['access']}")


def with_overlay(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options, with an overlay if changes are wanted and no option sets the access."""
    wanted = (options["diff"] or options["commit"]) and options["access"] is None
    return {**options, "access": "overlay"} if wanted else options


def check_project(options: Mapping[str, Any], policy: Policy) -> None:
    """Raise ``click.UsageError`` if changes are wanted of an empty workspace."""
    if (options["diff"] or options["commit"]) and policy.filesystem.workspace == "empty":
        raise click.UsageError(
            "--diff and --commit need a folder of the host: name it with --workspace, or give --profile build"
        )


def files_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job's arguments about files."""
    return {"archive": options["archive"], "artifacts": options["artifacts"]}


class Outputs:
    """Delivers the files of a result. The folder is opened before the run; no guest may be able to write to it."""

    def __init__(self, options: Mapping[str, Any], policy: Policy) -> None:
        self._files = policy.filesystem
        self._diff = options["diff"]
        self._commit = options["commit"]
        self._patterns = options["artifacts"]
        self._given: frozenset[str] | None = None
        self._name = options["artifacts_to"]
        self._folder = open_folder(self._name, "--artifacts-to", policy.filesystem.writable) if self._name else -1

    def with_names(self, job: Job, backend: Backend) -> Job:
        """Return the job, which also reports the names of the files that it leaves in an empty workspace.

        These files are lost with the run. A limit of no file brings out their names alone.
        """
        lost = self._files.workspace == "empty" and self._files.way == "write"
        if job.artifacts or not lost or not backend.traits.collects_names:
            return job
        self._given = frozenset((*job.files, *job.inputs))
        return replace(job, artifacts=("**",), caps=ArtifactLimits(files=0))

    def deliver(self, result: Result, status: int) -> int:
        """Write, show and commit files. Return the exit status, which is ours if only that failed."""
        if self._given is not None:
            lost = [refused.path for refused in result.artifacts_refused if not self._is_known(refused.path)]
            least = "at least " if result.artifacts_error else ""
            _say_discarded(lost, "file", "--artifacts PATTERN --artifacts-to FOLDER keeps files", least)
            return status
        good = self._write(result)
        good = self._finish_workspace(result) and good
        return status if good or status else SETUP_FAILED

    def _write(self, result: Result) -> bool:
        if self._folder < 0:
            return True
        from stockade.workspace.extract import land

        good = True
        for path, content in result.artifacts.items():
            try:
                land(self._folder, path, content, result.artifact_modes.get(path, 0o644))
            except OSError as error:
                way = "; remove it, or name another folder" if isinstance(error, FileExistsError) else ""
                say(f"{_shown(f'{self._name}/{path}')}: not written: {error.strerror}{way}")
                good = False
        for refused in result.artifacts_refused[:_FEW]:
            say(f"not copied out: {_shown(refused.path)} {refused.reason}")
        _say_more(len(result.artifacts_refused) - _FEW, "were not copied out")
        if result.artifacts_error:
            say(f"artifacts: {result.artifacts_error}")
        else:
            self._say_unmatched(result)
        os.close(self._folder)
        return good and not result.artifacts_error

    def _say_unmatched(self, result: Result) -> None:
        found = [*result.artifacts, *(refused.path for refused in result.artifacts_refused)]
        for pattern in self._patterns:
            if not any(patterns.matches(path, pattern) for path in found):
                say(f"--artifacts {_shown(pattern)}: the code left no such file")

    def _is_known(self, path: str) -> bool:
        """Return whether nobody misses the file: it was given to the code, is a cache, or is hidden."""
        from stockade.backends.shared.guest_environment import lies_below

        hidden = any(part.startswith(".") for part in path.split("/"))
        return hidden or _is_cache(path) or lies_below(path, self._given or ())

    def _finish_workspace(self, result: Result) -> bool:
        changes = result.changes
        if changes.project is None:
            return True
        if changes.error:
            say(f"changes: {changes.error}")
        if self._diff:
            _print_diff(changes.diff())
        for refused in changes.refused[:_FEW]:
            say(f"not copied out: {_shown(refused.path)} {refused.reason}")
        _say_more(len(changes.refused) - _FEW, "were not copied out")
        if self._commit and result.ok:
            return _committed(changes)
        lost = [change.path for change in changes if not (change.path in result.artifacts or _is_cache(change.path))]
        _say_discarded(lost, "change", "--commit keeps them, --diff shows them")
        return not changes.error


def _committed(changes: ChangeSet) -> bool:
    try:
        done = changes.commit()
    except CommitError as error:
        say("nothing was committed:")
        for conflict in error.conflicts[:_FEW]:
            say(f"  {_shown(conflict.path)} {conflict.reason}")
        _say_more(len(error.conflicts) - _FEW, "prevent the commit")
        return False
    say(f"committed: {_count(len(done.applied), 'change')}")
    for left in done.left_out[:_FEW]:
        say(f"left out: {_shown(left.path)} {left.reason}")
    return True


def _say_discarded(paths: Sequence[str], what: str, remedy: str, least: str = "") -> None:
    """Name what is lost with the run. Artifacts are not among it."""
    if paths:
        names = ", ".join(map(_shown, paths[:_FEW]))
        more = f" and {len(paths) - _FEW} more" if len(paths) > _FEW else ""
        say(f"discarded: {least}{_count(len(paths), what)} ({names}{more}); {remedy}")


def _is_cache(path: str) -> bool:
    """Return whether Python or pytest makes the file again by itself."""
    return not _CACHES.isdisjoint(path.split("/"))


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _say_more(count: int, what: str) -> None:
    if count > 0:
        say(f"{count} more {what}")


def _print_diff(text: str) -> None:
    """Print a diff unchanged, except for characters that a terminal would take for commands."""
    if sys.stderr.isatty():
        text = "".join(_harmless(text))
    sys.stderr.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stderr.flush()


def _harmless(text: str) -> Iterable[str]:
    return (letter if letter.isprintable() or letter in "\n\t" else f"\\x{ord(letter):02x}" for letter in text)


def _shown(path: str) -> str:
    return "".join(_harmless(path.replace("\n", "\\n")))
