"""Write docs/e2b.md from the members of the E2B SDK and from e2b.toml: ``python -m tests.docs.e2b``."""

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "e2b.md"
HEAD = """# Sandboxes in E2B's SDK, and here

Every public member of the sandbox in E2B's Python SDK ({versions}),
and what stockade has beside it. *missing* means that stockade has nothing of the
kind. The last table does the same for what people ask of a persistent shell. `make e2b-table` writes this page from the installed SDK, and a test checks
that each name and each test exists.

E2B's sandboxes live on a server and outlast the program that made them. Those of stockade live on your machine, and end with the program.
"""
SHELL = "a persistent shell"


def versions():
    """Return the versions that the members are of."""
    return (HERE / "e2b-members.txt").read_text().splitlines()[0].removeprefix("# ")


def members():
    """Return the members of each class."""
    found = {}
    for line in (HERE / "e2b-members.txt").read_text().splitlines()[1:]:
        name, _, member = line.partition(".")
        found.setdefault(name, []).append(member)
    return found


def ours():
    """Return what stockade has, and the test of it, by class and member."""
    return tomllib.loads((HERE / "e2b.toml").read_text())


def rows():
    """Yield class, member, ours and test; ours is empty for what is missing."""
    entries = ours()
    for name, names in (members() | {SHELL: list(entries[SHELL])}).items():
        for member in names:
            here, test = entries.get(name, {}).get(member) or ("", "")
            yield name, member, here, test.replace("_/", "tests/system/", 1) if test.startswith("_/") else test


def page():
    """Return the text of the page."""
    parts, last = [HEAD.format(versions=versions())], ""
    for name, member, here, test in rows():
        if name != last:
            parts.append(
                f"## {name[0].upper() + name[1:]}\n\n| {'asked for' if name == SHELL else 'E2B'} | stockade | test |\n| --- | --- | --- |"
            )
            last = name
        shown = member if name == SHELL else f"`{member}`"
        parts.append(f"| {shown} | {here or '*missing*'} | {f'`{test}`' if test else ''} |")
    return "\n".join(parts).replace("|\n## ", "|\n\n## ") + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
