"""``stockade attack``: attack the sandboxes of this machine, and report which guarantees held."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from stockade.cli import streams
from stockade.cli.reporting import INTERRUPTED, Command, json_option, print_json, say

if TYPE_CHECKING:
    from stockade.attacks.campaign import Campaign
    from stockade.attacks.corpus import Attack
    from stockade.attacks.report import Findings
    from stockade.workspace.host_files import HostFile

NOT_HELD = 1
_HELP = """Attack the sandboxes of this machine, and print for each guarantee what held, what did not, and what could
not be tried.

Each attack first runs unconfined, in a throw-away place, where it must succeed. This is its control: without it, the
confined run would prove nothing. Then it runs in a sandbox and must meet exactly the expected refusal.

Controls work on things made for them: files in a temporary folder, listeners on loopback, processes and namespaces of
their own. They take at most 1 GiB of memory, 64 MiB of disk and four busy CPUs for a second or two; '--show NAME'
says what an attack does beyond that. Nothing is left behind, whether the attack ends or is interrupted.

The exit status is 0 if at least one attack was refused, and every other one that ran was refused too or is one that
the receipt says is not held; 1 if not; 125 if no sandbox could be set up; 130 interrupted.
"""
_EXAMPLES = """\b
Examples:
  stockade attack
  stockade attack --all --markdown > audit.md
  stockade attack --only network --only filesystem_read
  stockade attack --backend process --only process_view/signal
  stockade attack --backend 'native (warm)'
  stockade attack --profile strict
  stockade attack --policy policy.toml
  stockade attack --list
  stockade attack --show filesystem_read/leaked_folder
"""


@click.command("attack", cls=Command, help=_HELP, epilog=_EXAMPLES)
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="Attack this backend; may be repeated.")
@click.option("--all", "every", is_flag=True, help="Attack every backend that is usable here.")
@click.option("--only", multiple=True, metavar="GUARANTEE|NAME", help="Run only these attacks; may be repeated.")
@click.option("--profile", metavar="NAME", help="Apply each attack's policy on top of this profile.")
@click.option("--policy", "policy_file", metavar="FILE", help="Apply each attack's policy on top of the one in FILE.")
@click.option("--no-controls", is_flag=True, help="Run nothing unconfined; a refusal then proves less.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Attacks at a time.")
@click.option("--markdown", is_flag=True, help="Print the tables in Markdown.")
@click.option("--junit", metavar="FILE", help="Also write the trials to FILE as JUnit XML.")
@click.option("--list", "listing", is_flag=True, help="List the attacks and run none.")
@click.option("--show", metavar="NAME", help="Show one attack, its header and its program, and run none.")
@json_option
def attack(as_json: bool, **options: Any) -> int:
    """Run the attacks and return the exit status."""
    from stockade.cli import attack_report

    chosen = _chosen(options["only"])
    if options["show"] is not None:
        return attack_report.show(_one(options["show"]), as_json=as_json)
    if options["listing"]:
        return attack_report.show_list(chosen, as_json=as_json)
    streams.start_warden()
    campaign = _campaign(chosen, options)
    junit = _junit(options["junit"], campaign)
    findings, interrupted = _carry_out(campaign, quiet=as_json)
    if junit is not None:
        _write_junit(junit, findings, campaign)
    if as_json:
        print_json(attack_report.data(findings, campaign, interrupted=interrupted))
    else:
        attack_report.show_findings(findings, campaign, markdown=options["markdown"])
    if interrupted:
        say(f"interrupted after {len(findings.trials)} trials")
        return INTERRUPTED
    return 0 if findings.held else NOT_HELD


def _chosen(only: Sequence[str], option: str = "--only") -> list[Attack]:
    """Return the attacks that ``only`` names, or all if it is empty; refuse a word that names no attack."""
    from stockade.attacks import corpus

    attacks = corpus.load()
    for word in only:
        if not any(item.is_called(word) for item in attacks):
            raise click.UsageError(f"{option} {word}: no guarantee and no attack has this name; see --list")
    return [item for item in attacks if not only or any(map(item.is_called, only))]


def _one(word: str) -> Attack:
    found = _chosen([word], "--show")
    if len(found) > 1:
        raise click.UsageError(
            f"--show {word}: this names {len(found)} attacks: {', '.join(item.id for item in found)}"
        )
    return found[0]


def _campaign(chosen: Sequence[Attack], options: Mapping[str, Any]) -> Campaign:
    from stockade.attacks.campaign import Campaign

    return Campaign(
        attacks=chosen,
        backends=_backends(options["backends"], every=options["every"]),
        base=_base(options["profile"], options["policy_file"]),
        controls=not options["no_controls"],
        jobs=options["jobs"],
    )


def _backends(names: Sequence[str], *, every: bool) -> list[str]:
    """Return the backends to attack: those named, or all usable ones, or the one that a run would use."""
    from stockade.api import runner
    from stockade.attacks import warm
    from stockade.backends import registry
    from stockade.backends.base import require
    from stockade.client import warden_process

    facts = warden_process.host_facts()
    if names and every:
        raise click.UsageError("--all attacks every backend: omit --backend")
    if names:
        for name in names:
            require(warm.meant(name)[0], facts)
        return list(dict.fromkeys(names))
    if not every:
        return [runner.select().backend.name]
    found = {name: registry.find(name).availability(facts) for name in (*registry.BUILT_IN, *registry.others())}
    for name, available in found.items():
        if not available.usable:
            say(f"{name} is not attacked: {available.reason}")
    usable = [name for name, available in found.items() if available.usable]
    return usable or [runner.select().backend.name]  # raises an error that says why no backend is usable


def _base(profile: str | None, policy_file: str | None) -> dict[str, Any]:
    """Return the policy below the attacks' own policies: a profile, and a file on top of it."""
    if profile is None and policy_file is None:
        return {}
    from stockade.policy.resolve import resolve

    return resolve(profile=profile, file=policy_file, variables={}).policy.model_dump()


