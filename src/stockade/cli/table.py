"""Plain aligned tables: wrapped on a terminal, whole lines everywhere else."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

import click

from stockade.cli.reporting import coloured

_GAP = "  "
_RIGID = 24
_NARROWEST = 18
_COLOURS = {
    "yes": "green", "no": "red",
    "hypervisor": "green", "kernel": "green", "runtime": "green",
    "supervisor": "yellow", "cooperative": "yellow", "absent": "red",
}  # fmt: skip


def show(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on standard output."""
    width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None
    for line in lines([header, *rows], width, colour=coloured()):
        click.echo(line, color=True)  # coloured() has already decided about colour


def lines(rows: Sequence[Sequence[str]], width: int | None, *, colour: bool = False) -> list[str]:
    """Return the lines of a table, no wider than ``width`` if its columns stay readable."""
    widths = _fit([max(map(len, column)) for column in zip(*rows, strict=True)], width)
    made = []
    for row in rows:
        cells = [textwrap.wrap(cell, size) or [""] for cell, size in zip(row, widths, strict=True)]
        for pieces in zip_longest(*cells, fillvalue=""):
            padded = [_paint(piece.ljust(size), colour=colour) for piece, size in zip(pieces, widths, strict=True)]
            made.append(_GAP.join(padded).rstrip())
    return made


def _fit(natural: list[int], width: int | None) -> list[int]:
    """Return the width of each column: short ones keep theirs, long ones share the rest."""
    if width is None:
        return natural
    left = width - len(_GAP) * (len(natural) - 1) - sum(size for size in natural if size <= _RIGID)
    long = sorted((size, column) for column, size in enumerate(natural) if size > _RIGID)
    widths = list(natural)
    for rest, (size, column) in zip(range(len(long), 0, -1), long, strict=True):
        widths[column] = min(size, max(_NARROWEST, left // rest))
        left -= widths[column]
    return widths


def _paint(cell: str, *, colour: bool) -> str:
    name = _COLOURS.get(cell.strip()) if colour else None
    return click.style(cell, fg=name) if name else cell
