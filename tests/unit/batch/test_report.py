import base64
import hashlib
import json
import re

import pytest

from stockade import Usage
from stockade.batch.records import CaseVerdict, Verdict, VerdictKind
from stockade.batch.report import MOST_ROWS, page, visible, write
from stockade.batch.summary import Summary
from stockade.workspace.host_files import HostFile

HOSTILE = (
    "</script><script>alert(1)</script><!--<script><img src=x onerror=alert(2)>&{{data}}{{script}}\u202e\x00\x1b[2J"
)


def records(count=1, text=HOSTILE, word="failed"):
    case = CaseVerdict(
        text, VerdictKind(word), reason=text, usage=Usage(0.1, 0.2, 1 << 20, 1, 1), stdout=text, stderr=text
    )
    record = Verdict(text, VerdictKind(word), reason=text, usage=case.usage, cases=(case,)).as_json()
    for number in range(1, count + 1):
        yield {**record, "number": number, "problem": f"{text}{number % 3}"}


def made(found, title="t"):
    found = list(found)
    summary = Summary()
    for record in found:
        summary.add(record)
    return page(found, summary, [1], title=title)


def test_page_hostile_text_is_never_markup():
    text = made(records(3), title=HOSTILE)
    assert text.count("<script") == 2 and text.count("</script>") == 2  # the data and the page's own
    assert "<img" not in text and "<!--" not in text
    assert "\u202e" not in text and "\x1b" not in text and "\x00" not in text


def test_page_data_reads_back_unchanged():
    text = made(records())
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data[0]["cases"][0]["stdout"] == visible(HOSTILE)
    assert "{{data}}" in data[0]["id"]  # not replaced, although it looks like a mark of the page


def test_page_policy_allows_only_own_script_and_style():
    text = made(records())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    for kind, pattern in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        own = re.search(pattern, text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert "http:" not in text and "https:" not in text and "url(" not in text and "import" not in text


@pytest.mark.parametrize(("passed", "failed", "left_out"), [(2000, 0, 0), (1200, 800, 0), (5000, 1, 1), (9, 5000, 9)])
def test_page_table_has_row_for_each_that_fits(passed, failed, left_out):
    found = [*records(passed, "x", "passed"), *records(failed, "y", "failed")]
    text = made({**record, "number": number} for number, record in enumerate(found, 1))
    rows = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert len(rows) == passed + failed - left_out
    assert ("more are left out" in text) == (left_out > 0)


def test_page_of_large_batch_shows_failures_first():
    passed = list(records(3000, "x", "passed"))
    failed = [{**record, "number": record["number"] + 3000} for record in records(4500, "y", "failed")]
    data = re.search(r'id="data">(.*?)</script>', (text := made([*passed, *failed])), re.DOTALL)[1]
    rows = json.loads(data)
    assert len(rows) == MOST_ROWS and sum(row["verdict"] == "passed" for row in rows) == 1000
    assert "2,500 more are left out here" in text


def test_page_without_verdicts_is_written():
    assert "0</b><span>programs" in made([])


def test_write_is_complete_or_leaves_old_page(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")

    def broken():
        yield from records()
        raise OSError("gone")

    with pytest.raises(OSError):
        write(HostFile(path, "--report"), broken(), Summary(), [1], title="t")
    assert path.read_text() == "old"
    write(HostFile(path, "--report"), records(), Summary(), [1], title="t")
    assert path.read_text().startswith("<!doctype html>")
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]
