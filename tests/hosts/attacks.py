"""The attacks on another kernel: the tables of docs/guarantees-cgroup2.md, for root and for an ordinary user."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.hosts import image, suite
from tests.hosts.image import Image
from tests.hosts.machine import MachineError, booted

PAGE = image.PROJECT / "docs" / "guarantees-cgroup2.md"
CALLERS = {
    "root": "As root",
    "delegated": "As an ordinary user with a delegated control group",
}
_TABLE = "/tmp/table"
_END = "-- table --"
_COMMAND = (
    f"python3 -m stockade attack --all --jobs 2 --markdown > {_TABLE}; s=$?; echo '{_END}'; cat {_TABLE}; exit $s"
)
_SECONDS = 7200.0
_HEAD = """# What holds each guarantee, with cgroup v2 alone

`make guarantees-cgroup2` writes this page, as `make guarantees` writes [the page of this machine](guarantees.md). Each attack first
ran unconfined and succeeded. Then it ran confined, and met exactly the expected refusal. Here the kernel is Debian's,
in QEMU, with cgroup v2 and no other hierarchy. Under emulation everything takes ten to twenty times as long.
"""


def write(built: Image, path: Path = PAGE) -> None:
    """Attack as each kind of caller, each in its own machine at the same time, and write the page.

    Raises ``MachineError`` if an attack was not refused.
    """
    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(partial(_part, built), CALLERS))
    path.write_text("\n".join([_HEAD, *parts]), encoding="utf-8")


def _part(built: Image, kind: str) -> str:
    def show(text: str) -> None:
        print(*(f"{kind}: {line}" for line in text.splitlines()), sep="\n", flush=True)

    with booted(built) as machine:
        suite.compile_all(machine)
        answer = machine.run(kind, ["sh", "-c", _COMMAND], environment=suite.ENVIRONMENT, show=show, seconds=_SECONDS)
        said, _, table = answer.output.partition(f"{_END}\n")
        if answer.status or answer.left:
            raise MachineError(f"{kind}: exit status {answer.status}, left: {answer.left}\n{table or said}")
        return f"## {CALLERS[kind]}, Linux {machine.kernel} ({machine.accelerator})\n\n{table}"
