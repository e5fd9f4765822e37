"""``--audit``, ``--label`` and ``stockade audit``."""

from __future__ import annotations

import csv
import io
import json


def test_run_is_written_then_shown_and_exported(stockade, folder):
    done = stockade("run", "--audit", "log", "--label", "user==SUM(1)", "-c", "print(1)")
    assert (done.stdout, done.returncode) == (b"1\n", 0)
    stockade("run", "--audit", "log", "--label", "user=bob", "--", "false")
    shown = stockade("audit", "show", "--label", "user=bob", "log").stdout.decode().splitlines()
    assert [line.split()[1] for line in shown] == ["start", "finish"]
    assert shown[1].endswith("failed")
    records = [json.loads(line) for line in stockade("audit", "show", "--json", "log").stdout.splitlines()]
    assert len(records) == 4
    one = stockade("audit", "show", "--json", "--run", records[0]["run"], "log").stdout
    assert len(one.splitlines()) == 2
    rows = list(csv.DictReader(io.StringIO(stockade("audit", "export", "log").stdout.decode())))
    assert [row["outcome"] for row in rows] == ["", "completed", "", "failed"]
    assert rows[0]["labels"] == "user==SUM(1)"


def test_broken_log_is_told_by_the_exit_status(stockade, folder):
    stockade("run", "--audit", "log", "-c", "print(1)")
    head = json.loads(stockade("audit", "verify", "--json", "log").stdout)["head"]
    assert stockade("audit", "verify", "--head", head, "log").returncode == 0
    lines = (folder / "log").read_bytes().splitlines(keepends=True)
    (folder / "log").write_bytes(b"".join(lines[:-1]))
    assert stockade("audit", "verify", "log").returncode == 0
    cut = stockade("audit", "verify", "--head", head, "log")
    assert (cut.returncode, b"cut off" in cut.stdout) == (1, True)
    (folder / "log").write_bytes(b"".join(lines[1:]))
    assert stockade("audit", "verify", "log").returncode == 1
    assert stockade("audit", "show", "log").returncode == 125


def test_log_that_cannot_be_written_stops_the_run(stockade, folder):
    (folder / "log").mkdir()
    done = stockade("run", "--audit", "log", "-c", "print(1)")
    assert (done.stdout, done.returncode) == (b"", 2)
    assert b"audit log: is a folder" in done.stderr
    assert stockade("audit", "verify", "missing").returncode == 2


def test_variable_names_the_log_of_a_batch(stockade, folder):
    (folder / "programs.jsonl").write_text('{"id": "a", "source": "print(1)"}\n')
    stockade("eval", "programs.jsonl", "-o", "out", "--quiet", env={"STOCKADE_AUDIT": "log"})
    shown = stockade("audit", "show", "log").stdout.decode()
    assert [line.split()[1] for line in shown.splitlines()] == ["start", "finish"]


def test_alerts_of_a_log_by_its_labels(stockade, folder):
    runs = [{"id": f"{number}", "source": "while True: pass"} for number in range(10)]
    (folder / "programs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    limit = ("--limit", "wall_time=100ms", "--jobs", "4", "--quiet")
    stockade("eval", "programs.jsonl", "-o", "out", *limit, "--audit", "log", "--label", "user=eve")
    shown = stockade("audit", "alerts", "log")
    assert (shown.returncode, shown.stdout.count(b"\n")) == (1, 1)
    assert b"limits_met: user=eve: a limit ended 10 runs within 600 s" in shown.stdout
    (alert,) = map(json.loads, stockade("audit", "alerts", "--by", "app", "--json", "log").stdout.splitlines())
    assert (alert["rule"], alert["label"]) == ("limits_met", "")
    stockade("run", "--audit", "quiet", "-c", "print(1)")
    assert stockade("audit", "alerts", "quiet").returncode == 0
