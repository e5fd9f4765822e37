"""A notebook-like agent: a model writes cells, an interpreter in a sandbox runs them, and the model sees the outcome.

    python -m examples.notebook_agent

A script of cells stands in for the model. Replace ``Script`` by a call to yours: it gets what the last cell showed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import stockade

SALES = "month,sales\nMay,3\nJune,5\nJuly,8\n"
CELLS = (
    "import csv\nrows = list(csv.DictReader(open('sales.csv')))\nlen(rows), rows[0]",
    "total = sum(row['sales'] for row in rows)",  # the model's mistake: the values are texts
    "total = sum(int(row['sales']) for row in rows)\ntotal",
    "while total: pass",  # and one that does not end
    "import matplotlib.pyplot as plt\nplt.bar([row['month'] for row in rows], [int(row['sales']) for row in rows]);",
)
SHOWN = 2000  # characters: a model's input costs money


class Script:
    """Stands in for a model: the next cell of a script, whatever the last one showed."""

    def __init__(self, cells: tuple[str, ...]) -> None:
        self._cells: Iterator[str] = iter(cells)

    def next_cell(self, observation: str) -> str | None:
        """Return the next cell, or ``None`` if the task is done."""
        return next(self._cells, None)


def observation_of(cell: stockade.CellResult) -> str:
    """Return what the model sees of a cell. All of it is the guest's own words, except how the cell ended."""
    parts = [cell.stdout, cell.value_repr or ""]
    parts += [f"[{', '.join(display.data)}]" for display in cell.displays]
    if cell.outcome is stockade.CellOutcome.TIMED_OUT:
        parts.append("The cell was interrupted: it took too long. Its variables are kept.")
    elif cell.error is not None:
        parts.append(cell.error.traceback)
    if cell.ended:
        parts.append(f"The interpreter is gone ({cell.ended}). A fresh one starts without variables.")
    return "\n".join(filter(None, parts))[-SHOWN:] or "(no output)"


def work(model: Script, sandbox: stockade.Sandbox, pictures: Path) -> list[str]:
    """Let the model work in one interpreter; write its pictures to files; return what it saw."""
    py = sandbox.interpreter("python")
    seen = ["sales.csv is in the current folder"]
    while (source := model.next_cell(seen[-1])) is not None:
        cell = py.run(source, timeout=20 if "matplotlib" in source else 1)
        seen.append(observation_of(cell))
        for display in cell.displays:
            if "image/png" in display.data:
                (pictures / f"picture-{cell.execution_count}.png").write_bytes(display.data["image/png"])
        if not py.alive:
            py.restart()
    return seen


def main(pictures: Path) -> None:
    """Run the script and print what the model saw."""
    with stockade.Sandbox.create(memory="1GiB", packages=sys.prefix) as sandbox:
        sandbox.files.write("sales.csv", SALES)
        for text in work(Script(CELLS), sandbox, pictures):
            print(text, end="\n\n")


if __name__ == "__main__":
    main(Path.cwd())
