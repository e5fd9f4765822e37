"""Every class of exit status, from the real command."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest


def test_run_completed_passes_output_on(stockade):
    done = stockade("run", "-c", "import sys; print('out'); print('err', file=sys.stderr)")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["-c", "raise SystemExit(3)"], 3, b""),
        (["--", "sh", "-c", "exit 124"], 124, b""),
        (["--", "sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV, b"stockade: crashed by SIGSEGV\n"),
        (["--", "no-such-program"], 127, b"stockade: no-such-program: command not found\n"),
        (["--", "/etc/passwd"], 126, b"stockade: /etc/passwd: Permission denied\n"),
        (["--limit", "output=10", "--on-output", "kill", "--", "seq", "100"], 137, b"ended by its limit on output"),
        (["--limit", "cpu_time=0.2", "-c", "while True: pass"], 137, b"ended by its limit on cpu_time"),
        (["--limit", "file_size=4096", "--", "dd", "if=/dev/zero", "of=f", "bs=8192"], 137, b"limit on file_size"),
    ],
)
def test_run_exit_status_follows_outcome(stockade, words, status, said):
    done = stockade("run", *words)
    assert done.returncode == status
    assert said in done.stderr
    assert bool(said) == bool(done.stderr)


def test_run_wall_time_is_reported_in_one_line(stockade):
    done = stockade("run", "--limit", "wall_time=0.2", "--", "sleep", "30")
    assert done.returncode == 124
    line = done.stderr.decode()
    assert line.startswith("stockade: ended by its limit on wall_time: timer: 0.2")
    assert line.endswith(" s of 0.2 s\n") and line.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--accept", "memory=hypervisor", "-c", "1"], "memory: "),
        (["--backend", "nothing", "-c", "1"], "there is no backend 'nothing'"),
    ],
)
def test_run_without_sandbox_exits_125(stockade, words, said):
    done = stockade("run", *words)
    assert done.returncode == 125
    assert said in done.stderr.decode()
    assert not done.stdout


def test_run_dead_warden_exits_125(start, folder: Path):
    process = start("run", "--result-file", "verdict.json", "--", "sh", "-c", "echo ready; sleep 30")
    assert process.stdout.readline() == b"ready\n"
    (warden,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(warden), signal.SIGKILL)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 125
    assert err.startswith(b"stockade: the sandbox failed: the warden ") and err.count(b"\n") == 1
    assert json.loads((folder / "verdict.json").read_text())["outcome"] == "sandbox_failed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "nothing to run"),
        (["run", "--"], "nothing to run"),
        (
            ["run", "no-such-script.py"],
            "no-such-script.py: there is no such file; to run a command, put '--' before it",
        ),
        (["run", "/tmp"], "is a folder"),
        (["run", "--limt", "memory=1", "x.py"], "--limit"),
        (["run", "--limit", "memry=64MiB", "-c", "1"], "'memry' is not a limit; did you mean 'memory'?"),
        (["run", "--limit", "memory", "-c", "1"], "'memory' is not of the form memory=64MiB"),
        (["run", "--limit", "memory=123bogus", "-c", "1"], "limits.memory = '123bogus': expected a size"),
        (["run", "--accept", "syscals=absent", "-c", "1"], "did you mean 'syscalls'?"),
        (["run", "--accept", "syscalls=maybe", "-c", "1"], "'maybe' is not a strength"),
        (["run", "--env", "1X=2", "-c", "1"], "not the name of an environment variable"),
        (["run", "--env", "X", "-c", "1"], "--inherit-env NAME"),
        (["run", "--read", "../x", "-c", "1"], "leads out of the current folder"),
        (["run", "--read", "not-there", "-c", "1"], "not-there does not exist"),
        (["run", "--network", "all", "-c", "1"], "'none', 'host'"),
        (["run", "--allow", "example.org", "-c", "1"], "expected HOST:PORT"),
        (["run", "--allow", "a.org:80", "--network", "host", "-c", "1"], "--network does not go with it"),
        (["run", "--language", "cobol", "-c", "1"], "there is no language 'cobol'"),
        (["run", "--interpreter", "/bin/sh", "--", "ls"], "--interpreter is for source code"),
        (["run", "--result-file", "/no/such/place", "-c", "1"], "--result-file /no/such/place: No such file"),
        (["run", "--policy", "none.toml", "-c", "1"], "cannot be read"),
        (["plan", "--limit", "memory=-1", "--limit", "wall_time=soon"], "limits.wall_time = 'soon'"),
        (["docter"], "docter"),
        (["policy", "check"], "FILE"),
    ],
)
def test_bad_usage_exits_2(stockade, words, said):
    done = stockade(*words)
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert not done.stdout


def test_plan_reports_every_policy_mistake(stockade):
    done = stockade("run", "--limit", "memory=-1", "--limit", "processes=0", "--read", "/", "-c", "1")
    assert done.stderr.count(b"\nstockade: ") == 2
    assert done.returncode == 2


def test_run_script_without_suffix_needs_language(stockade, folder: Path):
    (folder / "hello").write_text("print('hello')")
    done = stockade("run", "hello")
    assert done.returncode == 2
    assert b"name the language: language='NAME', or --language NAME" in done.stderr
    assert stockade("run", "--language", "python", "hello").stdout == b"hello\n"


def test_run_compiled_script_tells_a_command_that_works(stockade, folder: Path):
    (folder / "a b.c").write_text('#include <stdio.h>\nint main(void) { puts("two"); }\n')
    done = stockade("run", "a b.c")
    assert done.returncode == 2
    told = re.search("one command can do both: stockade (.*); 'stockade eval' also takes", done.stderr.decode())
    assert told, done.stderr
    if shutil.which("gcc", path="/usr/bin:/bin"):
        assert stockade(*shlex.split(told[1])).stdout == b"two\n"
    (folder / "main.go").write_text("package main")
    assert b"--limit processes=64 --workspace . -- sh -c 'COMPILE && RUN'" in stockade("run", "main.go").stderr
