"""Where a batch writes: looked at before anything is run, since a batch may take hours to get there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stockade.cli.reporting import printable

if TYPE_CHECKING:
    from stockade.workspace.host_files import HostFile

BESIDE = (".batch", ".sorted")


def require(output: str | None, report: str | None, words: Sequence[str]) -> None:
    """Raise ``click.UsageError`` where an input would be written over, or the report has no place."""
    inputs = [word for word in words if Path(word).is_file()]
    for option, path in _written(output, report):
        for given in inputs:
            if _same(path, given):
                raise click.UsageError(f"{option} {printable(path)}: is an input, of which nothing would be left")
    if report is None:
        return
    if output is not None and any(_same(report, f"{output}{suffix}") for suffix in ("", *BESIDE)):
        raise click.UsageError(f"--report {printable(report)}: the verdicts are there")
    place = Path(report)
    if place.is_dir() or not place.name:
        raise click.UsageError(f"--report {printable(report)}: is a folder")
    if not place.parent.is_dir() or not os.access(place.parent, os.W_OK):
        raise click.UsageError(f"--report {printable(report)}: nothing can be written to {place.parent}")


def opened(output: str | None, report: str | None, writable: Sequence[str], stack: ExitStack) -> HostFile | None:
    """Return the file of the report, open until ``stack`` is left. Raise ``JobError`` where a guest may write."""
    from stockade.workspace.host_files import HostFile

    if output is not None:
        HostFile(output, "-o", writable).close()
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
    except OSError:  # one of them is not there
        return os.path.realpath(one) == os.path.realpath(other)
