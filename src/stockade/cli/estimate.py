"""``stockade estimate``: initial limits for a tool, from common figures or from one run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from stockade.cli import streams, table
from stockade.cli.options import backend_option, policy_from, policy_options, trust_option
from stockade.cli.reporting import Command, json_option, print_json
from stockade.core.errors import JobError

if TYPE_CHECKING:
    from stockade.runs.result import Result

_HELP = """Suggest limits for a command.

Without --measure nothing runs: the figures are what such tools usually need. With --measure the command runs once in a
sandbox, under the given policy with generous limits. The figures are then its usage plus a margin.
"""
_EXAMPLES = """\b
Examples:
  stockade estimate -- cargo build
  stockade estimate --measure --workspace . --write . --accept disk=absent -- make -j2
  stockade estimate --measure --profile moderate -- sort big.txt
  stockade estimate --json -- pytest
"""
_MIB = 1 << 20
_GENEROUS = {
    "memory": "1TiB", "cpu_time": "1h", "wall_time": "1h", "processes": 4096, "open_files": 4096,
    "file_size": "1TiB", "disk": "4GiB", "output": "16MiB", "operations": "unlimited",
}  # fmt: skip
_SMALL = {"memory": 256 * _MIB, "cpu_time": 30, "wall_time": 60, "processes": 10, "disk": 64 * _MIB}
_SCRIPT = {"memory": 512 * _MIB, "cpu_time": 120, "wall_time": 120, "processes": 32, "disk": 256 * _MIB}
_BUILD = {"memory": 2048 * _MIB, "cpu_time": 900, "wall_time": 600, "processes": 256, "disk": 2048 * _MIB}
_TESTS = {"memory": 1024 * _MIB, "cpu_time": 600, "wall_time": 600, "processes": 256, "disk": 512 * _MIB}
_INSTALL = {"memory": 1024 * _MIB, "cpu_time": 300, "wall_time": 600, "processes": 64, "disk": 2048 * _MIB}
KNOWN: Mapping[str, Mapping[str, int]] = {
    **dict.fromkeys(
        ("cat", "ls", "grep", "sed", "awk", "sort", "head", "tail", "wc", "jq", "find", "tar", "gzip"), _SMALL
    ),
    **dict.fromkeys(("python", "python3", "ruby", "node", "perl", "bash", "sh", "git"), _SCRIPT),
    **dict.fromkeys(("make", "ninja", "cmake", "gcc", "g++", "clang", "cargo", "go", "mvn", "gradle", "tsc"), _BUILD),
    **dict.fromkeys(("pytest", "tox", "jest", "rspec", "mypy", "ruff"), _TESTS),
    **dict.fromkeys(("pip", "uv", "npm", "yarn", "pnpm", "bundle", "gem"), _INSTALL),
}
"""What such tools usually need for a project of medium size. These are starting points, not measurements."""


@click.command(
    "estimate", cls=Command, help=_HELP, epilog=_EXAMPLES, context_settings={"allow_interspersed_args": False}
)
@click.option("--measure", is_flag=True, help="Run the command once and suggest its usage plus a margin.")
@policy_options
@backend_option
@trust_option
@json_option
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND [ARGS]...")
def estimate(measure: bool, as_json: bool, words: Sequence[str], **options: Any) -> int:
    """Print suggested limits and return the exit status."""
    if measure:
        result = _run(words, options)
        limits, source = from_usage(result), f"one run: {result.summary()}"
    else:
        limits, source = from_name(words)
    if as_json:
        print_json({"command": list(words), "limits": limits, "source": source})
    else:
        table.show(("limit", "suggested"), [(name, str(value)) for name, value in limits.items()])
        click.echo(f"\nFrom {source}.\nUse them: stockade run {_as_options(limits)} -- ...")
    return 0


def from_name(words: Sequence[str]) -> tuple[dict[str, int | str], str]:
    """Return the limits for a known tool, and their origin."""
    name = words[0].rpartition("/")[2]
    if name not in KNOWN:
        raise JobError(
            f"there are no figures for {name!r}; --measure runs it once. Known tools: {', '.join(sorted(KNOWN))}"
        )
    return _written(KNOWN[name]), f"what {name} usually needs; --measure shows what your command uses"


def from_usage(result: Result) -> dict[str, int | str]:
    """Return limits from a run: its usage and half as much again, rounded up, at least what a small program needs."""
    used = result.usage
    figures = dict(_SMALL) | {
        "memory": _round_up(1.5 * (used.peak_memory or 0), 64 * _MIB) or _SMALL["memory"],
        "cpu_time": _round_up(1.5 * used.cpu_seconds, 5),
        "wall_time": _round_up(2 * used.wall_seconds, 5),
        "processes": _round_up(1.5 * (used.processes or 1), 5),
    }
    del figures["disk"]  # the kernel keeps no counter of its peak
    return _written(figures)


def _round_up(value: float, step: int) -> int:
    return int(-(-value // step) * step)


def _written(figures: Mapping[str, int]) -> dict[str, int | str]:
    return {
        name: f"{value // _MIB}MiB" if name in ("memory", "disk") else f"{value}s" if name.endswith("_time") else value
        for name, value in figures.items()
    }


def _as_options(limits: Mapping[str, int | str]) -> str:
    return " ".join(f"--limit {name}={value}" for name, value in limits.items())


def _run(words: Sequence[str], options: Mapping[str, Any]) -> Result:
    streams.start_warden()
    given = dict(options["limits"])
    policy = policy_from({**options, "limits": list((_GENEROUS | given).items())}, options["trust"])
    from stockade.api.job_arguments import job_from_command
    from stockade.api.runner import Runner
    from stockade.cli.inputs import inputs

    shown = inputs(words) if policy.filesystem.workspace == "empty" else ()
    box = Runner(policy, backend=options["backend"], trust=options["trust"])
    result = box.run_job(job_from_command(words, inputs=shown, stdin=streams.own_input()))
    if not result.ok:
        last = result.stderr.rstrip().rpartition("\n")[2]
        ending = f"; the last line of its standard error: {last[:200]!r}" if last else ""
        raise JobError(f"the command failed, so its usage suggests no limits: {result.summary()}{ending}")
    return result