def _carry_out(campaign: Campaign, *, quiet: bool) -> tuple[Findings, bool]:
    """Return the findings, and whether the campaign was interrupted."""
    from stockade.attacks import outside
    from stockade.attacks.report import Findings

    outside.adopt_orphans()
    before = outside.Snapshot.take()
    trials = []
    interrupted = False
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    going = campaign.trials()
    try:
        for tried in going:
            trials.append(tried)
            if not quiet:
                _progress(len(trials), campaign, f"{tried.backend} {tried.attack}")
    except KeyboardInterrupt:
        interrupted = True
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # only clean-up remains, which a signal must not interrupt
    going.close()
    if not quiet:
        _progress(0, campaign, "")
    return Findings(tuple(trials), tuple(outside.left_behind(before, campaign.name))), interrupted


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _progress(count: int, campaign: Campaign, what: str) -> None:
    """Show the progress: in place on a terminal, else one line for each tenth. A ``count`` of 0 clears it."""
    total = len(campaign.attacks) * len(campaign.backends)
    if sys.stderr is None:
        return
    if sys.stderr.isatty():
        click.echo(f"\r\033[K[{count}/{total}] {what}" if count else "\r\033[K", nl=False, err=True)
    elif count and count * 10 // total > (count - 1) * 10 // total:
        say(f"attack: {count} of {total}")


def _junit(path: str | None, campaign: Campaign) -> HostFile | None:
    """Return the file for JUnit's XML. No attack may be able to write to it."""
    if path is None:
        return None
    from stockade.attacks.policies import attacked
    from stockade.workspace.host_files import HostFile

    file = HostFile(path, "--junit", attacked({}, campaign.base).filesystem.writable)
    file.require_writable()
    return file


def _write_junit(file: HostFile, findings: Findings, campaign: Campaign) -> None:
    from stockade.attacks import report

    with file:
        file.deliver(report.junit(findings, campaign.backends))
