"""A fork of an interpreter has its state, and from then on nothing of one reaches the other."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from stockade import CellOutcome, CellResult, Interpreter, JobError, Sandbox, SessionEnded, SetupError
from stockade.api.sessions import channels, session

pytestmark = pytest.mark.timing  # a cell past its time has five seconds to end

SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(60)"

FORGE = "import gc\ncells = next(each for each in gc.get_objects() if type(each).__name__ == 'Cells')\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.create(memory="1GiB", processes=64, packages=sys.prefix) as made:
        yield made


@pytest.fixture
def py(sandbox: Sandbox) -> Iterator[Interpreter]:
    with sandbox.interpreter("python") as made:
        yield made


def value(py: Interpreter, source: str) -> str | None:
    cell = py.run(source)
    assert cell.error is None, cell.error
    return cell.value_repr


def test_fork_has_the_state_and_then_goes_its_own_way(py: Interpreter) -> None:
    py.run("import os\nhistory = ['both']\ndef last(): return history[-1]")
    with py.fork() as fork, fork.fork() as second:
        assert fork.run("history.append('fork')\nlast()").execution_count == 2
        assert second.run("history.append('second')\nprint('out', flush=True)\nlast()").stdout == "out\n"
        assert [value(each, "history") for each in (py, fork, second)] == [
            "['both']",
            "['both', 'fork']",
            "['both', 'second']",
        ]
        assert len({value(each, "os.getpid(), os.getsid(0)") for each in (py, fork, second)}) == 3
        shown = fork.run("open('shared', 'w').write('x')\ndisplay(1)\nlast.missing")
        assert (len(shown.displays), shown.error and shown.error.type) == (1, "AttributeError")
        assert value(py, "open('shared').read()") == "'x'"


def test_fork_has_randomness_of_its_own(py: Interpreter) -> None:
    py.run("import random, uuid, tempfile, numpy.random\nrandom.seed(7)\nnumpy.random.seed(7)", timeout=30)
    draws = ("random.random()", "numpy.random.random()", "uuid.uuid4()", "next(tempfile._get_candidate_names())")
    py.run("tempfile.mktemp()")
    with py.fork() as fork:
        for draw in draws:
            assert value(fork, draw) != value(py, draw)
    assert value(py, "random.seed(7)\nrandom.random()") == "0.32383276483316237"  # that of the interpreter stays


def test_fork_after_an_await_has_a_loop_of_its_own(py: Interpreter) -> None:
    py.run("import asyncio\nasync def current(): return asyncio.get_running_loop()\nbefore = await current()")
    with py.fork() as fork:
        assert value(fork, "(await current()) is before, before.is_closed()") == "(False, False)"
        assert value(fork, "await asyncio.sleep(0.01, 'again')") == "'again'"
        assert value(py, "(await current()) is before, await asyncio.sleep(0.01, 'too')") == "(True, 'too')"


def test_fork_calls_the_functions_of_the_caller(sandbox: Sandbox) -> None:
    calls: list[str] = []
    with sandbox.interpreter(functions={"note": lambda who: calls.append(who) or len(calls)}) as py:
        assert value(py, "note('py')") == "1"
        with py.fork() as fork:
            assert (value(fork, "note('fork')"), value(py, "note('py')"), value(fork, "note('fork')")) == (
                "2",
                "3",
                "4",
            )
    assert calls == ["py", "fork", "py", "fork"]


def test_either_closes_without_the_other(sandbox: Sandbox) -> None:
    leave = "import subprocess, sys\nleft = subprocess.Popen(['sleep', '8639{}'], start_new_session={})"
    count = "found = !pgrep -f 'sleep 8639[{}]'\nlen(found)"
    py = sandbox.interpreter()
    py.run(leave.format(1, False))
    fork = py.fork()
    fork.run(leave.format(2, True))
    other = py.fork()
    fork.close()
    assert not fork.alive
    with pytest.raises(SessionEnded, match="the caller closed it"):
        fork.run("1")
    assert value(py, "left.poll()") is None
    assert value(other, count.format(2)) == "0"
    py.close()
    assert value(other, count.format(1)) == "0"
    other.close()
    other.close()


def test_cells_of_a_fork_run_beside_those_of_its_origin(py: Interpreter) -> None:
    wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('waited')\ndisplay('shown')"
    with py.fork() as fork:
        cells: list[object] = []
        thread = threading.Thread(target=lambda: cells.append(py.run(wait, timeout=30)))
        thread.start()
        flood = fork.run("print('y' * 100_000)\nopen('go', 'w').close()")
        thread.join()
        (cell,) = cells
        assert (cell.stdout, len(cell.displays), len(flood.stdout)) == ("waited\n", 1, 65536)  # type: ignore[attr-defined]
        interrupted = fork.run(SLEEP, on_event=lambda _: fork.interrupt() or None)
        assert interrupted.outcome is CellOutcome.INTERRUPTED
        late = fork.run("while True: pass", timeout=0.3)
        assert (late.outcome, late.ended, value(py, "1")) == (CellOutcome.TIMED_OUT, "", "1")


def test_cell_that_ends_its_interpreter_leaves_the_forks(py: Interpreter) -> None:
    py.run("x = 1")
    with py.fork() as fork, py.fork() as other:
        gone = fork.run("import os\nos._exit(3)")
        assert (gone.outcome, gone.ended) == (CellOutcome.DIED, "it exited with status 3")
        assert py.run("import os\nos.kill(os.getpid(), 11)").ended == "SIGSEGV ended it"
        assert value(other, "x") == "1"
        fork.restart()
        assert value(fork, "'x' in globals()") == "False"
        with pytest.raises(SessionEnded, match="SIGSEGV ended it"):
            py.fork()
        py.restart()
        with py.fork() as again:
            assert value(again, "2") == "2"
        assert value(other, "x") == "1"


def test_fork_is_refused_with_the_reason(py: Interpreter, sandbox: Sandbox) -> None:
    def refused(_event: object) -> None:
        with pytest.raises(JobError, match="a cell runs in the interpreter"):
            py.fork()
        py.interrupt()

    assert py.run(SLEEP, on_event=refused).outcome is CellOutcome.INTERRUPTED
    py.run(
        "import threading\nstop = threading.Event()\nwaits = threading.Thread(target=stop.wait, name='waits')\nwaits.start()"
    )
    with pytest.raises(JobError, match="would lose other threads, which run in the interpreter: waits"):
        py.fork()
    begin = "import asyncio\nasync def begin(): return asyncio.ensure_future(asyncio.sleep(60))\n"
    py.run(f"stop.set()\nwaits.join()\n{begin}task = await begin()\ntask.set_name('slow')")
    with pytest.raises(JobError, match="would lose tasks of asyncio, which wait in the interpreter: slow"):
        py.fork()
    py.run("task.cancel()\nawait asyncio.sleep(0)")
    with py.fork() as fork:
        assert value(fork, "6 * 7") == "42"
    with sandbox.interpreter("ruby") as ruby, pytest.raises(JobError, match="only an interpreter of Python can fork"):
        ruby.fork()


def test_forks_count_as_processes_of_the_sandbox() -> None:
    with Sandbox.create(processes=8) as sandbox, sandbox.interpreter() as py:
        forks = []
        with pytest.raises(JobError, match="the sandbox refused it: Resource temporarily unavailable"):
            for _ in range(8):
                forks.append(py.fork())
        assert 3 <= len(forks) <= 6
        assert [value(each, "1") for each in (py, *forks)] == ["1"] * (1 + len(forks))
    with pytest.raises(SessionEnded):
        forks[0].run("1")


def test_forks_share_the_cpu_time_of_their_origin() -> None:
    with Sandbox.create(cpu_time=1) as sandbox, sandbox.interpreter() as py, py.fork() as fork:
        gone = fork.run("while True: pass")
        assert gone.outcome is CellOutcome.DIED and "cpu_time" in gone.ended
        with pytest.raises(SessionEnded, match="cpu_time"):
            py.run("1")


def test_fork_without_descriptors_is_refused(py: Interpreter) -> None:
    with py.fork():
        py.run(
            "import array, socket\n"
            "one, two = socket.socketpair()\n"
            "fill = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 250))]\n"
            "try:\n"
            "    for _ in range(100): one.sendmsg([b'x'], fill, socket.MSG_DONTWAIT)\n"
            "except OSError: pass"
        )
        with pytest.raises(JobError, match="the sandbox refused it: Too many open files"):
            py.fork()  # too many descriptors are under way
        py.run("one.close(), two.close()")
        py.fork().close()


def test_interpreter_that_cannot_start_again_leaves_its_forks() -> None:
    take = (
        "import threading\n"
        "print('begun')\n"
        "while True:\n"
        "    try: threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "    except RuntimeError: pass"
    )
    with Sandbox.create(processes=16) as sandbox, sandbox.interpreter() as py, py.fork() as fork:
        begun = threading.Event()
        cells: list[CellResult] = []
        thread = threading.Thread(target=lambda: cells.append(fork.run(take, on_event=lambda _: begun.set())))
        thread.start()
        assert begun.wait(30)
        time.sleep(0.2)
        with suppress(SetupError):  # the other takes the process that became free, unless the agent was faster
            py.restart()
        fork.interrupt()
        thread.join()
        assert (cells[0].outcome, cells[0].ended) == (CellOutcome.INTERRUPTED, "")


def test_copy_that_does_not_start_leaves_its_origin(py: Interpreter) -> None:
    py.run(FORGE + "import os, time\ncells.greet = lambda: time.sleep(0.3) or os._exit(3)")
    with pytest.raises(
        (SetupError, JobError), match=r"the copy (of the interpreter does not start: it exited|has ended)"
    ):
        py.fork()
    assert value(py, "2") == "2"


def test_interrupted_fork_leaves_no_process(py: Interpreter) -> None:
    count = "import os\nsum(name.isdigit() for name in os.listdir('/proc'))"
    with py.fork() as other:
        before = value(other, count)
        py.run("import os, time\nos.register_at_fork(before=lambda: time.sleep(60))")
        threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            py.fork()
        with pytest.raises(SessionEnded, match="the caller stopped waiting for its copy"):
            py.run("1")
        assert value(other, f"{count} - {before}") == "-1"


def test_fork_that_ends_the_agent_ends_all_and_says_so(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_INTERRUPT_SECONDS", 1.0)
    monkeypatch.setattr(session, "_KILL_SECONDS", 1.0)
    monkeypatch.setattr(channels, "_CLOSE_SECONDS", 1.0)
    py = sandbox.interpreter()
    fork = py.fork()
    stopped = fork.run("import os, time\nos.kill(os.getppid(), 19)\ntime.sleep(60)", timeout=0.2)
    assert (stopped.outcome, stopped.ended) == (CellOutcome.TIMED_OUT, "its agent does not answer")
    with pytest.raises(SessionEnded, match="its agent has ended"):
        py.run("1")
    py.restart()
    assert value(py, "1") == "1"
    py.close()


def test_forged_answer_to_a_fork_gives_no_interpreter(py: Interpreter) -> None:
    """A cell that replaces the fork names other processes to the agent as its copy."""
    for answer in (b"1", b"0", b"99999999999999999999", b"", b"\xff"):
        py.run(
            FORGE
            + f"cells.write = lambda kind, data, **_: type(cells).write(cells, kind, {answer!r} if kind == b'f' else data)"
        )
        begin = time.monotonic()
        with pytest.raises(JobError, match=r"fork\(\): "):
            py.fork()
        assert time.monotonic() - begin < 25  # it does not wait for the end of its time
        assert value(py, "2") == "2"
