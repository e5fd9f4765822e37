"""``--with``, ``--inline-requirements`` and ``stockade packages``, with an index that is a folder."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.wheels import wheel


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Return the store, which is empty; pip finds the wheels of a folder and nothing else."""
    index = tmp_path / "index"
    index.mkdir()
    wheel(index, "here", needs="inner")
    wheel(index, "inner")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "stockade" / "packages"


def test_with_then_list_and_clear(stockade, place):
    done = stockade("run", "--json", "--with", "here", "-c", "import here, inner; here.VALUE + inner.VALUE")
    assert json.loads(done.stdout)["value"] == "1.01.0" and done.stderr == b""
    (found,) = json.loads(stockade("packages", "list", "--json").stdout)["sets"]
    assert [each["file"] for each in found["wheels"]] == ["here-1.0-py3-none-any.whl", "inner-1.0-py3-none-any.whl"]
    assert b"here==1.0 inner==1.0" in stockade("packages", "list").stdout
    assert json.loads(stockade("packages", "clear", "--json").stdout) == {"removed": 1, "in_use": 0}
    assert not [*(place / "sets").iterdir()]


def test_with_serves_a_command(stockade):
    code = "import here; print(here.VALUE)"
    assert stockade("run", "--with", "here", "--", "python", "-c", code).stdout == b"1.0\n"


def test_script_metadata_is_read_only_when_asked(stockade, folder):
    (folder / "own.py").write_text(
        '# /// script\n# dependencies = ["inner"]\n# ///\nimport inner; print(inner.VALUE)\n'
    )
    assert b"ModuleNotFoundError" in stockade("run", "own.py").stderr
    assert stockade("run", "--inline-requirements", "own.py").stdout == b"1.0\n"


def test_eval_takes_with(stockade, folder):
    (folder / "p.jsonl").write_text('{"id": "a", "source": "import inner; print(inner.VALUE)", "expected": "1.0"}\n')
    done = stockade("eval", "--with", "inner", "p.jsonl")
    assert json.loads(done.stdout)["verdict"] == "passed", done.stderr


def test_errors_name_value_reason_and_remedy(stockade, place):
    done = stockade("run", "--json", "--with", "nosuch", "-c", "1")
    error = json.loads(done.stdout)
    assert (done.returncode, error["error"], error["field"], error["value"]) == (
        125,
        "RequirementError",
        "requirements",
        "nosuch",
    )
    assert error["reason"] and error["remedy"] and done.stderr == b""
    for words, text in (
        (("--with", "here", "--language", "ruby", "-c", "1"), b"for Python"),
        (("--with", "here", "--packages", "/usr", "-c", "1"), b"leave out --packages"),
        (("--inline-requirements", "--", "true"), b"source code"),
        (("--inline-requirements", "-"), b"not standard input"),
    ):
        done = stockade("run", *words)
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def test_terminal_shows_progress():
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "stockade", "run", "--with", "here", "-c", "print(1)"]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, timeout=60, check=True
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # EIO ends it
        while piece := os.read(ours, 1 << 16):
            shown += piece
    os.close(ours)
    assert done.stdout == b"1\n"
    assert b"resolving here" in shown and b"[####################] unpacking 2 of 2" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_ctrl_c_while_downloading_leaves_nothing(start, place, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        process = start("run", "--with", "elsewhere", "-c", "1")
        silent.settimeout(30)
        asked, _ = silent.accept()  # pip waits for an answer
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=20)
        asked.close()
    assert process.returncode == 130
    assert not [*(place / "building").iterdir()]
    time.sleep(0.05)
    assert not [each for each in Path("/proc").glob("[0-9]*/cmdline") if str(place).encode() in _content(each)]


def _content(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
