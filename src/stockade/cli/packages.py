"""``stockade packages`` lists and clears the store of packages; ``--with`` of other commands fills it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stockade.cli.interrupts import interruptible
from stockade.cli.mistakes import Group
from stockade.cli.reporting import Command, json_option, print_json, printable
from stockade.core.errors import JobError

if TYPE_CHECKING:
    from stockade.api.packages.provide import Step
    from stockade.policy.model import Policy

_F = TypeVar("_F", bound=Callable[..., Any])
_BAR = 20

with_option: Callable[[_F], _F] = click.option(
    "--with",
    "requirements",
    metavar="NAME",
    multiple=True,
    help="A package that Python code may import, as pip writes it: pandas, 'matplotlib>=3.8'. It is downloaded before "
    "the run and stored; the code itself needs no network. May be repeated.",
)


_EXAMPLES = """\b
Examples:
  stockade packages list --json
  stockade packages clear
  stockade run --with pandas script.py
"""


@click.group(cls=Group, epilog=_EXAMPLES)
def packages() -> None:
    """List or remove the packages that were downloaded for --with and requirements=."""


@packages.command("list", cls=Command)
@json_option
def _list(as_json: bool) -> int:
    """List the stored sets of packages."""
    from stockade.api.packages.store import Store

    store = Store()
    sets = store.manifests()
    if as_json:
        print_json({"folder": str(store.place), "sets": sets})
        return 0
    for each in sets:
        names = " ".join("==".join(wheel["file"].split("-")[:2]) for wheel in each["wheels"])
        click.echo(f"{each['digest'][:12]}  Python {each['python']}  {each['bytes'] / 1e6:7.1f} MB  {printable(names)}")
    click.echo(f"{len(sets)} in {printable(str(store.place))}", err=True)
    return 0


@packages.command("clear", cls=Command)
@json_option
def _clear(as_json: bool) -> int:
    """Remove all stored sets, except those that a process uses now. The next run resolves its packages anew."""
    from stockade.api.packages.store import Store

    removed, left = Store().clear()
    if as_json:
        print_json({"removed": removed, "in_use": left})
    else:
        click.echo(f"{removed} removed" + (f", {left} in use" if left else ""), err=True)
    return 0


def environment(options: Mapping[str, Any], policy: Policy, *, inline: bytes | None = None) -> str | None:
    """Return the environment with the packages of ``--with``, and with those that the script ``inline`` names.

    Returns ``None`` if neither names a package.

    A bar on a terminal shows the progress. Ctrl-C ends it, and leaves nothing behind.
    """
    from stockade.api.packages import pip, provide, store, unpack, wanted  # noqa: F401  (before Ctrl-C can raise)
    from stockade.languages import registry as languages

    named = options["interpreter"]
    names = [*options["requirements"]]
    if inline is not None:
        names += wanted.inline(inline, languages.find("python").interpreter(named).version)
    if not names:
        return None
    with interruptible(), _shown() as on_step:
        return provide.provide(names, named, policy=policy, on_step=on_step)


def packages_folder(packages: str | None, requirements: Sequence[str], policy: Policy) -> str | None:
    """Return the folder of ``--packages``, or the environment of ``--with``, for a sandbox that lives."""
    if not requirements:
        return packages
    if packages is not None:
        raise click.UsageError("--with makes an environment of its own, so leave out --packages")
    return environment({"interpreter": None, "requirements": requirements}, policy)


def check_language(options: Mapping[str, Any]) -> None:
    """Raise ``JobError`` if the source is of a language that cannot use ``--with``."""
    from stockade.languages import registry as languages

    is_script = options["code"] is None and options["words"][0] != "-"
    name = options["language"] or (languages.by_suffix(Path(options["words"][0])) if is_script else "python")
    if languages.find(name).name != "python":
        raise JobError(f"--with: it is for Python; for {name}, name a folder: --packages")


def source_of(options: Mapping[str, Any]) -> bytes | None:
    """Return the script whose metadata ``--inline-requirements`` asks for, or ``None``."""
    if not options["inline_requirements"]:
        return None
    if options["code"] is None and options["words"][0] == "-":
        raise click.UsageError("--inline-requirements needs a script or -c CODE, not standard input")
    if options["code"] is not None:
        return str(options["code"]).encode("utf-8", "surrogateescape")
    with suppress(OSError):  # the run itself reports a missing script
        return Path(options["words"][0]).read_bytes()
    return None


@contextmanager
def _shown() -> Iterator[Callable[[Step], object]]:
    stream = sys.stderr
    shown = stream is not None and stream.isatty()

    def show(step: Step) -> None:
        if shown:
            filled = _BAR * step.done // step.total if step.total else 0
            bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] " if step.total else ""
            count = f" {step.done} of {step.total}" if step.total else ""
            with suppress(OSError):  # the terminal is gone
                stream.write(f"\r\x1b[K{bar}{step.action}{count} {printable(step.what)[:50]}")
                stream.flush()

    try:
        yield show
    finally:
        with suppress(OSError):
            if shown:
                stream.write("\r\x1b[K")
                stream.flush()
