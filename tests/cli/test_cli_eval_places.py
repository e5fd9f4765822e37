"""The files of ``stockade eval``: no input is overwritten, and an unusable output is refused at once."""

from __future__ import annotations

import json
import os

import pytest
from tests.support import host

pytestmark = pytest.mark.needs("native")


@pytest.fixture
def programs(folder):
    path = folder / "p.jsonl"
    lines = [{"id": f"p{n}", "language": "shell", "source": f"echo {n}", "expected": str(n)} for n in range(3)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-o", "p.jsonl", "--overwrite"), "-o p.jsonl: this file is an input"),
        (("-o", "./p.jsonl"), "-o ./p.jsonl: this file is an input"),
        (("-o", "link.jsonl", "--overwrite"), "-o link.jsonl: this file is an input"),
        (("-o", "hard.jsonl", "--overwrite"), "-o hard.jsonl: this file is an input"),
        (("-o", "v.jsonl", "--report", "p.jsonl"), "--report p.jsonl: this file is an input"),
        (("-o", "v.jsonl", "--report", "v.jsonl"), "--report v.jsonl: this file holds the verdicts"),
        (("-o", "v.jsonl", "--report", "v.jsonl.batch"), "--report v.jsonl.batch: this file holds the verdicts"),
        (("-o", "v.jsonl", "--report", "."), "--report .: this is a folder"),
        (("-o", "v.jsonl", "--report", "-"), "--report -: the page does not go to standard output"),
        (("-o", "v.jsonl", "--report", "nowhere/r.html"), "cannot write to the folder nowhere"),
        (("-o", "nowhere/v.jsonl"), "nowhere/v.jsonl: No such file or directory"),
    ],
)
def test_eval_unusable_output_is_refused_first(stockade, folder, programs, words, complaint):
    before = programs.read_bytes()
    (folder / "link.jsonl").symlink_to("p.jsonl")
    os.link(programs, folder / "hard.jsonl")
    done = stockade("eval", "p.jsonl", *words)
    assert done.returncode == 2 and complaint in done.stderr.decode(), done.stderr
    assert programs.read_bytes() == before and not (folder / "v.jsonl").exists()


def test_eval_output_dash_is_standard_output(stockade, folder, programs):
    done = stockade("eval", "p.jsonl", "-o", "-", "--quiet")
    assert len(done.stdout.splitlines()) == 3 and not (folder / "-").exists(), done


def test_eval_batch_record_cannot_be_input(stockade, folder, programs):
    programs.rename(folder / "v.jsonl.batch")
    done = stockade("eval", "v.jsonl.batch", "-o", "v.jsonl")
    assert done.returncode == 2 and b"-o v.jsonl.batch: this file is an input" in done.stderr


def test_eval_no_space_for_first_byte_is_125(start, stockade, folder, programs):
    """A bound on the size of files replaces a full disk."""
    words = ("eval", "p.jsonl", "-o", "v.jsonl", "--quiet")
    process = start(*words, file_size=0)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 125 and b"v.jsonl.batch" in err and b"File too large" in err
    assert sorted(path.name for path in folder.iterdir()) == ["p.jsonl", "v.jsonl"]  # and no draft is left
    assert stockade(*words).returncode == 0


def test_eval_report_without_space_leaves_no_draft(start, folder, programs):
    words = ("eval", "p.jsonl", "-o", "v.jsonl", "--quiet", "--report", "r.html")
    process = start(*words, file_size=9000)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0 and b"--report r.html: File too large" in err
    assert len((folder / "v.jsonl").read_text().splitlines()) == 3
    assert not [path.name for path in folder.iterdir() if path.name.startswith("r.html")]


def test_eval_changed_input_is_reported(start, folder, programs):
    lines = programs.read_text().splitlines(keepends=True)
    lines[0] = lines[0].replace("echo 0", "sleep 2; echo 0")
    programs.write_text("".join(lines))
    process = start("eval", "p.jsonl", "-o", "v.jsonl", "--quiet", "--jobs", "1")
    assert host.eventually((folder / "v.jsonl").exists, 20)
    programs.write_text("".join(lines).replace("echo 2", "echo 7"))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 125 and b"p.jsonl: the input changed during the batch" in err
