"""Sandboxes that live: files and processes last from call to call, and everything ends with the sandbox."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import host

import stockade
from stockade import Outcome, Sandbox, SandboxClosed
from stockade.client import warden_process

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]
MARK = "86394.25"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that a second after each test nothing is left of it."""
    with host.as_before():
        yield


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Start a sandbox, and close it after the test."""
    with Sandbox.create(timeout=20) as made:
        yield made


def shell(sandbox, script, **options):
    return sandbox.run_command(["sh", "-c", script], **options)


def test_files_last_from_call_to_call(sandbox):
    shell(sandbox, "echo one > /tmp/a; echo two > b; mkdir -p $HOME/c").check()
    assert shell(sandbox, "cat /tmp/a /workspace/b; ls -d ~/c").stdout == "one\ntwo\n/tmp/c\n"


def test_two_commands_run_at_a_time(sandbox):
    results = []
    waits = threading.Thread(
        target=lambda: results.append(shell(sandbox, "while ! test -e /tmp/go; do sleep 0.01; done; echo gone"))
    )
    waits.start()
    shell(sandbox, "touch /tmp/go").check()
    waits.join()
    assert results[0].stdout == "gone\n"


def test_call_has_folder_environment_and_input_of_its_own(sandbox):
    shell(sandbox, "mkdir sub").check()
    result = shell(sandbox, "pwd; echo $A; cat", cwd="sub", environment={"A": "b"}, stdin="text")
    assert result.stdout == "/workspace/sub\nb\ntext"
    assert shell(sandbox, "pwd; echo [$A]").stdout == "/workspace\n[]\n"


def test_missing_folder_fails_the_call_only(sandbox):
    result = shell(sandbox, "true", cwd="/nowhere")
    assert (result.outcome, result.exit_code) == (Outcome.FAILED, 126)
    assert "/nowhere: No such file or directory" in result.error.message
    assert sandbox.run_command(["no-such-program"]).exit_code == 127
    assert shell(sandbox, "exit 3").exit_code == 3


def test_timeout_ends_the_whole_tree_of_one_call(sandbox):
    script = f"(setsid sh -c 'sleep {MARK} & sleep {MARK} & wait' &) ; sleep 60"
    result = shell(sandbox, script, timeout=0.5)
    assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, "wall_time")
    assert host.eventually(lambda: not _pids_of(MARK))


def test_call_can_only_lower_a_limit(sandbox):
    with pytest.raises(stockade.JobError, match=r"timeout = 60: the policy of the sandbox allows 20"):
        shell(sandbox, "true", timeout=60)


def test_call_ends_while_background_child_holds_its_output(sandbox):
    begin = time.monotonic()
    shell(sandbox, "sleep 30 & echo $! > /tmp/pid").check()
    assert time.monotonic() - begin < 5
    shell(sandbox, "kill -0 $(cat /tmp/pid)").check()
    shell(sandbox, "kill $(cat /tmp/pid)").check()


def test_memory_ends_one_call_and_not_the_sandbox():
    with Sandbox.create({"limits": {"data": "unlimited"}}, memory="64MiB", timeout=60) as sandbox:
        process = sandbox.start_command(["sleep", "60"])
        fills = "exec tail -c 90M < <(head -c 100M /dev/zero)"  # maps few pages of files, which samples would count
        result = sandbox.run_command(["bash", "-c", fills])
        assert (result.outcome.value, result.limit) == ("limit_exceeded", "memory"), result.explain()
        assert process.poll() is None
        assert shell(sandbox, "echo fine").stdout == "fine\n"


def test_closed_sandbox_refuses_calls(sandbox):
    assert f"{sandbox!r}".startswith(f"<Sandbox {sandbox.id}: open; native; policy ")
    sandbox.files.write("note", "kept")
    sandbox.close()
    sandbox.close()
    assert sandbox.closed
    with pytest.raises(SandboxClosed, match="the sandbox was closed"):
        shell(sandbox, "true")
    with pytest.raises(SandboxClosed, match="the sandbox was closed"):
        sandbox.files.read_text("note")


def test_lifetime_and_idle_time_end_a_sandbox():
    for limits, why in (({"max_lifetime": 1.5}, "max_lifetime"), ({"idle_timeout": 1.0}, "idle_timeout")):
        with Sandbox.create(**limits) as sandbox:
            shell(sandbox, "true").check()
            time.sleep(2.5)
            with pytest.raises(SandboxClosed, match=why):
                shell(sandbox, "true")


def test_running_call_keeps_an_idle_sandbox():
    with Sandbox.create(idle_timeout=1.0, timeout=20) as sandbox:
        shell(sandbox, "sleep 2.5").check()


def test_changes_of_an_overlay_come_with_the_end(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "old").write_text("before")
    with Sandbox.create(workspace=tmp_path, access="overlay") as sandbox:
        shell(sandbox, "echo after > old; echo x > new").check()
        assert shell(sandbox, "pwd").stdout == f"{tmp_path}\n"
    assert (tmp_path / "old").read_text() == "before"
    assert sorted(each.path for each in sandbox.result.changes) == ["new", "old"]


def test_usage_is_the_whole_sandboxs(sandbox):
    before = sandbox.usage()
    shell(sandbox, "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; sleep 30 &").check()
    after = sandbox.usage()
    assert after.cpu_seconds > before.cpu_seconds + 0.05
    assert after.wall_seconds > before.wall_seconds
    sandbox.close()
    assert sandbox.result.usage.cpu_seconds >= after.cpu_seconds - 0.01
    assert sandbox.result.enforcement["no_survivors"].strength == "kernel"


# -- processes -------------------------------------------------------------------------------------------------


def test_process_talks_over_its_streams(sandbox):
    with sandbox.start_command(["python3", "-uc", "for l in iter(input, 'end'): print(l * 2)"]) as process:
        for word in (b"a", b"bc"):
            process.stdin.write(word + b"\n")
            assert process.stdout.readline(timeout=10) == word * 2 + b"\n"
        assert process.poll() is None
        process.stdin.write(b"end\n")
        assert process.wait(10).exit_code == process.returncode == 0


def test_process_outlives_calls_and_is_signalled(sandbox):
    process = sandbox.start_command(["sh", "-c", "trap 'echo bye; exit 4' TERM; while :; do sleep 0.02; done"])
    shell(sandbox, f"kill -0 {process.pid}").check()
    with pytest.raises(TimeoutError):
        process.wait(0.1)
    process.terminate()
    assert process.wait(10).exit_code == 4
    assert process.stdout.read() == b"bye\n"


def test_unread_process_waits_and_loses_nothing(sandbox):
    code = "import sys; sys.stderr.write('ready'); sys.stderr.flush(); sys.stdout.buffer.write(bytes(4 << 20))"
    process = sandbox.start_command(["python3", "-c", code])
    assert process.stderr.read_exactly(5, timeout=10) == b"ready"
    time.sleep(0.3)
    assert process.poll() is None
    assert len(process.stdout.read(timeout=20)) == 4 << 20
    assert process.wait(10).exit_code == 0


def test_process_writes_into_a_file_of_the_sandbox(sandbox):
    process = sandbox.start_command(["sh", "-c", "echo out; echo err >&2"], stdout="log", stderr="/tmp/err")
    assert process.wait(10).exit_code == 0
    assert shell(sandbox, "cat log /tmp/err").stdout == "out\nerr\n"


def test_kill_ends_everything_that_a_process_started(sandbox):
    process = sandbox.start_command(["sh", "-c", f"(setsid sleep {MARK} &); sleep {MARK}"])
    while shell(sandbox, f"ps -e -o args= | grep -c '^sleep {MARK}'").stdout != "2\n":
        pass
    process.kill()
    assert process.wait().outcome is Outcome.CANCELLED
    assert shell(sandbox, f"ps -e -o args= | grep -c '^sleep {MARK}'").stdout == "0\n"


# -- terminals -------------------------------------------------------------------------------------------------


def test_running_processes_are_listed(sandbox):
    waiting, ended = sandbox.start_command(["sleep", "60"]), sandbox.start_command(["true"])
    terminal = sandbox.terminal(["cat"])
    ended.wait(10)
    with sandbox.interpreter() as python, sandbox.shell():
        assert python.run("1").value_repr == "1"
        assert sandbox.files.exists(".")
        assert sandbox.processes == (waiting, terminal)
    found = {each.pid: each for each in sandbox.processes}
    assert found[terminal.pid] is terminal
    waiting.kill()
    assert sandbox.processes == (terminal,)


def test_many_idle_commands_leave_the_warden_free():
    """Without control groups, each command is sampled: a look at the whole host for each would take all of its time."""
    with Sandbox.create(timeout=60, processes=40) as sandbox:
        waiting = [sandbox.start_command(["sleep", "60"]) for _ in range(24)]
        stat = Path(f"/proc/{warden_process.current().pid}/stat")
        time.sleep(0.5)
        before, begin = sum(map(int, stat.read_text().split()[13:15])), time.monotonic()
        time.sleep(1)
        used = (sum(map(int, stat.read_text().split()[13:15])) - before) / os.sysconf("SC_CLK_TCK")
        assert used < 0.5 * (time.monotonic() - begin)
        assert all(each.poll() is None for each in waiting)


@pytest.mark.needs("cgroup-pids")
def test_command_without_a_process_is_refused_at_once():
    with Sandbox.create(timeout=60, processes=2) as sandbox:
        running = [sandbox.start_command(["sleep", "60"]) for _ in range(2)]
        begin = time.monotonic()
        refused = sandbox.run_command(["true"])
        assert time.monotonic() - begin < 5
        assert "raise the limit on processes" in refused.error.message
        running[0].kill()
        sandbox.run_command(["true"]).check()


def screen(terminal, until, seconds=10):
    seen = b""
    while until not in seen:
        seen += terminal.read(timeout=seconds)
    return seen


def test_terminal_is_one_and_has_a_size(sandbox):
    code = "import os, sys; print(*(os.isatty(n) for n in (0, 1, 2)), os.get_terminal_size(), os.ttyname(0))"
    with sandbox.terminal(["python3", "-c", code], rows=30, columns=90) as terminal:
        seen = screen(terminal, b"/dev/pts/")
    assert b"True True True os.terminal_size(columns=90, lines=30) /dev/pts/" in seen


def test_shell_at_a_terminal_has_job_control(sandbox):
    with sandbox.terminal(["bash", "--norc", "-i"]) as terminal:
        terminal.write(b"echo $((40 + 2)); cat\n")
        screen(terminal, b"42")
        terminal.write(b"here\n")
        screen(terminal, b"here\r\nhere")  # the terminal's echo, and cat's
        terminal.write(b"\x03")
        screen(terminal, b"$ ")  # bash discards what is typed earlier
        terminal.write(b"echo after=$?\n")
        # At a prompt, readline no longer writes back the size that it has read (set_winsize in its rltty.c).
        assert b"after=130" in screen(terminal, b"$ ")
        terminal.resize(11, 22)
        terminal.write(b"stty size\n")
        screen(terminal, b"11 22")
        terminal.write(b"exit 5\n")
        assert terminal.wait(10).exit_code == 5


def test_resize_arrives_before_later_input(sandbox):
    answer = "import os, sys; [print('rows', os.get_terminal_size().lines, 'end', flush=True) for _ in sys.stdin]"
    with sandbox.terminal(["python3", "-c", answer]) as terminal:
        for rows in range(100, 300):
            terminal.resize(rows, 80)
            terminal.write(b"\n")
            assert b"rows %d end" % rows in screen(terminal, b"end")


def test_terminals_end_hangs_up(sandbox):
    terminal = sandbox.terminal(
        ["sh", "-c", "trap 'echo hung > /tmp/up; exit' HUP; echo ready; while :; do sleep 0.05; done"]
    )
    screen(terminal, b"ready")
    terminal.close()
    assert terminal.returncode is not None
    assert shell(sandbox, "cat /tmp/up").stdout == "hung\n"


# -- ends ------------------------------------------------------------------------------------------------------


def test_ended_commands_hold_no_connection(sandbox):
    before = len(host.descriptors(os.getpid()))
    for _ in range(30):
        sandbox.start_command(["true"])
        shell(sandbox, "true")
    assert len(host.descriptors(os.getpid())) < before + 15


def test_close_after_an_interrupted_call_ends_commands():
    sandbox = Sandbox.create()
    process = sandbox.start_command(["sleep", MARK])
    sandbox._events.close()  # as Ctrl-C in ``usage`` does
    sandbox.close()
    assert process.returncode is not None


def test_dead_init_ends_sandbox_and_calls_with_words(sandbox):
    process = sandbox.start_command(["sleep", MARK])
    os.kill(_init_of(MARK), signal.SIGKILL)
    result = process.wait(10)
    assert result.outcome is Outcome.SANDBOX_FAILED
    assert "the sandbox has ended: the sandbox's init" in result.error.message
    assert process.returncode == -signal.SIGKILL  # not 0, which means success
    with pytest.raises(SandboxClosed, match="killed from outside"):
        sandbox.start_command(["true"])
    with pytest.raises(SandboxClosed, match="killed from outside"):
        shell(sandbox, "true")


def test_dead_warden_ends_sandbox_with_words(sandbox):
    process = sandbox.start_command(["sleep", "60"])
    os.kill(warden_process.current().pid, signal.SIGKILL)
    assert "was killed by signal 9" in process.wait(10).error.message
    with pytest.raises(SandboxClosed):
        shell(sandbox, "true")
    with Sandbox.create() as other:  # its warden removes the groups of the dead one
        shell(other, "true").check()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_dead_caller_leaves_nothing(number):
    script = (
        "import stockade, sys\n"
        "sandbox = stockade.Sandbox.create()\n"
        f"sandbox.start_command(['sleep', '{MARK}'])\n"
        f"sandbox.run_command(['sh', '-c', 'setsid sleep {MARK} &'])\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    caller = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert caller.stdout.readline() == "ready\n"
    host.eventually(lambda: len(_pids_of(MARK)) == 2, 5)
    caller.send_signal(number)
    caller.communicate()
    host.eventually(lambda: not _pids_of(MARK), 5)
    assert not _pids_of(MARK)


def _pids_of(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", word.encode()]:
                found.append(int(entry.name))
    return found


def _init_of(word: str) -> int:
    """Return the host's pid of the init of the sandbox in which the first process is ``sleep WORD``."""
    host.eventually(lambda: bool(_pids_of(word)), 5)
    return int(Path(f"/proc/{_pids_of(word)[0]}/stat").read_text().rpartition(") ")[2].split()[1])


def test_run_after_an_exec_gets_its_own_launch():
    """A connection that served a run, then an exec, and then a run: the warden takes no field of the exec for the run."""
    box = stockade.Runner(backend="native")
    runs = [threading.Thread(target=box.run_command, args=(["sleep", "0.2"],)) for _ in range(3)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    with Sandbox.create() as sandbox:
        shell(sandbox, "true").check()
    for _ in range(3):
        result = box.run_command(["sleep", "0.2"])
        assert result.ok, result.explain()
