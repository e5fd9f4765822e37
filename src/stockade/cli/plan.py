"""``stockade plan``: show what would enforce each guarantee on this host, without running a guest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from stockade.cli import streams, table
from stockade.cli.options import backend_option, image_option, policy_from, policy_options, trust_option
from stockade.cli.reporting import SETUP_FAILED, Command, json_option, print_json
from stockade.cli.secrets import secret_option
from stockade.core.errors import StockadeError

if TYPE_CHECKING:
    from stockade.api.select import Candidate
    from stockade.backends.base import Backend
    from stockade.cli.assess import Assessment
    from stockade.policy.model import Policy
    from stockade.runs.secret import Secret

_HELP = """Show each backend, which one would be chosen and why, what would enforce each guarantee of a policy there,
how strongly, and what is missing. Runs no guest.

Strengths: 'kernel' holds against anything except a hole in the kernel; 'supervisor' watches and kills, so a run can
exceed the limit, as the note says; 'absent' is not held. The exit status is 125 if the policy cannot be held here.
"""
_EXAMPLES = """\b
Examples:
  stockade plan
  stockade plan --profile moderate
  stockade plan --limit cpu_rate=0.5 --network host
  stockade plan --allow api.example.com:443 --secret API_KEY=MY_KEY@api.example.com
  stockade plan --trust untrusted --isolation namespaces
  stockade plan --backend bubblewrap --policy policy.toml --accept memory=kernel
  stockade plan --json | python3 -m json.tool
"""


@click.command("plan", cls=Command, help=_HELP, epilog=_EXAMPLES)
@policy_options
@backend_option
@image_option
@trust_option
@secret_option
@json_option
def plan(
    as_json: bool,
    backend: str | None,
    image: str | None,
    trust: str | None,
    secrets: dict[str, Secret],
    **options: Any,
) -> int:
    """Show the plan and return the exit status."""
    streams.start_warden()
    policy = policy_from(options, trust)
    brokered = _brokered(policy, secrets)
    from stockade.api import select
    from stockade.backends import registry
    from stockade.backends.base import require
    from stockade.cli.assess import assess
    from stockade.client import warden_process

    facts = warden_process.host_facts()
    seen: list[Candidate] = []
    if backend is None and image is None:
        seen = list(select.candidates(policy, facts, trust))
        found, reason = _choice(seen, trust, show=not as_json)
    else:
        found, reason = registry.find(backend, image), ""
        select.require_isolation(found, policy, trust)
        require(found, facts)
    assessment = assess(policy, facts, found)
    if as_json:
        _print_json(policy, found, assessment, reason=reason, backends=_plain(seen), secrets=brokered)
    else:
        _print_backends(seen, reason)
        _print(policy, found, assessment)
        _print_brokered(brokered)
    return SETUP_FAILED if assessment.error else 0


def _brokered(policy: Policy, secrets: Mapping[str, Secret]) -> list[dict[str, Any]]:
    """Return where each secret comes from and goes to. Raises ``JobError`` if the policy has no way out for it."""
    if secrets:
        from stockade.api import brokered

        brokered.check(secrets, None, policy)
    return [
        {"name": name, "variable": each.variable, "is_set": each.variable in os.environ, "hosts": list(each.hosts)}
        for name, each in secrets.items()
    ]


def _print_brokered(secrets: list[dict[str, Any]]) -> None:
    if not secrets:
        return
    rows = [
        (
            each["name"],
            f"{each['variable']}, which is {'set' if each['is_set'] else 'not set'}",
            ", ".join(each["hosts"]),
        )
        for each in secrets
    ]
    click.echo("\nInside, the variable of each secret holds a placeholder. The proxy sets the value in:\n")
    table.show(("secret", "value of your variable", "for these servers alone, over verified TLS"), rows)


def _choice(seen: list[Candidate], trust: str | None, *, show: bool) -> tuple[Backend, str]:
    """Return the backend to describe and the reason for it. The reason is empty if no backend holds the policy."""
    from stockade.api import select

    try:
        chosen = select.first(seen, trust)
    except StockadeError:
        if seen[0].missing:
            return seen[0].backend, ""
        if show:
            _print_backends(seen, "")
        raise
    return chosen.backend, chosen.reason


def _plain(seen: list[Candidate]) -> list[dict[str, Any]]:
    from stockade.api import start_costs

    return [
        {
            "backend": each.backend.name,
            "isolation": each.backend.isolation.value,
            "usable": each.plan is not None if each.is_tried else None,
            "reason": each.trouble,
            "fastest_run_seconds": start_costs.known().get(each.backend.name),
            "enforcement": {str(key): asdict(held) for key, held in each.plan.enforcement.items()} if each.plan else {},
        }
        for each in seen
    ]


def _print_backends(seen: list[Candidate], reason: str) -> None:
    if not seen:
        return
    from stockade.api import start_costs

    known = start_costs.known()
    table.show(
        ("backend", "usable", "isolation", "fastest run", "why not"),
        [
            (
                each.backend.name,
                ("yes" if each.plan else "no") if each.is_tried else "?",
                each.backend.isolation.value,
                f"{known[each.backend.name] * 1000:.1f} ms" if each.backend.name in known else "not measured",
                each.trouble,
            )
            for each in seen
        ],
    )
    click.echo("")
    held = [each for each in seen if each.plan]
    if len(held) > 1:
        receipts = [each.plan.enforcement for each in held if each.plan]
        rows = [(str(key), *(str(receipt[key].strength) for receipt in receipts)) for key in receipts[0]]
        table.show(("guarantee", *(each.backend.name for each in held)), rows)
        click.echo("")
    if reason:
        click.echo(f"Chosen: {reason}.\n")


def _print_json(policy: Policy, backend: Backend, assessment: Assessment, **more: Any) -> None:
    """Print the plan, with ``more`` fields."""
    enforcement = {
        str(guarantee): asdict(held) | {"asked": policy.asks(guarantee), "floor": policy.floor(guarantee)}
        for guarantee, held in assessment.enforcement.items()
    }
    error = assessment.error.as_json() if assessment.error else {}
    print_json(
        error
        | {
            "backend": backend.name,
            "isolation": backend.isolation.value,
            "start": backend.traits.start,
            "holds": assessment.error is None,
            "limits": policy.limits.model_dump(),
            "enforcement": enforcement,
            "missing": dict(assessment.missing),
        }
        | more
    )


def _print(policy: Policy, backend: Backend, assessment: Assessment) -> None:
    from stockade.planning.figures import asked

    click.echo(f"backend {backend.name}, isolation by {backend.isolation.value}\n")
    if backend.traits.start:
        click.echo(f"Start: {backend.traits.start}.\n")
    table.show(
        ("guarantee", "limit", "mechanism", "strength", "note"),
        [
            (str(guarantee), asked(policy, guarantee), held.mechanism, str(held.strength), held.note)
            for guarantee, held in assessment.enforcement.items()
        ],
    )
    if not assessment.error:
        return
    click.echo("\nThis policy cannot be held here:")
    for guarantee, sentence in assessment.missing.items():
        click.echo(f"  {guarantee}: {sentence}")
