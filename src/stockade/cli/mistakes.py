"""Advice on options that do not exist: the name that stockade uses for what other tools call otherwise."""

from __future__ import annotations

from collections.abc import Iterable

import click

from stockade.core.errors import nearest

_SHORT = {
    "-e": "--env NAME=VALUE",
    "-m": "--limit memory=VALUE', or, for a module, '-- python -m NAME",
    "-t": "--limit wall_time=VALUE",
    "-v": "--read PATH' or '--write PATH",
    "-w": "--workspace PATH",
}
"""Short options of other tools."""


def advised(error: click.NoSuchOption, command: click.Command) -> click.UsageError:
    """Return the error with the option of ``command`` that was probably meant."""
    meant = _meant(error.option_name, command)
    return click.UsageError(f"{error.message} Did you mean '{meant}'?" if meant else error.message, error.ctx)


def _meant(name: str, command: click.Command) -> str:
    takes_limits = any(param.name == "limits" for param in command.params)
    if not name.startswith("--"):
        return _SHORT.get(name, "") if takes_limits else ""
    plain = name.removeprefix("--").replace("-", "_")
    limits = _limits() if takes_limits else ()
    if plain in limits:
        return f"--limit {plain}=VALUE"
    options = {each.lstrip("-").replace("-", "_"): each for param in command.params for each in param.opts}
    near = nearest(plain, [*options, *limits])
    return options.get(near) or (f"--limit {near}=VALUE" if near else "")


def _limits() -> Iterable[str]:
    from stockade.policy.parts import Limits

    return list(Limits.model_fields)
