"""``stockade eval``: judge a file of programs, or a known benchmark, and write a file of verdicts."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stockade.cli import eval_places, streams
from stockade.cli.audit import audit_options, observe
from stockade.cli.options import backend_option, policy_from, policy_options, resolved_from, trust_option
from stockade.cli.packages import environment, with_option
from stockade.cli.reporting import SETUP_FAILED, Command, print_json, printable, say
from stockade.cli.secrets import secret_option
from stockade.core.errors import nearest

if TYPE_CHECKING:
    from stockade.batch.evaluation import Evaluation, Sink
    from stockade.batch.journal import Journal
    from stockade.batch.sources import Source
    from stockade.batch.summary import Summary
    from stockade.cli.eval_progress import Progress
    from stockade.policy.model import Policy
    from stockade.workspace.host_files import HostFile

NOT_ALL_JUDGED = 1
_MOST_BAD_LINES = 20
_ENDING = (signal.SIGINT, signal.SIGTERM)
_HELP = """Judge many programs, each run in a sandbox of its own, and write a verdict for each.

\b
  stockade eval FILE.jsonl -o VERDICTS.jsonl   one program a line
  stockade eval FOLDER                         problems with NAME.in and NAME.out, and their solutions
  stockade eval humaneval [SAMPLES]            HumanEval; without samples its reference solutions
  stockade eval mbpp FILE [SAMPLES]            MBPP's problems in FILE
  stockade eval apps FILE [SAMPLES]            APPS's, livecodebench FILE SAMPLES LiveCodeBench's

A line is a JSON object: "id" and "source"; "language" (python, shell, ruby, javascript, c, c++, rust, go, java),
"stdin", "expected", "compare" (exact, lines, tokens, or floats with "tolerance"), or "cases" with these; "files",
"limits", "problem"; or, for Python, "prompt", "answer", "test" and "entry_point" or "functions". Put data of your own
into "meta".

The same command again resumes where the last one ended, however it ended: verdicts are only ever added to the file of
-o, and programs that were running then are run again. VERDICTS.jsonl.batch beside it says which batch the verdicts
belong to. The command refuses another input, or other limits.

Verdicts: passed, wrong_output, failed, compile_error, crashed, limit_exceeded (with the limit); and not_tested,
not_judged and sandbox_failed, which say nothing about the program. Unless a policy sets other limits, a run has 10 s
of CPU time, 20 s of wall time and 1 MiB of output, and ends past any of them.

The exit status is 0 if every line is judged, 1 if some lines were invalid or not judged, 2 bad usage, 125 no
sandbox, no place for the verdicts or an input that changed during the batch, 130 interrupted.
"""
_EXAMPLES = """\b
Examples:
  stockade eval programs.jsonl -o verdicts.jsonl
  stockade eval programs.jsonl -o verdicts.jsonl --jobs 8 --memory 4GiB --limit memory=128MiB
  stockade eval humaneval samples.jsonl -o verdicts.jsonl --report report.html
  stockade eval problems/ --solutions solutions/ -o verdicts.jsonl --stop-early
  stockade eval programs.jsonl | grep -v '"verdict": "passed"'
