"""The output of ``stockade attack``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from stockade.attacks import report
from stockade.attacks.trial import Verdict
from stockade.cli import table
from stockade.cli.reporting import print_json, printable

if TYPE_CHECKING:
    from stockade.attacks.campaign import Campaign
    from stockade.attacks.corpus import Attack
    from stockade.attacks.report import Findings
    from stockade.attacks.trial import Trial


def show_list(attacks: Sequence[Attack], *, as_json: bool) -> int:
    """List attacks; return the exit status."""
    if as_json:
        print_json([_header(item) for item in attacks])
    else:
        table.show(("attack", "language", "what it tries"), [(a.id, a.language, a.summary) for a in attacks])
    return 0


def show(attack: Attack, *, as_json: bool) -> int:
    """Show one attack with its program; return the exit status."""
    text = attack.path.read_text(encoding="utf-8")
    if as_json:
        print_json(_header(attack) | {"program": text})
        return 0
    click.echo(f"{attack.id} ({attack.language}): {attack.summary}")
    click.echo(f"reference: {attack.reference}")
    click.echo(f"succeeds if: {attack.success}")
    for place, refusal in attack.refusal.items():
        click.echo(f"refusal ({'otherwise' if place == 'default' else place}): {refusal}")
    click.echo(f"needs: {', '.join(attack.needs) or 'nothing special'}")
    click.echo(f"unconfined: {_place(attack)}")
    click.echo(f"to try it: stockade attack --only {attack.id}\n")
    click.echo(text.rstrip())
    return 0


def show_findings(findings: Findings, campaign: Campaign, *, markdown: bool) -> None:
    """Print which guarantees held and which did not."""
    if markdown:
        click.echo(report.markdown(findings, campaign.backends, _title()))
        return
    click.echo(f"{_title()}: strength, then refused attacks / tried attacks.\n")
    table.show(("guarantee", *campaign.backends), report.matrix(findings.trials, campaign.backends))
    for reason, names in report.reasons(findings.trials):
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        click.echo(f"\nNot run: {shown}\n    {printable(reason)}")
    admitted = findings.of(Verdict.ADMITTED)
    if admitted:
        listed = ", ".join(f"{tried.backend} {tried.attack}" for tried in admitted)
        click.echo(f"\nNot held, as the receipt says (stockade plan): {listed}")
    for tried in findings.failures:
        _show_failure(tried, campaign)
    for item in findings.left:
        click.echo(f"\nLeft behind on this host: {printable(item)}")
    if not campaign.controls:
        click.echo("\nNo control was run, so a refused attack may be one that fails everywhere.")
    click.echo(f"\n{findings.summary()}")


def data(findings: Findings, campaign: Campaign, *, interrupted: bool) -> dict[str, Any]:
    """Return the findings as JSON-compatible data."""
    from stockade import __version__

    return {
        "stockade": __version__,
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "uid": os.geteuid(),
        "backends": list(campaign.backends),
        "held": findings.held,
        "interrupted": interrupted,
        "left": list(findings.left),
        "trials": [tried.as_json() for tried in findings.trials],
    }


def _show_failure(tried: Trial, campaign: Campaign) -> None:
    click.echo(f"\n{tried.verdict.upper()}: {tried.attack} on {tried.backend} ({tried.mechanism}, {tried.strength})")
    if tried.confined is not None:
        click.echo(f"    {printable(tried.confined.what)}")
    click.echo(f"    {report.command(tried, [] if campaign.controls else ['--no-controls'])}")


def _title() -> str:
    who = "root" if os.geteuid() == 0 else f"an ordinary user (uid {os.geteuid()})"
    return f"As {who}, Linux {os.uname().release.partition('-')[0]}"


def _place(attack: Attack) -> str:
    made = attack.control.get("namespaces")
    where = f"in new namespaces ({', '.join(made)})" if made else "among the host's processes"
    touches = attack.control.get("touches", "touches only things made for it")
    return f"{where}, in a temporary folder; {touches}"


def _header(attack: Attack) -> dict[str, Any]:
    names = ("guarantee", "name", "language", "summary", "reference", "success", "needs", "refusal")
    return {name: getattr(attack, name) for name in names} | {"touches": attack.control.get("touches")}
