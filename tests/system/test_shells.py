"""A shell in a living sandbox keeps its state, and learns each command's end from what the command cannot forge."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from stockade import CellOutcome, Hooks, JobError, LimitReached, RunInfo, Sandbox, SessionEnded, Shell

pytestmark = pytest.mark.timing  # a cell past its time has five seconds to end


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.create(processes=64) as made:
        yield made


@pytest.fixture
def shell(sandbox: Sandbox) -> Iterator[Shell]:
    with sandbox.shell() as made:
        yield made


def test_shell_state_lives_from_command_to_command(shell: Shell) -> None:
    shell.run("mkdir -p src && cd src && export A=1; greet() { echo hello $1; }; declare -A map=([k]=v)")
    result = shell.run("echo $A ${map[k]} ${PWD##*/}; greet you; echo problem >&2; history | tail -1")
    assert (result.outcome, result.exit_code, result.stderr) == (CellOutcome.COMPLETED, 0, "problem\n")
    lines = result.stdout.splitlines()
    assert lines[:2] == ["1 v src", "hello you"]
    assert "echo $A" in lines[2]
    assert result.folder.endswith("/src")


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("false", 1),
        ("(exit 5)", 5),
        ("nothing-of-this-name", 127),
        ("echo 'not closed", 2),
        ("if; then", 2),
        ("${unset:?message}", 1),
        ("set -u; echo $unset", 1),
        ("break; return 3", 2),
        ("cat <<END\ntext\nEND", 0),
        ("for n in 1 2; do\n  test $n -lt 2\ndone", 1),
        ("trap 'echo trapped' DEBUG; false", 1),
        ("printf() { echo mine; }; eval() { :; }; (exit 4)", 4),
        ("exec 7>/dev/null; exec 7>&-", 0),
        ("kill -9 $BASHPID & wait $!", 137),
    ],
)
def test_shell_reports_the_status_of_any_command(shell: Shell, command: str, status: int) -> None:
    result = shell.run(command)
    assert (result.exit_code, result.ended) == (status, "")
    assert shell.run("set +u; trap - DEBUG; echo alive").stdout.endswith("alive\n")


def test_shell_command_cannot_print_its_own_end(shell: Shell) -> None:
    forged = shell.run("printf '%s 0 /\\0' start; printf 'x 0 /\\0' >&199; printf 'x 0 /\\0' >/proc/self/fd/199; false")
    assert (forged.exit_code, forged.ended) == (1, "")
    assert shell.run("env | grep -c STOCKADE; cat /proc/self/fd/198").exit_code == 1


def test_shell_child_does_not_get_the_descriptors_of_the_shell(shell: Shell) -> None:
    result = shell.run("python3 -c 'import os; print(sorted(os.listdir(\"/proc/self/fd\")))'")
    assert result.stdout == "['0', '1', '2', '3']\n"


def test_shell_with_a_forged_record_ends_and_says_so(shell: Shell) -> None:
    result = shell.run("for fd in {10..30}; do builtin printf 'guess 0 /\\0' >&$fd; done 2>/dev/null; sleep 5")
    assert (result.outcome, result.ended) == (CellOutcome.DIED, "it wrote a forged end of its cell")


@pytest.mark.parametrize("command", ["sleep 60", "while :; do :; done", "yes", "cat | sleep 60"])
def test_shell_keeps_state_after_a_command_that_timed_out(shell: Shell, command: str) -> None:
    shell.run("kept=1")
    result = shell.run(command, timeout=0.3)
    assert (result.outcome, result.exit_code, result.ended) == (CellOutcome.TIMED_OUT, 130, "")
    assert shell.run("echo $kept").stdout == "1\n"


def test_shell_command_is_interrupted_from_another_thread(shell: Shell) -> None:
    timer = threading.Timer(0.3, shell.interrupt)
    timer.start()
    assert shell.run("sleep 60").outcome is CellOutcome.INTERRUPTED
    timer.join()


def test_shell_exit_ends_it_until_restart(shell: Shell) -> None:
    shell.run("sleep 86395.25 &")
    result = shell.run("kept=1; exit 7")
    assert (result.outcome, result.ended) == (CellOutcome.DIED, "it exited with status 7")
    with pytest.raises(SessionEnded, match="status 7"):
        shell.run("true")
    shell.restart()
    assert shell.run("echo \"<$kept>\"; pgrep -f 'sleep 8639[5]'").stdout == "<>\n"


def test_shell_refuses_a_command_that_is_too_long(shell: Shell) -> None:
    assert shell.run("# " + "x" * 200_000).exit_code == 0
    with pytest.raises(JobError, match="is the most"):
        shell.run("#" * 300_000)


def test_hooks_learn_of_a_limit_of_a_shell_before_it_is_met() -> None:
    seen: list[tuple[str, str, str]] = []

    def note(info: RunInfo, event: LimitReached) -> None:
        seen.append((info.kind, event.guarantee, event.state))

    with Sandbox.create(cpu_time=2, hooks=Hooks(on_warning=note, on_limit=note)) as sandbox, sandbox.shell() as shell:
        ended = shell.run("while :; do :; done", timeout=30).ended
        assert "cpu_time" in ended
        assert seen == [("command", "cpu_time", "near"), ("command", "cpu_time", "met")]