"""


@click.command("eval", cls=Command, help=_HELP, epilog=_EXAMPLES)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    callback=lambda _ctx, _param, given: None if given == "-" else given,
    help="Write the verdicts to FILE; default, and '-': standard output.",
)
@click.option("--overwrite", is_flag=True, help="Discard the verdicts in that file, and start again.")
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Programs at a time; default: one for each processor."
)
@click.option("--memory", metavar="SIZE", help="Memory for all programs together, each counted with its whole limit.")
@click.option("--ordered", is_flag=True, help="At the end, sort the verdicts into the order of the input.")
@click.option("--solutions", metavar="FOLDER", help="The folder with the solutions to a folder of problems.")
@click.option(
    "--tests",
    type=click.Choice(["isolated", "shared", "apart"]),
    default="isolated",
    help="Run a test in a sandbox of its own ('isolated', the default), or in the answer's interpreter ('shared'): "
    "faster, but the answer can forge the verdict. 'apart' is the old name of 'isolated'.",
)
@click.option("--stop-early", is_flag=True, help="Skip the cases after the first one that did not pass.")
@click.option(
    "--retries", type=click.IntRange(0), default=2, help="How often to start a program again if its sandbox failed (2)."
)
@click.option(
    "--keep-output",
    type=click.IntRange(0),
    default=2048,
    metavar="BYTES",
    help="Bytes of each stream to keep in a verdict (2048).",
)
@click.option("--interpreter", metavar="PATH", help="Interpreter, or virtual environment, for Python programs.")
@with_option
@click.option(
    "--compiler",
    "compilers",
    multiple=True,
    metavar="LANGUAGE=PATH",
    help="Use this compiler, or the one installed in this folder: rust=~/.cargo/bin/rustc.",
)
@click.option("--k", "ks", default="1,10,100", metavar="LIST", help="Values of k for pass@k (1,10,100).")
@click.option("--report", metavar="FILE", help="Write a page with charts and a table to FILE; the page loads nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object; needs -o.")
@click.option("--quiet", is_flag=True, help="Show no progress and no summary.")
@policy_options
@audit_options
@backend_option
@trust_option
@secret_option
@click.argument("words", nargs=-1, required=True, metavar="FILE|FOLDER|FORMAT [FILE]...")
def evaluate(**options: Any) -> int:
    """Judge programs and return the exit status."""
    ks = _check(options)
    streams.start_warden()
    from stockade.cli import eval_progress

    policy = _policy(options)
    with ExitStack() as stack:
        report = eval_places.opened(options, policy.filesystem.writable, stack)
        observe(options)  # makes the audit log, so only after the check of its place
        with eval_progress.notice("checking the programs", quiet=options["quiet"] or options["as_json"]):
            evaluation = _evaluation(options, policy)
        run = _Run(evaluation, options, stack, report)
        return run.tell(run.carry_out(), ks)


class _Run:
    """A batch after its input was checked: judges the rest, shows the progress and reports the end."""

    def __init__(
        self, evaluation: Evaluation, options: Mapping[str, Any], stack: ExitStack, report: HostFile | None
    ) -> None:
        """``report`` is the file for the page with charts, if one is wanted."""
        from stockade.batch.journal import Journal
        from stockade.batch.summary import Summary
        from stockade.cli.eval_progress import Progress

        self._evaluation, self._options, self._report = evaluation, options, report
        self._summary: Summary = Summary()
        self._journal: Journal | None = None
        self._done = bytearray(evaluation.seen.last + 1)
        if options["output"] is not None:
            writable = evaluation.settings.policy.filesystem.writable
            identity, anew = evaluation.identity(), options["overwrite"]
            journal = Journal(options["output"], identity, overwrite=anew, writable=writable)
            self._journal = stack.enter_context(journal)
            self._done = journal.replay(evaluation.seen.last, self._summary.add)
        self._before = self._summary.total
        self._signal = 0
        quiet = options["quiet"] or options["as_json"]
        self._progress: Progress = Progress(evaluation.seen.good, self._before, quiet=quiet)
        self._report_bad_lines()
        if self._before and not quiet:
            self._progress.say(f"{self._before} of {evaluation.seen.good} were judged before; resuming")

    def carry_out(self) -> int:
        """Judge the remaining programs; return the exit status."""
        try:
            asyncio.run(self._judge_all())
            if self._journal is not None and self._options["ordered"] and not self._signal:
                self._journal.sort()
        except BrokenPipeError:
            raise  # the reader of the verdicts is gone, so nothing is to be reported
        except OSError as error:
            self._progress.clear()
            say(f"{self._options['output'] or 'standard output'}: {error.strerror or error}")
            self._say_how_to_go_on()
            return SETUP_FAILED
        self._progress.clear()
        if self._signal:
            self._say_how_to_go_on()
            return 128 + self._signal
        return NOT_ALL_JUDGED if self._summary.not_judged or self._evaluation.seen.bad else 0

    async def _judge_all(self) -> None:
        """Judge until the end, or until Ctrl-C or SIGTERM."""
        loop, working = asyncio.get_running_loop(), asyncio.ensure_future(self._work())

        def end(number: int) -> None:
            if not self._signal:
                self._signal = number
                for each in before:  # only clean-up remains, which a signal must not interrupt
                    signal.signal(each, signal.SIG_IGN)
                working.cancel()

        # Not loop.add_signal_handler: to take its handlers back, a loop sets the default action for a moment.
        before = {each: old for each in _ENDING if (old := signal.getsignal(each)) is not signal.SIG_IGN}
        for each in before:
            signal.signal(each, lambda number, _frame: loop.call_soon_threadsafe(end, number))
        try:
            with suppress(asyncio.CancelledError):
                await working
        finally:
            if not self._signal:
                for each, old in before.items():
                    signal.signal(each, signal.SIG_DFL if old is None else old)

    async def _work(self) -> None:
        sink: Sink = self._journal if self._journal is not None else _Printed()
        async with aclosing(self._evaluation.run(self._done, sink)) as records:
            async for record in records:
                self._summary.add(record)
                self._progress.step(self._summary.by_kind)

    def tell(self, status: int, ks: Sequence[int]) -> int:
        """Print the summary and write the report; return the exit status."""
        if status not in (0, NOT_ALL_JUDGED):
            return status
        if self._report is not None and self._journal is not None:
            _write_report(self._report, self._journal, self._summary, ks, " ".join(self._options["words"]))
        if self._options["as_json"]:
            bad = [{"line": number, "reason": reason} for number, reason in self._evaluation.seen.bad.items()]
            print_json({**self._summary.as_json(ks), "judged_before": self._before, "bad_lines": bad})
        elif not self._options["quiet"]:
            from stockade.cli import eval_summary

            click.echo(f"{self._progress.sentence()}\n", err=True)
            for line in eval_summary.lines(self._summary, ks):
                click.echo(line, err=self._journal is None)
        return status

    def _report_bad_lines(self) -> None:
        bad = self._evaluation.seen.bad
        for number, reason in list(bad.items())[:_MOST_BAD_LINES]:
            say(f"{self._evaluation.source.name}:{number}: {reason}")
        if len(bad) > _MOST_BAD_LINES:
            say(f"... and {len(bad) - _MOST_BAD_LINES} more invalid lines")

    def _say_how_to_go_on(self) -> None:
        judged, good = self._summary.total, self._evaluation.seen.good
        if self._journal is None:
            say(f"ended after {judged} of {good}; with -o FILE it could resume there")
            return
        words = [word for word in sys.argv[1:] if word != "--overwrite"]
        say(f"{judged} of {good} verdicts are in {self._options['output']}; to resume:")
        say(f"  {shlex.join(['stockade', *words])}")


class _Printed:
    """A sink that prints verdicts on standard output."""

    def append(self, verdict: Any) -> dict[str, Any]:
        """Print a verdict."""
        record: dict[str, Any] = verdict.as_json()
        print_json(record)
        return record


def _check(options: Mapping[str, Any]) -> list[int]:
    """Raise ``click.UsageError`` for contradictory options; return the numbers of ``--k``."""
    if options["output"] is None:
        for name in ("as_json", "report", "overwrite"):
            if options[name]:
                raise click.UsageError(f"--{name.removeprefix('as_')} needs -o FILE, where the verdicts go")
    eval_places.require(options["output"], options["report"], options["words"])
    try:
        ks = [int(word) for word in options["ks"].split(",")]
    except ValueError:
        ks = [0]
    if min(ks) < 1:
        raise click.UsageError(f"--k {options['ks']}: expected numbers of at least 1, such as 1,10")
    return sorted(set(ks))


def _evaluation(options: Mapping[str, Any], policy: Policy) -> Evaluation:
    from stockade.batch import machine
    from stockade.batch.budget import Budget
    from stockade.batch.evaluation import Evaluation
    from stockade.batch.judge import Settings

    settings = Settings(
        policy=policy,
        backend=options["backend"],
        trust=options["trust"],
        interpreter=environment(options, policy) or options["interpreter"],
        compilers=dict(_named(word) for word in options["compilers"]),
        tests=options["tests"],
        stop_early=options["stop_early"],
        retries=options["retries"],
        kept=options["keep_output"],
        secrets=options["secrets"],
    )
    budget = Budget(machine.capacity(options["jobs"], options["memory"]))
    ordered = options["ordered"] and options["output"] is None
    return Evaluation(_source(options), settings, budget, ordered=ordered)


def _named(word: str) -> tuple[str, str]:
    language, equals, path = word.partition("=")
    if not (language and equals and path):
        raise click.UsageError(f"--compiler {printable(word)}: expected LANGUAGE=PATH, such as rust=~/.cargo/bin/rustc")
    return language, path


def _policy(options: Mapping[str, Any]) -> Policy:
    """Return the policy of the options. A field that nothing else sets has a batch's default."""
    from stockade.batch import policies

    origins = resolved_from(options, options["trust"]).origins
    defaults = [
        (name, str(value)) for name, value in policies.BATCH_LIMITS.items() if origins[f"limits.{name}"] == "default"
    ]
    output = "kill" if origins["on_output"] == "default" else options["on_output"]
    return policy_from({**options, "limits": [*defaults, *options["limits"]], "on_output": output}, options["trust"])


def _source(options: Mapping[str, Any]) -> Source:
    from stockade.batch import sources
    from stockade.batch.formats import FORMATS, find

    first, *rest = options["words"]
    path, solutions = Path(first), options["solutions"]
    if solutions is not None and (first in FORMATS or not path.is_dir()):
        raise click.UsageError("--solutions needs a folder of problems")
    if first in FORMATS:
        return find(first, [Path(word) for word in rest])
    known, near = ", ".join(FORMATS), nearest(first, FORMATS)
    if near and not path.exists():
        what = "format" if rest else "file or format"
        raise click.UsageError(f"{printable(first)}: there is no such {what}; did you mean {near!r}?")
    if rest:
        raise click.UsageError(f"{printable(rest[0])}: expected one file or folder, or one of {known} before its files")
    if path.is_dir():
        return sources.folder(path, None if solutions is None else Path(solutions))
    return sources.lines(path)


def _write_report(file: HostFile, journal: Journal, summary: Summary, ks: Sequence[int], title: str) -> None:
    from stockade.batch import report

    report.write(file, journal.records(), summary, ks, title=title)
