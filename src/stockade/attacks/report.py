"""The findings of a campaign, by guarantee and backend: as a table, as Markdown, and as JUnit's XML."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from stockade.attacks.corpus import VERDICT
from stockade.attacks.trial import Trial, Verdict
from stockade.policy.guarantees import Guarantee

_ORDER = (*map(str, Guarantee), VERDICT)
_SHOWN = 400
_NAMED = 8
"""The most attacks that a page names for one reason."""


@dataclass(frozen=True)
class Findings:
    """All trials of a campaign."""

    trials: tuple[Trial, ...]
    left: tuple[str, ...] = ()
    """Items that the campaign left on the host."""

    def of(self, *verdicts: Verdict) -> list[Trial]:
        """Return the trials with one of these verdicts."""
        return [tried for tried in self.trials if tried.verdict in verdicts]

    @property
    def failures(self) -> list[Trial]:
        """The trials in which a guarantee that the receipt claims was not shown to hold."""
        return [tried for tried in self.trials if tried.verdict.fails]

    @property
    def held(self) -> bool:
        """Whether all attacks were refused or admitted by the receipt, one was refused, and nothing is left."""
        refused = self.of(Verdict.REFUSED, Verdict.UNPROVED)
        return bool(refused) and not self.failures and not self.left

    def summary(self) -> str:
        """Return the counts in a sentence."""
        count = Counter(tried.verdict for tried in self.trials)
        parts = [f"{count[verdict]} {text}" for verdict, text in _COUNTED.items() if count[verdict]]
        late = sum(tried.attempts > 1 for tried in self.trials)
        parts += [f"{late} at the second attempt"] if late else []
        return f"{len(self.trials)} trials: {', '.join(parts) or 'none'}."


_COUNTED = {
    Verdict.REFUSED: "refused that succeed unconfined",
    Verdict.UNPROVED: "refused with no control to prove it",
    Verdict.ADMITTED: "not held, as the receipt says",
    Verdict.SUCCEEDED: "SUCCEEDED",
    Verdict.OTHERWISE: "FAILED in an unexpected way",
    Verdict.NOT_RUN: "not run",
}


def matrix(trials: Sequence[Trial], backends: Sequence[str]) -> list[list[str]]:
    """Return a row for each attacked guarantee: its name, and a table cell for each backend."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for tried in trials:
        found.setdefault((tried.guarantee, tried.backend), []).append(tried)
    rows = sorted({guarantee for guarantee, _ in found}, key=_ORDER.index)
    return [[row, *(_counts(found.get((row, backend), [])) for backend in backends)] for row in rows]


def _counts(tried: Sequence[Trial]) -> str:
    """Return the strength, and how many of the attacks that ran were refused."""
    count = Counter(item.verdict for item in tried)
    ran = len(tried) - count[Verdict.NOT_RUN]
    strength = next((item.strength for item in tried if item.strength), "")
    if not tried:
        return "-"
    refused = count[Verdict.REFUSED] + count[Verdict.UNPROVED]
    failed = sum(item.verdict.fails for item in tried)
    notes = [f"{failed} FAILED"] if failed else []
    notes += [f"{count[Verdict.UNPROVED]} unproved"] if count[Verdict.UNPROVED] else []
    notes += [f"{count[Verdict.NOT_RUN]} not run"] if count[Verdict.NOT_RUN] else []
    return " ".join(filter(None, [strength, f"{refused}/{ran}"])) + (f" ({', '.join(notes)})" if notes else "")


def mechanisms(trials: Sequence[Trial], backends: Sequence[str]) -> list[list[str]]:
    """Return a row for each guarantee: its most common mechanism on each backend."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for tried in trials:
        if tried.mechanism:
            found.setdefault((tried.guarantee, tried.backend), Counter())[tried.mechanism] += 1
    rows = sorted({guarantee for guarantee, _ in found}, key=_ORDER.index)
    most = {key: counts.most_common(1)[0][0] for key, counts in found.items()}
    return [[row, *(most.get((row, backend), "-") for backend in backends)] for row in rows]


def reasons(trials: Iterable[Trial]) -> list[tuple[str, list[str]]]:
    """Return the attacks that were not run, by reason."""
    found: dict[str, list[str]] = {}
    for tried in trials:
        if tried.verdict is Verdict.NOT_RUN:
            names = found.setdefault(tried.reason[:_SHOWN].splitlines()[0], [])
            if tried.attack not in names:
                names.append(tried.attack)
    return sorted(found.items())


def command(tried: Trial, more: Sequence[str] = ()) -> str:
    """Return the command line that repeats ``tried``."""
    return shlex.join(["stockade", "attack", "--backend", tried.backend, "--only", tried.attack, *more])


def markdown(findings: Findings, backends: Sequence[str], title: str) -> str:
    """Return the tables for a page or an audit."""
    lines = [f"{title}: strength, then attacks refused of those that succeed unconfined.", ""]
    lines += _table(["guarantee", *backends], matrix(findings.trials, backends))
    lines += ["", findings.summary(), "", "What holds each of them:", ""]
    lines += _table(["guarantee", *backends], mechanisms(findings.trials, backends))
    not_run = reasons(findings.trials)
    if not_run:
        lines += ["", "Not run here:", ""]
        lines += [f"- {_some(names)}: {reason}" for reason, names in not_run]
    for tried in findings.failures:
        lines += ["", f"**Failed**: `{tried.attack}` on {tried.backend}: {tried.verdict}."]
    for item in findings.left:
        lines += ["", f"**Left behind on this host**: {item}."]
    return "\n".join(lines)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:_NAMED]) + more


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    body = [[f"`{row[0]}`", *row[1:]] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body)]


def junit(findings: Findings, backends: Sequence[str]) -> bytes:
    """Return the trials as JUnit's XML, which build servers read."""
    root = ElementTree.Element("testsuites", name="stockade attack")
    for backend in backends:
        own = [tried for tried in findings.trials if tried.backend == backend]
        skipped = sum(tried.verdict is Verdict.NOT_RUN for tried in own)
        failed = sum(tried.verdict.fails for tried in own)
        suite = ElementTree.SubElement(
            root, "testsuite", name=backend, tests=str(len(own)), failures=str(failed), skipped=str(skipped)
        )
        for tried in own:
            _case(suite, tried)
    made: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return made


def _case(suite: ElementTree.Element, tried: Trial) -> None:
    name = tried.attack.partition("/")[2]
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"{tried.backend}.{tried.guarantee}", name=name, time=f"{tried.seconds:.3f}"
    )
    if tried.verdict is Verdict.NOT_RUN:
        ElementTree.SubElement(case, "skipped", message=_xml(tried.reason))
    elif tried.verdict.fails:
        failure = ElementTree.SubElement(case, "failure", message=str(tried.verdict))
        failure.text = _xml(f"{tried.confined.what if tried.confined else ''}\n{command(tried)}")
    elif tried.verdict is not Verdict.REFUSED:
        ElementTree.SubElement(case, "system-out").text = str(tried.verdict)


def _xml(text: str) -> str:
    """Return ``text`` without characters that XML forbids, because guests wrote some of it."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
