"""Check the files that a batch writes before anything runs, since a batch may take hours."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stockade.cli.reporting import printable

if TYPE_CHECKING:
    from stockade.workspace.host_files import HostFile

BESIDE = (".batch", ".sorted")


def require(output: str | None, report: str | None, words: Sequence[str]) -> None:
    """Raise ``click.UsageError`` if an output would overwrite an input, or if the report cannot be written."""
    inputs = [word for word in words if Path(word).is_file()]
    for option, path in _written(output, report):
        for given in inputs:
            if _same(path, given):
                raise click.UsageError(f"{option} {printable(path)}: this file is an input, and would be overwritten")
    if report is None:
        return
    if output is not None and any(_same(report, f"{output}{suffix}") for suffix in ("", *BESIDE)):
        raise click.UsageError(f"--report {printable(report)}: this file holds the verdicts; name another one")
    if report == "-":
        raise click.UsageError("--report -: the page does not go to standard output; name a file, such as report.html")
    place = Path(report)
    if place.is_dir() or not place.name:
        raise click.UsageError(f"--report {printable(report)}: this is a folder; name a file")
    if not place.parent.is_dir() or not os.access(place.parent, os.W_OK):
        raise click.UsageError(f"--report {printable(report)}: cannot write to the folder {place.parent}")


def opened(options: Mapping[str, Any], writable: Sequence[str], stack: ExitStack) -> HostFile | None:
    """Return the file of the report, open until ``stack`` is left.

    Raise ``JobError`` if a guest may write to it, to the verdicts or to the audit log.
    """
    from stockade.workspace.host_files import HostFile

    for name, path in (("-o", options["output"]), ("--audit", options["audit_log"])):
        if path is not None:
            HostFile(path, name, writable).close()
    report = options["report"]
    return None if report is None else stack.enter_context(HostFile(report, "--report", writable))


def _written(output: str | None, report: str | None) -> Iterator[tuple[str, str]]:
    if output is not None:
        yield "-o", output
        yield from (("-o", f"{output}{suffix}") for suffix in BESIDE)
    if report is not None:
        yield "--report", report


def _same(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:  # one of the files does not exist
        return os.path.realpath(one) == os.path.realpath(other)
