"""``stockade plan``: what would enforce each guarantee here; runs nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from stockade.cli import streams, table
from stockade.cli.options import backend_option, policy_from, policy_options
from stockade.cli.reporting import SETUP_FAILED, Command, json_option, print_json

if TYPE_CHECKING:
    from stockade._policy import Policy
    from stockade.backends.base import Backend
    from stockade.cli.assess import Assessment

_HELP = """Show what would enforce each guarantee of a policy here, how strongly, and what is missing. Runs nothing.

Strengths: 'kernel' holds against anything but a hole in the kernel; 'supervisor' is watched and killed, so it can
overshoot, as the note says; 'absent' is not held. The exit status is 125 where the policy cannot be held here.
"""
_EXAMPLES = """\b
Examples:
  stockade plan
  stockade plan --limit cpu_rate=0.5 --network host
  stockade plan --policy policy.toml --accept memory=kernel
  stockade plan --json | python3 -m json.tool
"""


@click.command("plan", cls=Command, help=_HELP, epilog=_EXAMPLES)
@policy_options
@backend_option
@json_option
def plan(as_json: bool, backend: str, **options: Any) -> int:
    """Show the plan and return the exit status."""
    streams.start_warden()
    policy = policy_from(options)
    from stockade.backends import registry
    from stockade.backends.base import require
    from stockade.cli.assess import assess
    from stockade.client import wardens

    found = registry.find(backend)
    facts = wardens.host_facts()
    require(found, facts)
    assessment = assess(policy, facts, found)
    (_print_json if as_json else _print)(policy, found, assessment)
    return SETUP_FAILED if assessment.error else 0


def _print_json(policy: Policy, backend: Backend, assessment: Assessment) -> None:
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
            "holds": assessment.error is None,
            "limits": policy.limits.model_dump(),
            "enforcement": enforcement,
            "missing": dict(assessment.missing),
        }
    )


def _print(policy: Policy, backend: Backend, assessment: Assessment) -> None:
    from stockade.cli.assess import asked

    click.echo(f"backend {backend.name}, isolation by {backend.isolation.value}\n")
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
