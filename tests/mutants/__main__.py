"""``python -m tests.mutants [NAME ...]``: switch each protection off in turn, attack, and print who noticed.

As root. Exits with 1 if an attack that should notice does not, or notices where nothing was thought to.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tests.mutants import tree
from tests.mutants.protections import ALL, BY_NAME, Protection


@dataclass(frozen=True)
class Noticed:
    """What came of switching one protection off."""

    protection: Protection
    beside: tuple[str, ...]
    """What had to be off as well."""
    succeeded: tuple[str, ...]
    otherwise: tuple[str, ...]
    trouble: str = ""

    @property
    def as_thought(self) -> bool:
        return bool(self.succeeded) != bool(self.protection.unnoticed)


def main(words: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="protections, by the beginning of their names")
    parser.add_argument("--thorough", action="store_true", help="where nobody notices, try every attack there is")
    parser.add_argument("--most", type=int, help="stop after that many")
    parser.add_argument("--skip", type=int, default=0, help="leave out that many of the first")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(words)
    chosen = [item for item in ALL if not options.names or item.name.startswith(tuple(options.names))][options.skip :][
        : options.most
    ]
    found = []
    for item in chosen:
        try:
            found.append(tried(item, thorough=options.thorough))
        except (RuntimeError, tree.StaleEdit) as error:
            found.append(Noticed(item, (), (), (), trouble=" ".join(str(error).split())[:200]))
        print(f"[{len(found)}/{len(chosen)}] {_line(found[-1])}", file=sys.stderr, flush=True)
    if options.markdown:
        print(_markdown(found))
    return 0 if all(item.as_thought for item in found) else 1


def tried(item: Protection, *, thorough: bool = False) -> Noticed:
    """Switch it off alone, then with its neighbours one after the other; then try all attacks, if that is wanted."""
    first = _with(item, (), item.concerns)
    if first.succeeded or item.unnoticed:
        return first
    for count in range(1, len(item.beside) + 1):
        together = _with(item, item.beside[:count], item.concerns)
        # What the neighbours alone let through is theirs.
        theirs = (
            _off([BY_NAME[name] for name in item.beside[:count]], together.succeeded) if together.succeeded else set()
        )
        own = tuple(name for name in together.succeeded if name not in theirs)
        if own:
            return Noticed(item, item.beside[:count], own, first.otherwise)
        first = Noticed(
            item, (), (), (*first.otherwise, *(name for name in together.otherwise if name not in first.otherwise))
        )
    return _with(item, (), ()) if thorough else first


def _with(item: Protection, beside: tuple[str, ...], only: Sequence[str]) -> Noticed:
    with tree.mutated([item, *(BY_NAME[name] for name in beside)]) as place:
        trials = tree.attacked(place, only)
    named = {
        verdict: tuple(each["attack"] for each in trials if each["verdict"] == verdict)
        for verdict in ("succeeded", "otherwise")
    }
    return Noticed(item, beside, named["succeeded"], named["otherwise"])


def _off(protections: Sequence[Protection], only: Sequence[str]) -> set[str]:
    with tree.mutated(protections) as place:
        return {each["attack"] for each in tree.attacked(place, only) if each["verdict"] == "succeeded"}


def _line(found: Noticed) -> str:
    with_them = f" (with {', '.join(found.beside)})" if found.beside else ""
    mark = "" if found.as_thought else "  <-- NOT AS THOUGHT"
    return f"{found.protection.name}{with_them}: {_attacks(found)}{mark}"


def _attacks(found: Noticed, most: int = 6) -> str:
    if found.trouble and not found.protection.unnoticed:
        return f"could not be tried: {found.trouble}"
    if not found.succeeded:
        how = f"; another refusal: {', '.join(found.otherwise[:3])}" if found.otherwise else ""
        return (found.protection.unnoticed or "nobody") + how
    more = f" and {len(found.succeeded) - most} more" if len(found.succeeded) > most else ""
    return ", ".join(found.succeeded[:most]) + more


def _markdown(found: Sequence[Noticed]) -> str:
    lines = ["| protection | off together with | attacks that then succeed |", "| --- | --- | --- |"]
    for item in found:
        attacks = ", ".join(f"`{name}`" for name in item.succeeded[:8])
        more = f" and {len(item.succeeded) - 8} more" if len(item.succeeded) > 8 else ""
        what = attacks + more if item.succeeded else f"none: {_attacks(item)}"
        lines.append(f"| {item.protection.name} | {', '.join(item.beside) or '-'} | {what} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
