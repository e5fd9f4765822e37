"""``stockade run``: pass on the guest's output and exit status, and write the result object on demand."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stockade.cli import hints, inputs, streams
from stockade.cli.audit import audit_options, observe
from stockade.cli.options import backend_option, image_option, policy_options, resolved_from, trust_option
from stockade.cli.outputs import Outputs, check_outcome, check_project, files_of, outcome_options, with_overlay
from stockade.cli.packages import check_language, environment, source_of, with_option
from stockade.cli.receipt import Receipt
from stockade.cli.reporting import Command
from stockade.cli.secrets import secret_option
from stockade.core.errors import JobError, nearest

if TYPE_CHECKING:
    from stockade.api.runner import Runner
    from stockade.api.stream import Stream
    from stockade.policy.model import Policy
    from stockade.runs.job import Job

_LIKE_SOURCE = re.compile(r"[(=;\n]")
_HELP = """Run a script, a line of code or a command in a sandbox.

\b
  stockade run SCRIPT [ARGS]     a script; its suffix tells the language
  stockade run -c CODE [ARGS]    code, Python unless --language says otherwise
  stockade run - [ARGS]          code from standard input
  stockade run -- COMMAND [ARGS] a command from the sandbox's own PATH

Options of stockade come before SCRIPT; everything after it belongs to the script.

The words of a COMMAND, and the ARGS of code, that name existing files or folders below the current folder are shown,
read-only, at the same relative path in the workspace: 'stockade run -- sort big.txt' finds big.txt. The word must be
relative, without '..', and must not lead out of the current folder by a link. --file copies any other file; --read and
--workspace show it. If the code misses a file of yours, a line on standard error says which option shows it.

The code gets standard input, unless that is a terminal. Its output is passed on as it is written. Past the limit on
output, a marker replaces the omitted part, and the end follows.

With --interactive the code also gets a terminal's input, line by line; Ctrl-D ends it. Ctrl-C then goes to the code,
as SIGINT to its process group; a second one within a second ends the run, a third gives up at once. Without it the
first Ctrl-C ends the run, and the second gives up.

The exit status is that of the code, or: 124 its limit on wall_time, 137 another limit, 125 no sandbox could be set
up or a package is unavailable, 126 not executable, 127 not found, 128+N ended by signal N, 130 interrupted, 2 bad
usage. Code may exit with the same numbers, so rely on the object that --json and --result-file write.
"""
_EXAMPLES = """\b
Examples:
  stockade run script.py one two
  stockade run -c 'import sys; print(sys.argv[1:])' one two
  stockade run --language ruby -c 'puts ARGV.sum(&:to_i)' 1 2
  stockade run --language shell -c 'ulimit -a'
  stockade run --profile strict script.py
  stockade run --packages ./node_modules report.mjs
  stockade run --packages .venv -- pytest tests
  stockade run --with pandas --with 'matplotlib>=3.8' plot.py
  stockade run --limit memory=64MiB --limit wall_time=5s -- sort big.txt
  stockade run --read ./data --workspace ./project -- python3 train.py
  stockade run --result-file verdict.json script.py < input.txt
  stockade run --artifacts '*.png' --artifacts-to plots plot.py data.csv
  stockade run --file data.csv --file tools/fix=/opt/fix -- tools/fix data.csv
  stockade run --workspace . --diff -- make format
  stockade run --allow api.example.com:443 --secret API_KEY=MY_KEY@api.example.com client.py
  stockade run --json -c '6 * 7' | python3 -m json.tool
"""


class _Run(Command):
    """Records whether ``--`` came before the first word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and check whether ``--`` precedes the remaining words."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        at = len(given) - len(ctx.params["words"]) - 1
        ctx.params["is_command"] = at >= 0 and given[at] == "--" and ctx.params["code"] is None
        return rest


