"""The report of a batch in a real browser: hostile text does nothing there, and the table can be filtered."""

from __future__ import annotations

import re
import subprocess
from html import unescape
from pathlib import Path

import pytest

from stockade import Usage
from stockade.batch.records import CaseVerdict, Verdict, VerdictKind
from stockade.batch.report import write
from stockade.batch.summary import Summary
from stockade.workspace.host_files import HostFile

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(180)]

# Each of them would make the word FORGED the title of the page.
PAYLOADS = [
    "<script>document.title='FORGED'</script>",
    "</script><script>document.title='FORGED'</script>",
    "</title><script>document.title='FORGED'</script>",
    "<img src=x onerror=\"document.title='FORGED'\">",
    "</td></table><svg onload=\"document.title='FORGED'\">",
    "<!--<script>",
    "\"><script>document.title='FORGED'</script>",
    "<meta http-equiv=refresh content='0;url=data:text/html,<title>FORGED</title>'>",
]
ALL = "\n".join(PAYLOADS)


def seen(page: Path, place: Path, choice: str = "") -> str:
    """Return the browser's document after its scripts have run."""
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={place}/profile",
         "--virtual-time-budget=2000", "--dump-dom", f"file://{page}{choice}"],
        capture_output=True, text=True, timeout=120, env={"HOME": str(place), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.stdout


def title(document: str) -> str:
    return unescape(re.search(r"<title>(.*?)</title>", document, re.DOTALL)[1])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    records = []
    for number, (text, word) in enumerate([(ALL, "failed"), ("fine", "passed"), ("slow", "limit_exceeded")], 1):
        case = CaseVerdict(
            text, VerdictKind(word), text, usage=Usage(1.0, 2.0, 1 << 20, 1, 3), stdout=text, stderr=text
        )
        limit = "cpu_time" if word == "limit_exceeded" else None
        verdict = Verdict(text, VerdictKind(word), number, text, limit, text, case.usage, cases=(case,))
        records.append(verdict.as_json())
    summary = Summary()
    for record in records:
        summary.add(record)
    write(HostFile(folder / "report.html", "--report"), records, summary, [1], title=ALL)
    return folder / "report.html"


@pytest.mark.parametrize("payload", [PAYLOADS[0], PAYLOADS[3]])
def test_payload_in_unescaped_page_works(tmp_path, payload):
    """Without this control, a quiet report would prove nothing."""
    naive = tmp_path / "naive.html"
    naive.write_text(f"<!doctype html><title>mine</title><p>{payload}</p>")
    assert title(seen(naive, tmp_path)) == "FORGED"


def test_content_policy_alone_stops_payloads(tmp_path, page):
    """The content policy is the second wall, in case a payload gets into the markup."""
    text = page.read_text().replace('<section class="figures">', f'<section class="figures">{PAYLOADS[0]}{PAYLOADS[3]}')
    (tmp_path / "slipped.html").write_text(text)
    assert "FORGED" not in title(seen(tmp_path / "slipped.html", tmp_path)).splitlines()
    allowed = re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", text)
    (tmp_path / "allowed.html").write_text(allowed)
    assert title(seen(tmp_path / "allowed.html", tmp_path)) == "FORGED"


def test_hostile_text_is_shown_as_text(page, tmp_path):
    document = seen(page, tmp_path, "#verdict=failed&open")
    assert title(document).startswith(PAYLOADS[0])  # as text, and the title is still the page's own
    assert title(document).endswith(": verdicts")
    opened = re.search(r"<pre>(.*?)</pre>", document, re.DOTALL)[1]
    assert unescape(opened) == ALL
    assert not re.search(r"<(img|svg)[^>]*on(error|load)", document)


def test_report_table_is_filtered(page, tmp_path):
    def rows(choice: str) -> int:
        return seen(page, tmp_path, choice).count('<tr class="program">')

    assert rows("") == 3
    assert rows("#verdict=passed") == 1
    assert rows("#verdict=limit_exceeded: cpu_time") == 1
    assert rows("#text=FINE") == 1
    assert rows("#text=nothing like it") == 0
