"""``stockade bench``: measure the cost of runs on this machine, and where the time of a run goes."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stockade.cli import streams, table
from stockade.cli.reporting import Command, json_option, print_json
from stockade.workspace.host_files import HostFile

if TYPE_CHECKING:
    from stockade.profiling.speed import Case
    from stockade.profiling.steps import Trace

_T = TypeVar("_T")
_HELP = """Measure the cost of a run of a small Python program on this machine: from a warm interpreter, from a fresh
one on every backend that is usable here, and from a bare interpreter without a sandbox. The cases take turns, with a
different program each time, and are timed from the call to the result.

With --trace, show where the time of one run goes, step by step, as recorded by the caller, the warden, the guest and
the worker. Figures from a busy machine mean little: the p90 beside each median shows how busy it was.
"""
_EXAMPLES = """\b
Examples:
  stockade bench
  stockade bench --runs 200 --json > speed.json
  stockade bench --interpreter /usr/bin/python3
  stockade bench --trace
  stockade bench --trace --cold
  stockade bench --trace --pause 0 --runs 1000 --svg trace.svg
"""
_RUNS, _TRACED_RUNS = 50, 200
_BAR = 24


@click.command("bench", cls=Command, help=_HELP, epilog=_EXAMPLES)
@click.option(
    "--runs", type=click.IntRange(1), help=f"Runs of each case; default {_RUNS}, with --trace {_TRACED_RUNS}."
)
@click.option("--interpreter", metavar="PATH", help="The Python interpreter to measure.")
@click.option("--trace", "tracing", is_flag=True, help="Show where the time of one run goes.")
@click.option("--cold", is_flag=True, help="With --trace: trace runs from a fresh interpreter.")
@click.option(
    "--preload", multiple=True, metavar="MODULE", help="With --trace: import MODULE ahead of the runs; may be repeated."
)
@click.option(
    "--pause",
    type=click.FloatRange(0, 10),
    metavar="SECONDS",
    help="With --trace: the pause between two runs. The default, 0.01, is like a caller with a hundred runs a second. "
    "With 0, a run also meets the clean-up of the one before it.",
)
@click.option("--svg", metavar="FILE", help="With --trace: also draw the trace into FILE.")
@json_option
def bench(as_json: bool, tracing: bool, **options: Any) -> int:
    """Measure and return the exit status."""
    for name in ("cold", "preload", "pause", "svg"):
        if not tracing and options[name] not in (None, False, ()):
            raise click.UsageError(f"--{name} needs --trace")
    if tracing and options["interpreter"]:
        raise click.UsageError("--trace always runs the interpreter of this program: omit --interpreter")
    if options["cold"] and options["preload"]:
        raise click.UsageError("--preload is for warm runs: omit --cold")
    streams.start_warden()
    return _trace(options, as_json=as_json) if tracing else _speed(options, as_json=as_json)


def _speed(options: dict[str, Any], *, as_json: bool) -> int:
    from stockade.profiling import speed

    runs = options["runs"] or _RUNS
    cases: list[Case] = _carried_out(speed.measure(runs, options["interpreter"]), runs)
    if as_json:
        print_json({"machine": machine(), "date": str(date.today()), "runs": runs, "ms": [c.as_json() for c in cases]})
        return 0
    bare = next((case.median for case in cases if case.name == speed.BARE and not case.missing), 0.0)
    rows = [_row(case, bare) for case in cases if not case.missing]
    table.show(("a small program", "median ms", "p90", "p99", "of a bare interpreter's"), rows)
    for case in cases:
        if case.missing:
            click.echo(f"{case.name}: not measured: {case.missing}")
    click.echo(f"\n{machine()}; {runs} runs of each case, taking turns")
    return 0


def _row(case: Case, bare: float) -> tuple[str, ...]:
    ratio = f"{case.median / bare:.2f}" if bare else ""
    return (case.name, f"{case.median:.2f}", f"{case.p90:.2f}", f"{case.p99:.2f}", ratio)


def _trace(options: dict[str, Any], *, as_json: bool) -> int:
    from stockade.profiling import chart, steps

    runs, cold = options["runs"] or _TRACED_RUNS, options["cold"]
    pause = 0.01 if options["pause"] is None else options["pause"]
    going = steps.trace(runs, pause=pause, warm=not cold, preload=options["preload"])
    found: Trace = _carried_out(going, runs)
    kind = "a fresh interpreter" if cold else "a warm interpreter"
    if options["svg"]:
        with HostFile(options["svg"], "--svg") as file:
            file.deliver(chart.svg(found, f"One run from {kind}").encode())
    if as_json:
        print_json({"machine": machine(), "date": str(date.today()), "from": kind, "pause": pause, **found.as_json()})
    else:
        _show(found)
        click.echo(f"\n{found.whole:.0f} us from call to return, from {kind}; {machine()}; {runs} runs")
    return 0


def _show(found: Trace) -> None:
    """Print the steps before the answer, in parallel to it, and after it."""
    rows = []
    for step in found.steps:
        share = "after the answer" if step.behind else "#" * round(_BAR * step.took / found.whole)
        rows.append((step.process, f"{step.at:.0f}", f"{step.took:.0f}", f"{step.p90:.0f}", share, step.what))
    table.show(("process", "at us", "took", "p90", "of the whole", "until"), rows)


def _carried_out(going: Iterable[int | _T], total: int) -> _T:
    """Show the progress of a measurement, and return its result."""
    watched = sys.stderr is not None and sys.stderr.isatty()
    for found in going:
        if not isinstance(found, int):
            if watched:
                click.echo("\r\033[K", nl=False, err=True)
            return found
        if watched:
            click.echo(f"\r\033[K[{found}/{total}]", nl=False, err=True)
    raise AssertionError("a measurement ends with its result")


def machine() -> str:
    """Return a description of this machine to print with the figures."""
    kernel = platform.release().partition("-")[0]
    return (
        f"{len(os.sched_getaffinity(0))} CPUs, Linux {kernel} {platform.machine()}, Python {platform.python_version()}"
    )
