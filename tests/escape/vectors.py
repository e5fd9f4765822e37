"""``python -m tests.escape.vectors``: docs/attacks.md, from the headers of the corpus and the list of vectors."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from stockade.attacks import corpus
from stockade.policy.guarantees import Guarantee

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "attacks.md"
_LIST = Path(__file__).with_name("vectors.toml")
_HEAD = """# The attacks

Made by `make attacks-page` from the headers of `src/stockade/attacks/programs/` and from `tests/escape/vectors.toml`. `stockade
attack` runs them on your machine; [how](guides/attack.md). What came of a run here: [guarantees.md](guarantees.md).
"""


def load() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the vectors by theme, each with its attacks or the reason for having none."""
    themes = tomllib.loads(_LIST.read_text(encoding="utf-8"))
    return {
        theme: {name: {"attacks": entry} if isinstance(entry, list) else entry for name, entry in vectors.items()}
        for theme, vectors in themes.items()
    }


def page() -> str:
    """Return the text of the page."""
    attacks = corpus.load()
    lines = [_HEAD, f"{len(attacks)} attacks: {_counted(attacks)}.", "", "## Every way in, and what tries it", ""]
    for theme, vectors in load().items():
        lines += [f"### {theme}", "", "| way in | tried by, or why not |", "| --- | --- |"]
        lines += [f"| {name} | {_entry_text(entry)} |" for name, entry in vectors.items()] + [""]
    lines += ["## Every attack", ""]
    for guarantee in [*map(str, Guarantee), corpus.VERDICT]:
        own = [attack for attack in attacks if attack.guarantee == guarantee]
        if own:
            lines += [f"### {guarantee}", "", "| attack | what it tries | reference |", "| --- | --- | --- |"]
            lines += [f"| `{each.path.name}` | {each.summary} | {each.reference} |" for each in own] + [""]
    return "\n".join(lines).rstrip() + "\n"


def _counted(attacks: list[corpus.Attack]) -> str:
    languages = Counter(attack.language for attack in attacks)
    names = {"python": "Python", "shell": "shell", "c": "C", "ruby": "Ruby", "javascript": "JavaScript"}
    return ", ".join(f"{count} in {names[language]}" for language, count in languages.most_common())


def _entry_text(entry: dict[str, Any]) -> str:
    parts = [", ".join(f"`{name}`" for name in entry.get("attacks", ()))]
    parts += [f"[{entry['test']}](../{entry['test']})"] if "test" in entry else []
    parts += [f"no attack: {entry['not']}"] if "not" in entry else []
    return "; ".join(filter(None, parts))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
