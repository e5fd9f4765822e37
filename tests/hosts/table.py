"""``python -m tests.hosts.table``: run the sample on every kind of host, and write the tables of docs/hosts.md.

The command replaces the text between the two marks of the page; ``--print`` writes to standard output instead. It
needs root, the programs of the harness, and docker.io for the containers. It exits with 1 if a guarantee did not
hold, or if a host refused or accepted the plan unexpectedly.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stockade import Guarantee
from tests.hosts import image, places, suite
from tests.hosts.image import Image, Missing
from tests.hosts.machine import MachineError, booted

PAGE = image.PROJECT / "docs" / "hosts.md"
MARKS = ("<!-- written by python -m tests.hosts.table -->", "<!-- end -->")
KINDS = ("root", "delegated", "none", "service", "crowded-service", "container", "container-read-only")
_SECONDS = 240.0
_REFUSAL_SECONDS = 1.0


@dataclass(frozen=True)
class Seen:
    """The sample's result on one host."""

    host: str
    found: dict[str, Any]
    refused: str = ""
    """Words of the refusal that is right here; empty where ``print(1)`` must run."""

    @property
    def verdict(self) -> str:
        """The outcome of ``print(1)`` under the default policy."""
        default = self.found["default"]
        if "refused" in default:
            return f"refused: {default['refused']}"
        return f"{default['outcome']}, printed {default['stdout'].strip()}" if default["stdout"] else str(default)

    @property
    def broken(self) -> list[str]:
        """The guarantees that did not hold, and ``print(1)`` if its outcome is wrong."""
        bad = [name for name, (held, _, _) in self.found["seen"].items() if not held]
        return bad if self._as_it_must else [*bad, "print(1)"]

    @property
    def _as_it_must(self) -> bool:
        default = self.found["default"]
        if self.refused:
            return self.refused in default.get("refused", "") and self.found["seconds"] < _REFUSAL_SECONDS
        return bool(default.get("stdout") == "1\n")


def main() -> int:
    """Run, write, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts.table", description=__doc__)
    parser.add_argument("--print", action="store_true", help="to standard output, and leave the page as it is")
    options = parser.parse_args()
    try:
        built = image.build()
        seen = [*_on_this_machine(built), *_in_qemu(built)]
    except (Missing, MachineError) as error:
        print(error, file=sys.stderr)
        return 1
    text = _text(seen)
    if options.print:
        print(text)
    else:
        before, rest = PAGE.read_text().split(MARKS[0])
        PAGE.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")
    broken = [(item.host, item.broken) for item in seen if item.broken]
    for host, names in broken:
        print(f"{host}: not as it must be: {', '.join(names)}", file=sys.stderr)
    return 1 if broken else 0


def _on_this_machine(built: Image) -> Iterator[Seen]:
    with tempfile.TemporaryDirectory(prefix="stockade-hosts.") as name:
        folder = Path(name)
        places.unpack(built, folder)
        with places.docker(folder) as lacking:
            for place in places.PLACES:
                if place.docker is not None and lacking:
                    print(f"{place.name}: {lacking}", file=sys.stderr)
                    continue
                call = places.command(place, folder)
                done = subprocess.run(call, cwd="/", capture_output=True, text=True, timeout=_SECONDS)
                yield _read(place.name, done.stdout, done.stderr, place.refused)


def _in_qemu(built: Image) -> Iterator[Seen]:
    with booted(built) as machine:
        suite.compile_all(machine)
        for kind in KINDS:
            call = ["python3", "/project/tests/hosts/guest/sample.py"]
            answer = machine.run(kind, call, environment=suite.ENVIRONMENT, seconds=_SECONDS)
            yield _read(f"cgroup v2 in QEMU, {kind}", answer.output, "\n".join(answer.stuck))


def _read(host: str, output: str, errors: str, refused: str = "") -> Seen:
    try:
        seen = Seen(host, json.loads(output.splitlines()[-1]), refused)
    except (IndexError, ValueError):
        raise MachineError(f"{host}: the sample gave no answer\n{output}\n{errors}") from None
    print(f"{host}: {seen.found['seconds']:.2f} s: {seen.verdict}", file=sys.stderr, flush=True)
    return seen


def _text(seen: list[Seen]) -> str:
    kernels = sorted({item.found["kernel"] for item in seen})
    parts = [
        f"From runs on Linux {' and '.join(kernels)} ({platform.machine()}; the older one emulated in QEMU).",
        "### The hosts, and `print(1)` under the default policy",
        _markdown(["", "host", "came to", "within"], [_host_row(seen, item) for item in seen]),
        "### What held each guarantee",
        _markdown(["guarantee", "what held it, and how strongly", "on", "tried", "came to"], _rows(seen)),
    ]
    return "\n\n".join(parts)


def _host_row(seen: list[Seen], item: Seen) -> list[str]:
    return [_letter(seen, item), item.host, _column(item.verdict), f"{item.found['seconds']:.2f} s"]


def _rows(seen: list[Seen]) -> list[list[str]]:
    """Return a row for each guarantee and each of its mechanisms, with the hosts where that holds it."""
    rows = []
    for guarantee in map(str, Guarantee):
        groups: dict[str, list[Seen]] = {}
        for item in seen:
            if guarantee in item.found["held"]:
                groups.setdefault(_held(item, guarantee), []).append(item)
        for held, where in groups.items():
            tried = [item.found["seen"][guarantee] for item in where if guarantee in item.found["seen"]]
            what = tried[0][1] if tried else "-"
            came = "; ".join(sorted({_anyones(text) for _, _, text in tried})) or "not tried"
            rows.append([guarantee, _column(held), _letters(seen, where), what, _column(came)])
    return rows


def _held(item: Seen, guarantee: str) -> str:
    mechanism, strength, note = item.found["held"][guarantee]
    return f"nothing: {_anyones(note)}" if strength == "absent" else f"{mechanism} ({strength})"


def _letters(seen: list[Seen], where: list[Seen]) -> str:
    running = [item for item in seen if item.found["held"]]
    return "all that run" if where == running else " ".join(_letter(seen, item) for item in where)


def _letter(seen: list[Seen], item: Seen) -> str:
    return chr(ord("A") + seen.index(item))


def _anyones(text: str) -> str:
    """Return ``text`` without the parts that differ between runs."""
    text = re.sub(r"\(cgroup v(\d) at [^:]*: ", r"(cgroup v\1: ", text)
    text = re.sub(r"\b[01]\.\d\d cores used", "between 0.1 and 0.35 cores used", text)
    return re.sub(r"\((\w+) \d+\)", r"(\1)", text)


def _column(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    sys.exit(main())
