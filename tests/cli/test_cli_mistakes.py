"""Mistakes of a first hour: one or two lines that name what was wrong and the option that helps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["help"], 2, "Write 'stockade --help'."),
        (["help", "run"], 2, "Write 'stockade run --help'."),
        (["run", "--backend", "nativ", "-c", "1"], 125, "there is no backend 'nativ'; did you mean 'native'?"),
        (["run", "--allow", "example.com", "-c", "1"], 2, "did you mean 'example.com:443'?"),
        (["run", "--allow", "http://example.com/x", "-c", "1"], 2, "did you mean 'example.com:80'?"),
        (["run", "--secret", "K=PATH@a.example.com", "-c", "1"], 2, "--allow a.example.com:443"),
        (["attack", "--show", "nothing"], 2, "--show nothing: no guarantee and no attack has this name"),
        (["policy", "check", "none.toml"], 2, "none.toml: cannot be read: No such file or directory"),
        (["eval", "humanevl", "samples.jsonl"], 2, "humanevl: there is no such format; did you mean 'humaneval'?"),
        (["eval", "humanevl"], 2, "humanevl: there is no such file or format; did you mean 'humaneval'?"),
        (["eval", "ann.py"], 2, "ann.py: this is a program, not a file of programs; 'stockade run ann.py' runs it"),
        (["eval", "list.json"], 1, "write one object on each line, without the brackets of a list"),
        (["repl", "--with", "x", "--packages", "y"], 2, "--with makes an environment of its own"),
        (["repl", "perl"], 2, "'perl' has no interpreter that keeps state; there are python, ruby and javascript"),
        (["repl", "--backend", "landlock"], 125, "'landlock': it ends with each command"),
    ],
)
def test_mistake_is_named_with_its_remedy(stockade, folder: Path, words, status, said) -> None:
    (folder / "ann.py").write_text("print(1)\n")
    (folder / "list.json").write_text('[{"id": "ann", "source": "print(1)"}]')
    done = stockade(*words)
    text = " ".join((done.stdout + done.stderr).decode().split())
    assert (done.returncode, " ".join(said.split()) in text) == (status, True), text
    assert len(done.stderr.splitlines()) <= 4


def test_refused_policy_names_the_options_of_the_command_line(stockade) -> None:
    done = stockade("run", "--limit", "operations=9", "--", "true")
    text = done.stderr.decode()
    assert "or accept less: --accept operations=absent, or lift it: --limit operations=unlimited" in text
    assert "accept={" not in text


def test_reason_shared_by_backends_is_said_once(stockade) -> None:
    text = stockade("run", "--isolation", "own_kernel", "-c", "1").stderr.decode()
    assert text.count("isolates by namespaces only") == 1
    assert re.search("native, bubblewrap[^:]*: isolates", text)


@pytest.mark.needs("native")
def test_limit_that_refused_the_code_something_is_named(stockade, folder: Path) -> None:
    done = stockade("run", "--limit", "processes=2", "-c", "import os\nwhile True: os.fork() or os._exit(0)")
    assert b"the limit on processes " in done.stderr  # "was met", or "may have been met" without a control group
    assert b"--limit processes=MORE raises it" in done.stderr
    done = stockade("run", "--limit", "disk=1MiB", "-c", "open('x', 'wb').write(b'1' * 2**22)")
    assert b"the limit on disk was met" in done.stderr and b"--limit disk=MORE" in done.stderr
    (folder / "most.toml").write_text('[limits]\ndisk = "1MiB"\n')
    done = stockade("run", "--ceiling", "most.toml", "-c", "open('x', 'wb').write(b'1' * 2**22)")
    assert b"the ceiling most.toml allows no more" in done.stderr and b"--limit" not in done.stderr
    assert b"was met" not in stockade("run", "-c", "1/0").stderr
    (folder / "most.toml").write_text("[limits]\nwall_time = 1\n")
    done = stockade("run", "--ceiling", "most.toml", "--limit", "wall_time=50", "-c", "while True: pass")
    assert (done.returncode, b"the ceiling most.toml allows no more wall_time" in done.stderr) == (124, True)
    done = stockade("run", "--", "ls -l")
    assert (done.returncode, b"a command is a list of words" in done.stderr) == (127, True)
