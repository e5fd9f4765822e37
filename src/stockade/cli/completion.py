"""``stockade completion``: print the script by which a shell completes commands, options and their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class
from click.types import StringParamType

VARIABLE = "_STOCKADE_COMPLETE"
"""The environment variable by which a shell's script asks for completions; click's own form."""
SHELLS = ("bash", "zsh", "fish")
_HELP = """Print the script that lets SHELL complete the commands of stockade, their options, and the values of options.

Write it once to the folder where the shell looks, and start a new shell.
"""
_EXAMPLES = """\b
Examples:
  stockade completion bash > ~/.local/share/bash-completion/completions/stockade
  stockade completion zsh > ~/.zfunc/_stockade      # with 'fpath+=~/.zfunc' before 'compinit' in ~/.zshrc
  stockade completion fish > ~/.config/fish/completions/stockade.fish
"""


@click.command("completion", help=_HELP, epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script."""
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click has no completion for {shell}")
    root = context.find_root()
    click.echo(found(root.command, {}, "stockade", VARIABLE).source())
    return 0


class _Values(StringParamType):
    """Text whose completions come from a function."""

    def __init__(self, values: Callable[[], Iterable[str]]) -> None:
        self._values = values

    def shell_complete(self, _ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the values that begin with ``incomplete``."""
        return [CompletionItem(value) for value in self._values() if value.startswith(incomplete)]


class _Paths(StringParamType):
    """Text that names a file or folder."""

    def shell_complete(self, _ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Leave the completion to the shell."""
        return [CompletionItem(incomplete, type="file")]


def prepare(command: click.Command) -> None:
    """Tell each option of ``command`` and of its subcommands which values it takes. Only a completion needs this."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            prepare(each)
    for parameter in command.params:
        if isinstance(parameter.type, StringParamType | type(click.UNPROCESSED)):
            known = _KNOWN.get(parameter.name or "")
            if known:
                parameter.type = _Values(known)
            elif _names_a_path(parameter):
                parameter.type = _Paths()


def _names_a_path(parameter: click.Parameter) -> bool:
    shown = parameter.metavar or ""
    return isinstance(parameter, click.Argument) or shown in ("PATH", "FILE", "FOLDER")


def _profiles() -> Iterable[str]:
    from stockade.policy.profiles import PROFILES

    return PROFILES


def _backends() -> Iterable[str]:
    from stockade.backends import registry

    return (*registry.BUILT_IN, *registry.BY_NAME)


def _languages() -> Iterable[str]:
    from stockade.languages import registry

    return registry.BUILT_IN


def _limits() -> Iterable[str]:
    from stockade.policy.parts import Limits

    return (f"{name}=" for name in Limits.model_fields)


def _guarantees() -> Iterable[str]:
    from stockade.policy.guarantees import Guarantee, Strength

    return (f"{guarantee}={strength}" for guarantee in Guarantee for strength in Strength)


_KNOWN: dict[str, Callable[[], Iterable[str]]] = {
    "profile": _profiles,
    "backend": _backends,
    "backends": _backends,
    "language": _languages,
    "limits": _limits,
    "accept": _guarantees,
}
"""The values of an option, by the name of its parameter."""
