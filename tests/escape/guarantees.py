"""``python -m tests.escape.guarantees``: the tables of the pages that ``make guarantees`` and ``make guarantees-cgroup2`` have
written, into the README too."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs" / "guarantees.md", ROOT / "docs" / "guarantees-cgroup2.md")
README = ROOT / "README.md"
MARKS = ("<!-- written by make guarantees -->", "<!-- end -->")


def tables(page: str) -> str:
    """Return the first table of each caller's part of the page, folded away under who it was."""
    parts = re.findall(r"^## (As .*?)$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    shown = []
    for who, text in parts:
        table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
        assert table is not None, who
        shown.append(f"<details><summary>{who}</summary>\n\n{table.group()}\n</details>\n")
    return "\n".join(shown)


def placed(readme: str, text: str) -> str:
    """Return the README with ``text`` between its marks; raise ``ValueError`` where they are missing."""
    begin, end = (re.escape(mark) for mark in MARKS)
    made, count = re.subn(f"{begin}.*?{end}", lambda _: f"{MARKS[0]}\n{text}{MARKS[1]}", readme, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{README.name} has {count} places for the tables")
    return made


def all_tables() -> str:
    """Return those of all pages."""
    return "\n".join(tables(page.read_text(encoding="utf-8")) for page in PAGES if page.exists())


if __name__ == "__main__":
    README.write_text(placed(README.read_text(encoding="utf-8"), all_tables()), encoding="utf-8")
