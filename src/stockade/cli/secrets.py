"""The option ``--secret``: a value that the proxy of a run keeps outside of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stockade.runs.secret import Secret

_METAVAR = "NAME=VARIABLE@HOST"


def _secrets(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, Secret]:
    """Return the secrets by name. The value stays in the variable: no argument list ever holds it."""
    if not values:
        return {}
    from stockade.runs.secret import Secret

    found: dict[str, Secret] = {}
    for text in values:
        name, equals, rest = text.partition("=")
        variable, at, hosts = rest.partition("@")
        if not (name and equals and variable and at and hosts):
            raise click.BadParameter(f"{text!r} is not of the form {_METAVAR}", ctx, param)
        if name in found:
            raise click.BadParameter(f"{name} is given twice; separate its hosts by commas", ctx, param)
        found[name] = Secret.from_env(variable, hosts=hosts.split(","))
    return found


secret_option = click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar=_METAVAR,
    callback=_secrets,
    help="Let the code use your variable without seeing it: in requests to $STOCKADE_GATEWAY/HOST/..., the proxy of "
    "--allow replaces the placeholder in NAME. Several hosts are separated by commas. May be repeated.",
)
