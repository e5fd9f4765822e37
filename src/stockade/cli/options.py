"""Options that make a policy: the same for ``run``, ``plan``, ``estimate``, ``eval`` and ``policy show``."""

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


def assignments(
    word: str, example: str, names: Callable[[], Sequence[str]] | None = None
) -> Callable[[click.Context, click.Parameter, Sequence[str]], list[tuple[str, str]]]:
    """Return the callback that splits ``NAME=VALUE``; NAME must be one of ``names``, if there are any."""

    def convert(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
        pairs = []
        for value in values:
            name, equals, text = value.partition("=")
            if not equals or not name:
                raise click.BadParameter(f"{value!r} is not of the form {example}", ctx, param)
            known = names() if names else ()
            if known and name not in known:
                raise click.BadParameter(f"{name!r} is not a {word}{_meant(name, known)}", ctx, param)
            pairs.append((name, text))
        return pairs

    return convert


def _meant(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else f"; expected one of: {', '.join(known)}"


class _Networks(click.Choice):  # type: ignore[type-arg]  # no generic class before click 8.2
    """The words for a whole network. An error about anything else, such as a host's name, names ``--allow``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(super().convert(value, param, ctx))
        except click.BadParameter as error:
            message = f"{error.message} To open single targets, give --allow HOST:PORT."
            raise click.BadParameter(message, ctx, param) from None


_OPTIONS = (
    click.option(
        "--profile",
        metavar="NAME",
        help="Start from this profile; 'stockade policy profiles' shows them. --policy, STOCKADE_* variables and the "
        "other options follow: a later one wins, field by field.",
    ),
    click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="NAME=VALUE",
        callback=assignments("limit", "memory=64MiB, wall_time=1.5s or cpu_time=unlimited", _limits),
        help="Bound a resource: memory=64MiB, wall_time=1.5s, processes=4, cpu_rate=0.5; 'unlimited' removes a limit. "
        "May be repeated for each resource; 'stockade policy show' lists them.",
    ),
    click.option(
        "--policy",
        "policy_file",
        metavar="FILE",
        help="Apply the policy in FILE (TOML, or JSON if its name ends in .json) on top of the profile; options add to "
        "it or override it, field by field.",
    ),
    click.option(
        "--ceiling",
        metavar="FILE",
        help="The most that all of this may ask for, as a policy in FILE; /etc/stockade/policy.toml is a ceiling in "
        "any case.",
    ),
    click.option("--read", multiple=True, metavar="PATH", help="Show a file or folder at its own path, read-only."),
    click.option(
        "--write",
        multiple=True,
        metavar="PATH",
        help="Show a file or folder at its own path, writable. Nothing bounds the disk space used there, so "
        "this needs --accept disk=absent.",
    ),
    click.option(
        "--workspace",
        metavar="PATH",
        help="Start in this folder of the host, read-only unless --write names it too or --access says otherwise. "
        "'empty' (the default) is a fresh folder, removed after the run.",
    ),
    click.option(
        "--access",
        type=click.Choice(["read", "overlay", "copy", "write"]),
        help="What the code may do in the workspace: 'overlay': its changes go elsewhere, and are discarded unless "
        "--commit is given; 'copy': the same over a copy; 'write': it changes the folder itself, which needs --accept "
        "disk=absent.",
    ),
    click.option(
        "--network",
        type=_Networks(["none", "host"]),
        help="'none' (the default): only a loopback of its own. 'host': the host's network, which "
        "includes services on its loopback and cloud metadata addresses.",
    ),
    click.option(
        "--allow",
        multiple=True,
        metavar="HOST:PORT",
        help="Give a way out to this target and no other: packages.example.org:443, '*.example.com:443', "
        "203.0.113.7:8080; 'packages' stands for the public indexes of Python, Node and Ruby. May be repeated.",
    ),
    click.option(
        "--env",
        "environment",
        multiple=True,
        metavar="NAME=VALUE",
        callback=assignments("variable", "NAME=VALUE (--inherit-env NAME copies a variable of yours)"),
        help="Set an environment variable.",
    ),
    click.option("--inherit-env", "inherit", multiple=True, metavar="NAME", help="Copy a variable of yours."),
    click.option(
        "--accept",
        multiple=True,
        metavar="GUARANTEE=STRENGTH",
        callback=assignments("guarantee", "memory=supervisor or cpu_rate=absent", _guarantees),
        help="Accept a guarantee that is held less strongly than usual: memory=supervisor, cpu_rate=absent.",
    ),
    click.option(
        "--on-output",
        type=click.Choice(["truncate", "kill"]),
        help="Past the output limit: keep head and tail and discard the rest (the default, except for 'eval'), or end "
        "the run.",
    ),
    click.option(
        "--isolation",
        type=click.Choice(["process", "namespaces", "user_kernel", "wasm", "own_kernel"]),
        help="The weakest isolation that may separate the code from the host.",
    ),
    click.option(
        "--syscalls",
        type=click.Choice(["tight", "standard", "permissive"]),
        help="Which system calls the filter allows; 'standard' is the default.",
    ),
    click.option(
        "--syscalls-file",
        metavar="FILE",
        help="A filter of your own in Docker's JSON form; it allows calls in addition.",
    ),
    click.option("--syscalls-replace", is_flag=True, help="Let the file of --syscalls-file decide alone."),
    click.option(
        "--explain-denials",
        is_flag=True,
        help="Name each system call that the filter refuses, the reason, and what would allow it.",
    ),
)

_TRUSTS = ("trusted", "semi-trusted", "untrusted")  # the values of api.select.Trust, which is slow to import


backend_option = click.option(
    "--backend", metavar="NAME", help="What separates the code from the host; default: chosen automatically."
)
image_option = click.option(
    "--image", metavar="NAME", help="Local container image, by tag or digest, to run in, by docker or podman."
)
trust_option = click.option("--trust", type=click.Choice(_TRUSTS), help="How far to trust the code.")


def policy_options(function: _F) -> _F:
    """Add the options that make a policy."""
    return reduce(lambda inner, option: option(inner), reversed(_OPTIONS), function)


def policy_from(options: Mapping[str, Any], trust: str | None = None) -> Policy:
    """Return the policy that profile, file, environment and options make. Raises ``PolicyError`` with all mistakes."""
    return resolved_from(options, trust).policy


def resolved_from(options: Mapping[str, Any], trust: str | None = None) -> Resolved:
    """Return the policy, with the origin of each field."""
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
"""Options that may be repeated. Each adds to the values of file and environment."""


def _arguments(options: Mapping[str, Any]) -> Iterator[Layer]:
    """Yield each option that was given as a layer of its own, so that every field can name its origin."""
    from stockade.policy.merge import Layer, nested

    for option, field in _FIELDS.items():
        if options[option] is not None:
            yield Layer(f"argument {_flag(option)}", nested(field, options[option]))
    if options["allow"] and options["network"] is not None:
        raise click.UsageError("--allow gives a bounded way out, so --network does not go with it")
    for option, (field, value) in _FLAGS.items():
        if options[option]:
            yield Layer(f"argument {_flag(option)}", nested(field, value))
    for option, (flag, table) in _TABLES.items():
        for name, value in options[option]:
            yield Layer(f"argument {flag} {name}", nested(table, {name: value}))
    for option, (flag, field) in _LISTS.items():
        for value in options[option]:
            yield Layer(f"argument {flag} {value}", nested(field, [value]), adds=True)
    for target in options["allow"]:
        added: dict[str, Any] = {"packages": True} if target == "packages" else {"allow": [target]}
        yield Layer(f"argument --allow {target}", {"network": added}, adds=True)


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
