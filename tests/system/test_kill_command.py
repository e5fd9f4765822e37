"""The kill switch ends the runs of all processes of an account within a second, and refuses new ones.

Other programs on this machine may use stockade, so these tests name only their own runs, by a label.
"""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

import stockade
from stockade import Outcome
from stockade.linux import kill_switch

pytestmark = pytest.mark.alone

CALLER = """
import json, sys, threading, time, stockade
labels, count = json.loads(sys.argv[1]), int(sys.argv[2])
def run():
    with stockade.Runner().stream_command(["sleep", "60"], labels=labels) as stream:
        next(stream)
        print("started\\n", end="", flush=True)
        result = [*stream][-1].result
    said = json.dumps([time.time(), result.outcome, result.error and result.error.message])
    print(said + "\\n", end="", flush=True)  # one write, since print writes a line and its end apart
threads = [threading.Thread(target=run) for _ in range(count)]
for each in threads: each.start()
for each in threads: each.join()
"""
ALONE = """
import pathlib, stockade
from stockade.linux import kill_switch
path = pathlib.Path(kill_switch.MACHINE)
runner = stockade.Runner()
with runner.stream_command(["sleep", "60"]) as stream:
    next(stream)
    path.write_text("all")
    print([*stream][-1].result.outcome)
print(runner.run("1").outcome)
path.unlink()
print(runner.run("1").outcome)
"""
PATH = Path(kill_switch.own_path(os.geteuid()))


def switch(*words):
    return subprocess.run(
        [sys.executable, "-m", "stockade", "kill", *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def user():
    """Return a user whom no other run names. The switch is lifted at the end."""
    assert not PATH.exists(), f"{PATH}: somebody has set the kill switch of this account"
    yield secrets.token_hex(4)
    PATH.unlink(missing_ok=True)


def test_runs_of_other_processes_end_within_a_second(user):
    labels = {"user": user}
    with stockade.Runner().stream_command(["sleep", "40"], labels=labels) as mine:
        next(mine)
        command = [sys.executable, "-c", CALLER, json.dumps(labels), "6"]
        other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert [other.stdout.readline() for _ in range(6)] == ["started\n"] * 6
        assert switch("--label", f"user={user}", "--reason", "a test").returncode == 0
        written = PATH.stat().st_mtime
        *_, last = mine
        ends = [json.loads(line) for line in other.communicate(timeout=30)[0].splitlines()]
    assert last.result.outcome is Outcome.CANCELLED
    assert last.result.error.type == "KillSwitch"
    assert [end[1:] for end in ends] == [["cancelled", kill_switch.ENDED]] * 6
    assert max(end[0] for end in ends) - written < 1.5, "half a second to look, and some for a busy machine"
    assert f"# a test\nlabel user={user}\n" in switch("--show").stdout


def test_other_runs_go_on(user):
    with (
        stockade.Runner().stream_command(["sleep", "3"], labels={"user": "ada"}) as ada,
        stockade.Runner().stream_command(["sleep", "30"], labels={"user": user}) as eve,
    ):
        next(ada), next(eve)
        switch("--label", f"user={user}")
        assert [*eve][-1].result.outcome is Outcome.CANCELLED
        assert [*ada][-1].result.outcome is Outcome.COMPLETED


def test_new_runs_are_refused_until_it_is_lifted(user):
    runner = stockade.Runner()
    assert runner.run("print(1)", labels={"user": user}).ok
    switch("--label", f"user={user}")
    for attempt in (runner.run, stockade.run):
        result = attempt("print(1)", labels={"user": user})
        assert result.outcome is Outcome.SANDBOX_FAILED
        assert result.error.message == kill_switch.REFUSED
        assert attempt("print(1)").ok
    assert switch("--show").stdout == f"label user={user}\n"
    assert switch("--show").returncode == 1
    assert switch("--lift").returncode == 0
    assert switch("--show").stdout == "off\n"
    assert runner.run("print(1)", labels={"user": user}).ok


def test_labels_of_the_process_count(user):
    runner = stockade.Runner()
    for _ in range(4):
        assert runner.run("print(1)").ok
    stockade.configure(labels={"user": user})
    try:
        switch("--label", f"user={user}")
        assert runner.run("print(1)").outcome is Outcome.SANDBOX_FAILED
    finally:
        stockade.configure()


def test_paused_run_ends(user):
    with stockade.Runner().stream_command(["sleep", "30"], labels={"user": user}) as stream:
        next(stream)
        stream.pause()
        switch("--label", f"user={user}")
        assert [*stream][-1].result.outcome is Outcome.CANCELLED


def test_sandbox_ends_with_its_commands(user):
    with (
        stockade.Sandbox.create(labels={"user": user}) as eve,
        stockade.Sandbox.create() as other,
        eve.start_command(["sleep", "60"]) as process,
    ):
        switch("--label", f"user={user}")
        assert process.wait(timeout=10).outcome in (Outcome.CANCELLED, Outcome.SANDBOX_FAILED)
        with pytest.raises(stockade.SandboxClosed, match="kill switch"):
            eve.run_command(["true"])
        assert other.run_command(["true"]).ok
        switch("--lift")
        switch("--sandbox", other.id)
        with pytest.raises(stockade.SandboxClosed, match="kill switch"):
            for _ in range(100):
                other.run_command(["sleep", "0.1"])
    assert eve.result.outcome is Outcome.CANCELLED


def test_guest_cannot_lift_it(user):
    switch("--label", f"user={user}")
    script = f"rm -f {PATH} && echo removed; mkdir -p {PATH.parent} && echo '' > {PATH} && echo written"
    stockade.run_command(["sh", "-c", script])
    assert PATH.read_text() == f"label user={user}\n"


@pytest.mark.needs("root")
def test_file_of_another_account_means_nothing(user):
    switch("--label", f"user={user}")
    os.chown(PATH, 65534, 65534)
    assert stockade.run("print(1)", labels={"user": user}).ok


@pytest.mark.needs("root")
def test_all_means_every_run():
    """In a mount namespace of its own, whose switch concerns nothing else on this machine."""
    Path(kill_switch.MACHINE).parent.mkdir(exist_ok=True)
    place = Path(kill_switch.MACHINE).parent
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount -t tmpfs none {place} && exec "$@"',
        "sh",
        sys.executable,
        "-c",
    ]
    done = subprocess.run([*command, ALONE], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["cancelled", "sandbox_failed", "completed"], done.stderr


@pytest.mark.parametrize("words", [[], ["--all", "--lift"], ["--since", "soon"], ["--label", "eve"]], ids=range(4))
def test_bad_usage_changes_nothing(words):
    assert switch(*words).returncode == 2
    assert not PATH.exists()
