"""``stockade check``: advice, its form and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_check_prints_place_kind_and_message(stockade, folder: Path) -> None:
    (folder / "script.py").write_text("import os\nos.system('ls')\n")
    done = stockade("check", "script.py")
    assert done.returncode == 1
    assert done.stdout.startswith(b"script.py:2:1: call: os.system starts another program")
    assert b"not a wall" in done.stderr


def test_check_takes_several_scripts(stockade, folder: Path) -> None:
    (folder / "one.py").write_text("print(1)\n")
    (folder / "two.py").write_text("print(\n")
    (folder / "six.py").write_text("while True: pass\n")
    done = stockade("check", "one.py", "two.py", "six.py")
    assert done.returncode == 1 and done.stderr.count(b"not a wall") == 1
    assert [line.split(b":")[0] for line in done.stdout.splitlines()] == [b"two.py", b"six.py"]
    done = stockade("check", "--json", "one.py", "two.py")
    assert done.returncode == 2 and "takes one FILE" in json.loads(done.stdout)["message"]


def test_check_without_advice_exits_0(stockade) -> None:
    done = stockade("check", "-", "--language", "python", stdin=b"print(1)\n")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"nothing found; this is advice, not a wall" in done.stderr


def test_check_json_is_one_object(stockade) -> None:
    done = stockade("check", "--json", "-c", "while True: pass")
    data = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, b"")
    assert [(each["line"], each["column"], each["kind"]) for each in data["advice"]] == [(1, 1, "loop")]
    assert "not a wall" in data["note"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, b"give either FILE"),
        (["none.py"], 2, b"none.py: No such file"),
        (["--language", "ruby", "-c", "1"], 2, b"reads python only"),
        (["--backend", "nothing", "-c", "1"], 125, b"there is no backend 'nothing'"),
    ],
)
def test_check_exit_status_follows_the_reason(stockade, words, status, message) -> None:
    done = stockade("check", *words)
    assert (done.returncode, done.stdout) == (status, b"")
    assert message in done.stderr