@click.command(
    "run",
    cls=_Run,
    help=_HELP,
    epilog=_EXAMPLES,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.option("-c", "code", metavar="CODE", help="Run this code.")
@click.option(
    "--language",
    metavar="NAME",
    help="Language of the code: python, ruby, javascript, shell; default: by suffix. Compiled ones: stockade eval.",
)
@click.option("--interpreter", metavar="PATH", help="Interpreter, or virtual environment, to run the code with.")
@click.option("-i", "--interactive", is_flag=True, help="Pass a terminal's input on; Ctrl-C goes to the code first.")
@click.option(
    "--packages",
    metavar="PATH",
    help="Installed packages to import from, shown read-only: a virtual environment, a gem folder or node_modules, "
    "depending on the language. A command finds their programs on its PATH.",
)
@with_option
@click.option(
    "--inline-requirements", is_flag=True, help="Provide the packages that the script's own metadata names (PEP 723)."
)
@policy_options
@secret_option
@audit_options
@backend_option
@image_option
@trust_option
@outcome_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON instead of the guest's output.")
@click.option("--result-file", metavar="FILE", help="Write the result as JSON to FILE, and pass the output on.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] SCRIPT|COMMAND [ARGS]...")
def run(as_json: bool, result_file: str | None, **options: Any) -> int:
    """Run the job and return the exit status."""
    _check(options)
    with Receipt(result_file, as_json=as_json) as receipt:
        return _run(options, receipt)


def _check(options: Mapping[str, Any]) -> None:
    """Raise ``click.UsageError`` if the options are contradictory or name nothing to run."""
    check_outcome(options)
    if options["code"] is None and not options["words"]:
        raise click.UsageError("nothing to run: give a script, -c CODE, or -- and a command")
    if options["is_command"]:
        for name in ("language", "interpreter"):
            if options[name] is not None:
                raise click.UsageError(f"--{name} is for source code, but a command follows '--'")
        if options["inline_requirements"]:
            raise click.UsageError("--inline-requirements is for source code, but a command follows '--'")
    if options["interactive"] and options["code"] is None and options["words"][0] == "-":
        raise click.UsageError("--interactive gives standard input to the code, but '-' reads the code from it")


def _run(options: Mapping[str, Any], receipt: Receipt) -> int:
    streams.start_warden()
    observe(options)
    resolved = resolved_from(with_overlay(options), options["trust"])
    policy = resolved.policy
    check_project(options, policy)
    receipt.open(policy)
    job = _job(_with_packages(options, policy), policy)
    from stockade.api.runner import Runner

    box = Runner(policy, backend=options["backend"], image=options["image"], trust=options["trust"])
    outcome = Outputs(options, policy)
    job = job if receipt.shows_output else outcome.with_names(job, box.backend)
    job = replace(job, stdin=None) if box.backend.traits.ignores_input else job
    passed_on = options["interactive"] and not box.backend.traits.no_signals_because
    with streams.Interrupt(passed_on=passed_on) as interrupt:
        out = streams.PassedOn(interrupt)
        with _stream(box, job, interrupt, keep_all=receipt.shows_output) as stream:
            _follow(stream, None if receipt.as_json else out)
        status = receipt.verdict(stream.result, out, job)
        if not (receipt.as_json or stream.result.ok):
            hints.say_hints(stream.result, policy, job, _script_path(options))
            hints.say_general(stream.result, policy, job, resolved.origins)
        if not receipt.as_json and any(word.startswith("--") for word in options["words"]):
            hints.say_misplaced(options["words"], "" if stream.result.ok else stream.result.stderr)
    return outcome.deliver(stream.result, status)


def _stream(box: Runner, job: Job, interrupt: streams.Interrupt, *, keep_all: bool) -> Stream:
    """Start the run; Ctrl-C acts on it while this process waits for it."""
    from stockade.api.launcher import open_exchange
    from stockade.api.stream import KEPT, Stream

    how = {"live": True, "keep": None if keep_all else KEPT}
    begun: list[Stream] = []
    attend = {interrupt.fd: lambda: interrupt.act(begun[0])}
    begun.append(Stream(partial(open_exchange, box.backend, box.plan, job, **how), job.stdin, attend=attend))
    return begun[0]


def _follow(stream: Stream, out: streams.PassedOn | None) -> None:
    """Pass the output on as it arrives. End the run if our reader is gone, as a closed pipe ends a program."""
    from stockade.runs.events import Finished, Output

    for event in stream:
        if out is not None and isinstance(event, Finished):
            out.finish(event.result)
        if out is not None and isinstance(event, Output):
            out.take(event)
            if out.lost:
                stream.cancel()


def _with_packages(options: Mapping[str, Any], policy: Policy) -> Mapping[str, Any]:
    """Return the options with the environment of the named packages: an interpreter, or packages of a command."""
    if not (options["requirements"] or options["inline_requirements"]):
        return options
    if options["packages"] is not None:
        raise click.UsageError("--with makes an environment of its own, so leave out --packages")
    if not options["is_command"]:
        check_language(options)
    folder = environment(options, policy, inline=source_of(options))
    place = "packages" if options["is_command"] else "interpreter"
    return options if folder is None else {**options, place: folder}


def _job(options: Mapping[str, Any], policy: Policy) -> Job:
    from stockade.api.job_arguments import job_from_command, job_from_source

    words, own_input = options["words"], partial(streams.own_input, interactive=options["interactive"])
    is_empty = policy.filesystem.workspace == "empty"
    files, executables = inputs.copied(options["copied"])
    if options["is_command"]:
        shown = inputs.inputs(words, without=files) if is_empty else ()
        more = {"files": files, "packages": options["packages"], "secrets": options["secrets"], **files_of(options)}
        made = job_from_command(words, stdin=own_input(), inputs=shown, **more)
        return replace(made, executables=executables)
    source: bytes | Path
    if options["code"] is not None:
        source, stdin, arguments = os.fsencode(options["code"]), own_input(), words
    elif words[0] == "-":
        source, stdin, arguments = sys.stdin.buffer.read(), None, words[1:]
    else:
        source, stdin, arguments = _script(words), own_input(), words[1:]
    made = job_from_source(
        source,
        inputs=inputs.named_in(arguments, without=files) if is_empty else (),
        files=files,
        language=options["language"],
        interpreter=options["interpreter"],
        packages=options["packages"],
        secrets=options["secrets"],
        arguments=arguments,
        stdin=stdin,
        **files_of(options),
    )
    return replace(made, executables=executables)


def _script_path(options: Mapping[str, Any]) -> str | None:
    """Return the first word, which may name a script, or ``None`` for a command."""
    return None if options["is_command"] else next(iter(options["words"]), "")


def _script(words: Sequence[str]) -> Path:
    path = Path(words[0])
    if path.exists() and not path.is_dir():
        return path
    what = "is a folder" if path.is_dir() else "there is no such file"
    near = nearest(path.name, _names(path.parent))
    if near:
        raise JobError(f"{path}: {what}; did you mean {path.with_name(near)}?")
    if _LIKE_SOURCE.search(words[0]):
        raise JobError(f"{path}: {what}; to run source text: stockade run -c {shlex.join(words)}")
    command = words[0] if " " in words[0] and len(words) == 1 else shlex.join(words)
    raise JobError(f"{path}: {what}; to run a command, put '--' before it: stockade run -- {command}")


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_file()]
    except OSError:
        return []
