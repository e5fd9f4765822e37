"""``stockade estimate``: limits from common figures and from one run; and the filter on commands."""

import json

import pytest


def test_estimate_known_tool_suggests_limits(stockade):
    done = stockade("estimate", "--json", "--", "cargo", "build")
    data = json.loads(done.stdout)
    assert (done.returncode, data["limits"]["memory"], data["command"]) == (0, "2048MiB", ["cargo", "build"])
    text = stockade("estimate", "--", "/usr/bin/make", "-j2").stdout.decode()
    assert "--limit memory=2048MiB" in text
    assert "usually needs" in text


def test_estimate_unknown_tool_names_measure(stockade):
    done = stockade("estimate", "--", "frobnicate")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"there are no figures for 'frobnicate'; --measure runs it once" in done.stderr


def test_estimate_measured_limits_are_sufficient(stockade):
    code = "x = bytearray(100 << 20); x[::4096] = b'x' * len(x[::4096])"
    done = stockade("estimate", "--measure", "--json", "--", "/usr/bin/python3", "-c", code)
    data = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert 150 <= int(data["limits"]["memory"].removesuffix("MiB")) <= 320
    assert data["limits"]["wall_time"].endswith("s")
    assert "completed" in data["source"]
    # The same command runs under the suggested limits.
    limits = [word for name, value in data["limits"].items() for word in ("--limit", f"{name}={value}")]
    assert stockade("run", *limits, "--", "/usr/bin/python3", "-c", code).returncode == 0


@pytest.mark.parametrize("words", [["false"], ["no-such-program"]])
def test_estimate_failed_run_suggests_nothing(stockade, words):
    done = stockade("estimate", "--measure", "--", *words)
    assert done.returncode == 2
    assert b"suggests no limits" in done.stderr


def test_estimate_failed_run_shows_why(stockade):
    done = stockade("estimate", "--measure", "--", "cat", "nothing-here")
    assert b"the last line of its standard error: 'cat: nothing-here: No such file" in done.stderr


def test_estimate_refused_command_is_not_started(stockade, tmp_path):
    (tmp_path / "p.toml").write_text('[commands]\nallow = ["echo *", "ls"]\nrefuse = ["echo secret"]\n')
    policy = ("run", "--policy", str(tmp_path / "p.toml"), "--")
    assert stockade(*policy, "echo", "hi").stdout == b"hi\n"
    done = stockade(*policy, "echo", "secret")
    assert done.returncode == 2
    assert b"commands.refuse: 'echo secret' matches 'echo secret'" in done.stderr
    assert b"matches no allowed pattern" in stockade(*policy, "ls", "/").stderr
