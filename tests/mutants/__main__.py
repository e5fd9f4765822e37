"""``python -m tests.mutants [NAME ...]``: switch off each protection in turn, and print the attacks that notice.

Must run as root. The exit status is 1 if no attack notices that some protection is off.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stockade.attacks import needs
from tests.mutants import tree
from tests.mutants.protection import Edit, Protection
from tests.mutants.protections import ALL, BY_NAME


@dataclass(frozen=True)
class Noticed:
    """The result of switching one protection off."""

    protection: Protection
    beside: tuple[str, ...]
    """Other protections that had to be off as well."""
    succeeded: tuple[str, ...]
    otherwise: tuple[str, ...]
    trouble: str = ""
    lacking: str = ""
    """Why this host cannot try the mutant."""

    @property
    def good(self) -> bool:
        return bool(self.succeeded or self.lacking)


def main(words: Sequence[str] | None = None) -> int:
    """Run the mutants and print the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="protections, by the beginning of their names")
    parser.add_argument("--thorough", action="store_true", help="if no attack notices, try every attack")
    parser.add_argument("--most", type=int, help="stop after that many")
    parser.add_argument("--skip", type=int, default=0, help="leave out that many at the beginning")
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
    return 0 if all(item.good for item in found) else 1


def tried(item: Protection, *, thorough: bool = False) -> Noticed:
    """Switch ``item`` off alone, then together with its ``beside``. ``thorough`` then tries all attacks."""
    lacking = needs.why_not(item.needs)
    if lacking:
        return Noticed(item, (), (), (), lacking=lacking)
    first = _with(item, (), item.concerns)
    if first.succeeded:
        return first
    for count in range(1, len(item.beside) + 1):
        together = _with(item, item.beside[:count], item.concerns)
        # An attack that succeeds with only the others off does not show this protection.
        theirs = _off(item.given, item.beside[:count], together.succeeded) if together.succeeded else set()
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


def _off(given: tuple[Edit, ...], names: Sequence[str], only: Sequence[str]) -> set[str]:
    with tree.mutated([replace(BY_NAME[name], given=(*BY_NAME[name].given, *given)) for name in names]) as place:
        return {each["attack"] for each in tree.attacked(place, only) if each["verdict"] == "succeeded"}


def _line(found: Noticed) -> str:
    with_them = f" (with {', '.join(found.beside)})" if found.beside else ""
    mark = "" if found.good else "  <-- NO ATTACK NOTICES"
    return f"{found.protection.name}{with_them}: {_attacks(found)}{mark}"


def _attacks(found: Noticed, most: int = 6) -> str:
    if found.lacking:
        return f"not tried here: {found.lacking}"
    if found.trouble:
        return f"could not be tried: {found.trouble}"
    if not found.succeeded:
        how = f"; another refusal: {', '.join(found.otherwise[:3])}" if found.otherwise else ""
        return f"nobody{how}"
    more = f" and {len(found.succeeded) - most} more" if len(found.succeeded) > most else ""
    return ", ".join(found.succeeded[:most]) + more


def _markdown(found: Sequence[Noticed]) -> str:
    lines = ["| protection | off together with | attacks that then succeed |", "| --- | --- | --- |"]
    for item in (each for each in found if not each.lacking):
        attacks = ", ".join(f"`{name}`" for name in item.succeeded[:8])
        more = f" and {len(item.succeeded) - 8} more" if len(item.succeeded) > 8 else ""
        what = attacks + more if item.succeeded else f"none: {_attacks(item)}"
        lines.append(f"| {item.protection.name} | {', '.join(item.beside) or '-'} | {what} |")
    for item in (each for each in found if each.lacking):
        named = ", ".join(f"`{name}`" for name in item.protection.concerns)
        lines += [
            "",
            f"Not tried on the host of this run: {item.protection.name}, which {named} notices; {item.lacking}.",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
