"""``stockade bench``: figures of this machine, and the steps of a run."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest


def test_bench_each_case_has_figure_or_reason(stockade):
    done = stockade("bench", "--runs", "2", "--interpreter", "/usr/bin/python3", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    cases = {case["name"]: case for case in data["ms"]}
    assert {"bare interpreter", "native, warm", "native, cold", "process", "bubblewrap"} <= cases.keys()
    assert all(case["missing"] or 0 < case["median"] <= case["p99"] for case in cases.values())
    assert not cases["bare interpreter"]["missing"]
    assert "Linux" in data["machine"] and data["date"]


def test_bench_prints_a_table(stockade):
    done = stockade("bench", "--runs", "1", "--interpreter", "/usr/bin/python3")
    assert done.returncode == 0, done.stderr
    assert b"bare interpreter" in done.stdout and b"1.00" in done.stdout


@pytest.mark.needs("namespaces")
def test_trace_prints_text_and_draws_picture(stockade, folder):
    done = stockade("bench", "--trace", "--runs", "3", "--svg", "trace.svg")
    assert done.returncode == 0, done.stderr
    assert b"the launch is encoded and sent to the warden" in done.stdout
    assert b"after the answer" in done.stdout
    assert b"3 runs" in done.stdout
    assert ElementTree.fromstring((folder / "trace.svg").read_text()).tag.endswith("svg")


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("options", [[], ["--cold"], ["--preload", "json", "--pause", "0"]])
def test_trace_prints_json(stockade, options):
    done = stockade("bench", "--trace", "--runs", "3", "--json", *options)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    names = [step["name"] for step in data["steps"]]
    assert names[:2] == ["planned", "sent"]
    assert ("begun" in names) is (options != ["--cold"])
    assert data["runs"] == 3 and 0 < data["whole"] < 1e7


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--svg", "x"], b"--svg needs --trace"),
        (["--cold"], b"--cold needs --trace"),
        (["--trace", "--cold", "--preload", "json"], b"omit --cold"),
        (["--trace", "--interpreter", "/usr/bin/python3"], b"omit --interpreter"),
        (["--runs", "0"], b"--runs"),
    ],
)
def test_bench_contradictory_options_are_refused(stockade, options, words):
    done = stockade("bench", *options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert words in done.stderr


def test_trace_unknown_preload_module_is_named(stockade):
    done = stockade("bench", "--trace", "--runs", "1", "--preload", "no_such_module")
    assert done.returncode != 0
    assert b"no_such_module" in done.stderr
