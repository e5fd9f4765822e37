"""Options that make a policy: the same for ``run``, ``plan``, ``estimate`` and ``policy show``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stockade.core.errors import nearest

if TYPE_CHECKING:
    from stockade.policy.merge import Layer
    from stockade.policy.model import Policy
    from stockade.policy.resolve import Resolved

_F = TypeVar("_F", bound=Callable[..., Any])


def _limits() -> Sequence[str]:
    from stockade.policy.parts import Limits

    return list(Limits.model_fields)


def _guarantees() -> Sequence[str]:
    from stockade.policy.guarantees import Guarantee

    return [str(guarantee) for guarantee in Guarantee]


def _assignments(
    word: str, example: str, names: Callable[[], Sequence[str]] | None = None
) -> Callable[[click.Context, click.Parameter, Sequence[str]], list[tuple[str, str]]]:
    """Return the callback that takes ``NAME=VALUE`` apart, where NAME may have to be one of a list."""

    def convert(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
        pairs = []
        for value in values:
            name, equals, text = value.partition("=")
            if not equals or not name:
                raise click.BadParameter(f"{value!r} is not of the form {example}", ctx, param)
            known = names() if names else ()
            if known and name not in known:
                raise click.BadParameter(f"{name!r} is no {word}{_meant(name, known)}", ctx, param)
            pairs.append((name, text))
        return pairs

    return convert


def _meant(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else f"; there are: {', '.join(known)}"


_OPTIONS = (
    click.option(
        "--profile",
        metavar="NAME",
        help="Begin with this profile; 'stockade policy profiles' shows them. Then come --policy, STOCKADE_* variables "
        "and the other options: the later wins, field by field.",
    ),
    click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_assignments("limit", "memory=64MiB, wall_time=1.5s or cpu_time=unlimited", _limits),
        help="Bound a resource: memory=64MiB, wall_time=1.5s, processes=4, cpu_rate=0.5; 'unlimited' lifts a limit. "
        "May be given again for each resource; 'stockade policy show' lists them.",
    ),
    click.option(
        "--policy",
        "policy_file",
        metavar="FILE",
        help="Take the policy in FILE (TOML, or JSON where its name ends in .json) over the profile; options add to "
        "it or override it, field by field.",
    ),
    click.option(
        "--ceiling",
        metavar="FILE",
        help="The most that all of this may ask for, as a policy in FILE; beside /etc/stockade/policy.toml, that holds "
        "in any case.",
    ),
    click.option("--read", multiple=True, metavar="PATH", help="Show a file or folder at its own place, read-only."),
    click.option(
        "--write",
        multiple=True,
        metavar="PATH",
        help="Show a file or folder at its own place, writable. Nothing bounds the disk space used there, so "
        "this needs --accept disk=absent.",
    ),
    click.option(
        "--workspace",
        metavar="PATH",
        help="Start in this folder of the host, read-only unless it is given with --write as well, or --access says "
        "otherwise. 'empty' (the default) is a fresh one, gone after the run.",
    ),
    click.option(
        "--access",
        type=click.Choice(["read", "overlay", "copy", "write"]),
        help="What the code may do in the workspace: 'overlay': what it writes is kept apart, and discarded unless "
        "--commit is given; 'copy': the same over a copy; 'write': for real, which needs --accept disk=absent.",
    ),
    click.option(
        "--network",
        type=click.Choice(["none", "host"]),
        help="'none' (the default): a loopback of its own and nothing else. 'host': the host's network, which "
        "reaches services on its loopback and cloud metadata addresses.",
    ),
    click.option(
        "--env",
        "environment",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_assignments("variable", "NAME=VALUE (--inherit-env NAME takes over a variable of yours)"),
        help="Set an environment variable.",
    ),
    click.option("--inherit-env", "inherit", multiple=True, metavar="NAME", help="Take over a variable of yours."),
    click.option(
        "--accept",
        multiple=True,
        metavar="GUARANTEE=STRENGTH",
        callback=_assignments("guarantee", "memory=supervisor or cpu_rate=absent", _guarantees),
        help="Be content with a guarantee that is held less strongly than usual: memory=supervisor, cpu_rate=absent.",
    ),
    click.option(
        "--on-output",
        type=click.Choice(["truncate", "kill"]),
        help="Past the output limit: keep head and tail and discard the rest (the default; not of 'eval'), or end the "
        "run.",
    ),
    click.option(
        "--isolation",
        type=click.Choice(["process", "namespaces", "wasm", "own_kernel"]),
        help="The least that may stand between the code and the host.",
    ),
    click.option(
        "--syscalls",
        type=click.Choice(["tight", "standard", "permissive"]),
        help="Which system calls the kernel takes; 'standard' is the default.",
    ),
    click.option(
        "--syscalls-file",
        metavar="FILE",
        help="A filter of your own in Docker's JSON form: what it allows is allowed as well.",
    ),
    click.option("--syscalls-replace", is_flag=True, help="The file of --syscalls-file decides alone."),
    click.option(
        "--explain-denials",
        is_flag=True,
        help="Name each system call that the filter refuses, with the reason and what would allow it.",
    ),
)

_TRUSTS = ("trusted", "semi-trusted", "untrusted")  # as _select.Trust has them, whose module would be slow to import


backend_option = click.option(
    "--backend", metavar="NAME", help="What stands between the code and the host. Unset: chosen."
)
trust_option = click.option("--trust", type=click.Choice(_TRUSTS), help="How far to trust the code.")


def policy_options(function: _F) -> _F:
    """Add the options that make a policy."""
    return reduce(lambda inner, option: option(inner), reversed(_OPTIONS), function)


def policy_from(options: Mapping[str, Any], trust: str | None = None) -> Policy:
    """Return the policy that profile, file, environment and options make. Raises ``PolicyError`` with every mistake."""
    return resolved_from(options, trust).policy


def resolved_from(options: Mapping[str, Any], trust: str | None = None) -> Resolved:
    """Return that policy, and where each of its fields came from."""
    from stockade.policy.resolve import resolved

    ceiling = None if options["ceiling"] is None else Path(options["ceiling"])
    arguments = list(_arguments(options))
    return resolved(options["profile"], options["policy_file"], os.environ, arguments, ceiling=ceiling, trust=trust)


_FIELDS = {
    "workspace": "filesystem.workspace",
    "access": "filesystem.access",
    "network": "network",
    "on_output": "on_output",
    "isolation": "isolation",
    "syscalls": "security.syscalls",
    "syscalls_file": "security.syscalls_file",
}
_FLAGS = {
    "syscalls_replace": ("security.syscalls_mode", "replace"),
    "explain_denials": ("security.explain_denials", True),
}
_TABLES = {
    "limits": ("--limit", "limits"),
    "environment": ("--env", "environment.set"),
    "accept": ("--accept", "accept"),
}
_LISTS = {
    "read": ("--read", "filesystem.read"),
    "write": ("--write", "filesystem.write"),
    "inherit": ("--inherit-env", "environment.inherit"),
}
"""Options that may be given again; each adds to what file and environment say."""


def _arguments(options: Mapping[str, Any]) -> Iterator[Layer]:
    """Yield each option that was given as a layer, so that every field can name its own."""
    from stockade.policy.merge import Layer, nested

    for option, field in _FIELDS.items():
        if options[option] is not None:
            yield Layer(f"argument {_flag(option)}", nested(field, options[option]))
    for option, (field, value) in _FLAGS.items():
        if options[option]:
            yield Layer(f"argument {_flag(option)}", nested(field, value))
    for option, (flag, table) in _TABLES.items():
        for name, value in options[option]:
            yield Layer(f"argument {flag} {name}", nested(table, {name: value}))
    for option, (flag, field) in _LISTS.items():
        for value in options[option]:
            yield Layer(f"argument {flag} {value}", nested(field, [value]), adds=True)


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
