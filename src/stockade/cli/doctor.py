"""``stockade doctor``: show what this host offers, what each missing facility would add, and how to get it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stockade.cli import doctor_text, streams
from stockade.cli.options import backend_option
from stockade.cli.reporting import SETUP_FAILED, Command, json_option, print_json, printable
from stockade.core.errors import BackendUnavailable, PolicyError, StockadeError

if TYPE_CHECKING:
    from stockade.backends.base import Backend
    from stockade.cli.assess import Assessment
    from stockade.cli.facilities import Facility
    from stockade.languages.base import Interpreter
    from stockade.planning.facts import HostFacts
    from stockade.policy.guarantees import Guarantee

_HELP = """Show what this host offers (each facility is tried), what the default policy holds here, and how to get what
is missing. Changes nothing. The exit status is 125 if the default policy cannot be held.
"""
_EXAMPLES = """\b
Examples:
  stockade doctor
  stockade doctor --json | python3 -m json.tool
  sudo stockade doctor
  stockade doctor --fix > fix.sh
"""


@click.command("doctor", cls=Command, help=_HELP, epilog=_EXAMPLES)
@backend_option
@click.option("--fix", is_flag=True, help="Print a shell script that would add what is missing; nothing runs it.")
@json_option
def doctor(as_json: bool, fix: bool, backend: str | None) -> int:
    """Show the facilities and return the exit status."""
    streams.start_warden()
    from stockade.backends import registry
    from stockade.cli import warmth
    from stockade.cli.facilities import facilities
    from stockade.client import warden_process

    found = registry.find(backend or "native")
    facts = warden_process.host_facts()
    rows = facilities(facts, _languages(), names=_names(), authorities=_authorities())
    if fix:
        click.echo(doctor_text.script(rows), nl=False)
        return 0
    assessment = _assess(found, facts)
    ceiling = _ceiling()
    kept = warmth.found()
    if as_json:
        print_json(_data(found, facts, rows, assessment) | {"ceiling": ceiling, "warm": asdict(kept)})
    else:
        _print(found, facts, rows, assessment)
        kept.show()
        _print_ceiling(**ceiling)
    return 0 if assessment and not assessment.error and not ceiling["error"] else SETUP_FAILED


def _languages() -> dict[str, Interpreter | str]:
    """Return each language's interpreter, or the reason why it is missing and what to install."""
    from stockade.languages import registry

    found: dict[str, Interpreter | str] = {}
    for name in registry.BUILT_IN:
        try:
            found[name] = registry.find(name).interpreter()
        except StockadeError as error:
            found[name] = str(error)
    return found


def _names() -> str:
    """Return what answers look-ups of names here."""
    for path, begin in (("/etc/resolv.conf", "nameserver "), ("/etc/hosts", "")):
        with suppress(OSError):
            lines = [line.strip() for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines()]
            if any(line and not line.startswith("#") and line.startswith(begin) for line in lines):
                return path
    return ""


def _authorities() -> str:
    """Return where the certificates of authorities are with which a proxy verifies servers."""
    from stockade.warden.proxy import vault

    try:
        return vault.authorities()[1]
    except OSError:
        return ""


def _ceiling() -> dict[str, Any]:
    """Return what the administrator's ceiling bounds, or why it cannot be used."""
    from stockade.policy import ceiling as _ceiling
    from stockade.policy import ceiling_file

    try:
        bounds = [path for found in _ceiling.ceilings() for path in found.fields]
    except PolicyError as error:
        return {"file": ceiling_file.SYSTEM, "bounds": [], "error": str(error)}
    return {"file": ceiling_file.SYSTEM, "bounds": bounds, "error": ""}


def _print_ceiling(file: str, bounds: Sequence[str], error: str) -> None:
    if error:
        doctor_text.say(f"No policy can be used: {printable(error)}.")
    elif bounds:
        doctor_text.say(f"The ceiling in {file} bounds {', '.join(bounds)}.")


def _assess(backend: Backend, facts: HostFacts) -> Assessment | None:
    """Return the assessment of the default policy, or ``None`` if the backend is not usable."""
    from stockade.cli.assess import assess
    from stockade.policy.model import Policy

    return assess(Policy(), facts, backend) if backend.availability(facts).usable else None


def _weak(assessment: Assessment) -> list[Guarantee]:
    """Return the guarantees that the default policy asks for and that this host holds too weakly."""
    from stockade.policy.guarantees import FLOORS
    from stockade.policy.model import Policy

    default = Policy()
    held = assessment.enforcement
    return [each for each in held if default.asks(each) and not held[each].strength.holds(FLOORS[each])]


def _data(
    backend: Backend, facts: HostFacts, rows: Sequence[Facility], assessment: Assessment | None
) -> dict[str, Any]:
    available = backend.availability(facts)
    default: dict[str, Any] = {"usable": False, "reason": available.reason, "remedy": available.remedy}
    if assessment:
        default = {
            "usable": True,
            "holds": assessment.error is None,
            "enforcement": {str(key): asdict(held) for key, held in assessment.enforcement.items()},
            "weaker_than_usual": [str(each) for each in _weak(assessment)],
            "missing": dict(assessment.missing),
        }
    return {
        "kernel": facts.kernel,
        "machine": facts.machine,
        "cpus": facts.cpus,
        "uid": facts.uid,
        "facilities": [asdict(row) for row in rows],
        "backend": backend.name,
        "default_policy": default,
    }


def _print(backend: Backend, facts: HostFacts, rows: Sequence[Facility], assessment: Assessment | None) -> None:
    click.echo(f"Linux {facts.kernel} on {facts.machine}, {facts.cpus} CPUs, uid {facts.uid}\n")
    _print_default(backend, facts, assessment)
    click.echo("")
    doctor_text.show(rows)


def _print_instead() -> None:
    """Print what holds the default policy here instead, or what the policy must accept."""
    from stockade.api import runner

    try:
        doctor_text.say(f"The default policy runs here on {runner.select().backend.name}.")
    except BackendUnavailable as error:
        accept = " ".join(f"--accept {name}={strength}" for name, strength in error.accept.items())
        doctor_text.say(f"Code runs here all the same with: {accept}." if accept else "No other backend helps.")
    except StockadeError as error:
        doctor_text.say(f"No other backend helps: {error}")


def _print_default(backend: Backend, facts: HostFacts, assessment: Assessment | None) -> None:
    if assessment is None:
        available = backend.availability(facts)
        doctor_text.say(f"The {backend.name} backend cannot be used here: {available.reason}.")
        doctor_text.say(f"Remedy: {available.remedy}.")
        _print_instead()
        return
    weak = _weak(assessment)
    firm = [str(each) for each, held in assessment.enforcement.items() if each not in weak and held.mechanism != "none"]
    doctor_text.say(f"The default policy on the {backend.name} backend holds here: {', '.join(firm)}.")
    if backend.traits.start:
        doctor_text.say(f"Start: {backend.traits.start}.")
    for each in weak:
        held = assessment.enforcement[each]
        doctor_text.say(f"Held less strongly than usual: {each} ({held.strength}): {held.note}.")
    for guarantee, sentence in assessment.missing.items():
        doctor_text.say(f"So the default policy cannot be used: {guarantee}: {sentence}.")
