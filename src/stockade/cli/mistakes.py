"""Advice on options and commands that do not exist: the name that stockade uses for what other tools call otherwise."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

import click

from stockade.core.errors import nearest

_SHORT = {
    "-e": "--env NAME=VALUE",
    "-m": "--limit memory=VALUE', or, for a module, '-- python -m NAME",
    "-t": "--limit wall_time=VALUE",
    "-v": "--read PATH' or '--write PATH",
    "-w": "--workspace PATH",
}
"""Short options of other tools, for commands that take limits."""
_LONG = {"status": "--show", "state": "--show", "user": "--label user=VALUE", "listen": "--host", "bind": "--host"}
"""Options of other tools, for commands that have the option on the right and take no limits."""
_TAKES_NOTHING = {
    "stockade attack": "stockade attack --only {}",
    "stockade kill": "stockade kill --sandbox {}",
    "stockade sandbox ls": "stockade sandbox run {} -- ls",
}
"""For a command without arguments, what one that was given all the same probably asks for."""
_INPUT = ("stdin", "input", "input_file")


class Group(click.Group):
    """A group of commands. An error about an unknown one names the one that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            way = "" if args[0].startswith("-") else self.meant_command(ctx, args[0]) or self.forgotten(ctx, args[0])
            hint = f"Did you mean '{way}'?" if way else self.offered(ctx)
            if not hint:
                raise
            raise click.UsageError(f"{error.message} {hint}", ctx) from None

    def meant_command(self, ctx: click.Context, word: str) -> str:
        """Return the command line that ``word`` probably stands for, or an empty text."""
        near = nearest(word, self.list_commands(ctx))
        return f"{ctx.command_path} {near}" if near else ""

    def forgotten(self, ctx: click.Context, word: str) -> str:
        """Return the command line that ``word`` probably stands for if it is the argument of a command left out."""
        for name, command in self.commands.items():
            if profile := _profile_option(command, [word]):
                return f"{ctx.command_path} {name} {profile}"
        if word.isalpha():  # another tool's name of a command, such as 'show' or 'list', and not a file
            return ""
        for name, command in self.commands.items():
            if any(param.param_type_name == "argument" for param in command.params):
                return f"{ctx.command_path} {name} {shlex.quote(word)}"
        return ""

    def offered(self, ctx: click.Context) -> str:
        """Return a sentence that names the commands of the group."""
        return f"{ctx.command_path!r} has {', '.join(self.list_commands(ctx))}."


def advised(error: click.UsageError, command: click.Command) -> click.UsageError:
    """Return the error with what was probably meant instead."""
    if isinstance(error, click.NoSuchOption):
        meant = _meant(error.option_name, command, error.ctx)
    elif "unexpected extra argument" in error.message:
        extra = error.message.partition("(")[2].rpartition(")")[0].split()
        meant = _profile_option(command, extra) or _with_argument(error.ctx, extra)
    else:
        return error
    message = error.message.removesuffix(".")
    return click.UsageError(f"{message}. Did you mean '{meant}'?", error.ctx) if meant else error


def _with_argument(ctx: click.Context | None, words: Sequence[str]) -> str:
    way = _TAKES_NOTHING.get("" if ctx is None else ctx.command_path, "")
    return "".join(way.format(shlex.quote(word)) for word in words[:1])


def _profile_option(command: click.Command, words: Iterable[str]) -> str:
    from stockade.policy.profiles import PROFILES

    named = next((word for word in words if word in PROFILES), "")
    return f"--profile {named}" if named and any(param.name == "profile" for param in command.params) else ""


def _meant(name: str, command: click.Command, ctx: click.Context | None) -> str:
    takes_limits = any(param.name == "limits" for param in command.params)
    own = [each for param in command.params for each in param.opts]
    if not name.startswith("--"):
        begun = [each for each in own if each.startswith(f"-{name[:2]}")]
        return (takes_limits and _SHORT.get(name)) or ("' or '".join(begun) if len(begun) <= 2 else "")
    plain = name.removeprefix("--").replace("-", "_")
    foreign = "" if takes_limits else _LONG.get(plain, "")
    if foreign.partition(" ")[0] in own:
        return foreign
    if takes_limits and plain in _INPUT:
        return f"{'' if ctx is None else ctx.command_path} ... < FILE"
    limits = _limits() if takes_limits else ()
    if plain in limits:
        return f"--limit {plain}=VALUE"
    options = {each.lstrip("-").replace("-", "_"): each for each in own if each.startswith("-")}
    arguments = [param.name or "" for param in command.params if param.param_type_name == "argument"]
    near = nearest(plain, [*options, *limits, *arguments])
    if near in arguments:
        return f"{'' if ctx is None else ctx.command_path} {near.upper()}"
    return options.get(near) or (f"--limit {near}=VALUE" if near else "")


def _limits() -> Iterable[str]:
    from stockade.policy.parts import Limits

    return list(Limits.model_fields)
