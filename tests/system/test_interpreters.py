"""An interpreter in a living sandbox keeps its state over cells, whatever a cell does, and bounds what comes back."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from stockade import (
    CellLimits,
    CellOutcome,
    CellOutput,
    Display,
    Interpreter,
    JobError,
    Sandbox,
    SessionEnded,
    StockadeError,
)
from stockade.api.sessions import session

MIB = 1 << 20
CELLS = int(os.environ.get("STOCKADE_SOAK") or "200") // 2
"""``make soak`` runs 1,000."""


pytestmark = pytest.mark.timing  # a cell past its time has five seconds to end


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.create(memory="1GiB", processes=64, packages=sys.prefix) as made:
        yield made


@pytest.fixture
def py(sandbox: Sandbox) -> Iterator[Interpreter]:
    with sandbox.interpreter("python") as made:
        yield made


def test_interpreter_state_lives_from_cell_to_cell(py: Interpreter) -> None:
    first = py.run("import math\nx = 40\nprint('hello')\nx + 1")
    assert (first.outcome, first.execution_count, first.stdout) == (CellOutcome.COMPLETED, 1, "hello\n")
    assert first.value_repr == "41"
    second = py.run("def f(): return x + 2\nmath.floor(f() + .5)")
    assert (second.execution_count, second.value_repr, py.run("_").value_repr) == (2, "42", "42")
    assert second.usage.wall_seconds > 0


def test_interpreter_error_shows_the_lines_of_its_cells(py: Interpreter) -> None:
    py.run("def broken():\n    return 1 / 0")
    cell = py.run("x = 5\nbroken()")
    assert cell.outcome is CellOutcome.FAILED
    assert cell.error is not None and cell.error.type == "ZeroDivisionError"
    assert 'File "<cell 1>", line 2, in broken\n    return 1 / 0' in cell.error.traceback
    assert 'File "<cell 2>", line 2, in <module>\n    broken()' in cell.error.traceback
    assert "stockade" not in cell.error.traceback
    assert py.run("x").value_repr == "5"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("!echo one two", None),
        ("found = !printf 'a\\nb\\n'\nfound", "['a', 'b']"),
        ("n = 6\nfound = !echo {n * 7} $n\nfound", "['42 6']"),
        ("%env COLOUR=red\nimport os\nos.environ['COLOUR']", "'red'"),
        ("text = '''\n%cd /nowhere\n!false\n'''\nlen(text)", "21"),
        ("%matplotlib inline\n7 % 4", "3"),
        ("await __import__('asyncio').sleep(0, 'slept')", "'slept'"),
        ("5;", None),
        ("'a'\nNone", None),
    ],
)
def test_interpreter_understands_what_notebooks_write(py: Interpreter, source: str, value: str | None) -> None:
    cell = py.run(source)
    assert cell.error is None
    assert cell.value_repr == value


def test_interpreter_refuses_pip_with_the_reason(py: Interpreter) -> None:
    cell = py.run("%pip install pandas")
    assert cell.error is not None
    assert cell.error.type == "UsageError"
    assert "requirements=" in cell.error.message
    told = "Sandbox.create(requirements=["
    assert told in py.run("!python3 -m pip --no-such-option install pandas").stderr  # fails at once
    assert told not in py.run("!ls --no-such-option").stderr


def test_interpreter_shows_rich_forms_and_figures(py: Interpreter) -> None:
    cell = py.run(
        "from IPython.display import HTML, display\n"
        "import pandas as pd\n"
        "display(HTML('<i>text</i>'))\n"
        "df = pd.DataFrame({'a': [1, 2]})\n"
        "df.plot()\n"
        "df.describe()",
        timeout=60,
    )
    assert cell.error is None
    assert [dict(display.data).get("text/html") for display in cell.displays] == ["<i>text</i>", None]
    assert cell.displays[1].data["image/png"].startswith(b"\x89PNG")
    assert cell.displays[1].unsafe_types == ("image/png",)
    assert cell.value is not None and "<table" in cell.value.data["text/html"]
    assert cell.value_repr is not None and "mean" in cell.value_repr


def test_cell_past_its_time_is_interrupted_and_state_stays(py: Interpreter) -> None:
    py.run("x = 1")
    cell = py.run("import time\ntime.sleep(60)", timeout=0.2)
    assert (cell.outcome, cell.ended) == (CellOutcome.TIMED_OUT, "")
    assert cell.error is not None and cell.error.type == "KeyboardInterrupt"
    assert py.run("x").value_repr == "1"


@pytest.mark.usefixtures("impatient")
def test_cell_that_resists_the_interrupt_loses_its_interpreter(py: Interpreter) -> None:
    cell = py.run("import time\nwhile True:\n    try: time.sleep(9)\n    except KeyboardInterrupt: pass", timeout=0.2)
    assert (cell.outcome, cell.ended) == (CellOutcome.TIMED_OUT, "SIGKILL ended it")
    assert not py.alive
    with pytest.raises(SessionEnded, match=r"SIGKILL ended it; call restart\(\)"):
        py.run("1")
    py.restart()
    assert (py.run("1 + 1").value_repr, py.run("'x' in globals()").value_repr) == ("2", "False")


def test_interpreter_interrupt_ends_one_cell(py: Interpreter) -> None:
    assert not py.interrupt()
    timer = threading.Timer(0.3, py.interrupt)
    timer.start()
    cell = py.run("x = 3\n!sleep 60")
    timer.join()
    assert cell.outcome is CellOutcome.INTERRUPTED
    assert py.run("x").value_repr == "3"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os\nprint('last', flush=True)\nos._exit(3)", "it exited with status 3"),
        ("import os\nprint('last', flush=True)\nos.kill(os.getpid(), 11)", "SIGSEGV ended it"),
        ("import os\nos.kill(os.getppid(), 9)", "its agent has ended: crashed by SIGKILL"),
    ],
)
def test_cell_that_ends_its_interpreter_says_so(sandbox: Sandbox, source: str, reason: str) -> None:
    with sandbox.interpreter("python") as py:
        cell = py.run(source)
        assert (cell.outcome, cell.ended) == (CellOutcome.DIED, reason)
        assert cell.stdout == ("last\n" if "last" in source else "")
        py.restart()
        assert py.run("1").value_repr == "1"


@pytest.mark.needs("root")  # without a control group, the end of its memory may end the whole sandbox
def test_cell_over_the_memory_limit_ends_its_interpreter() -> None:
    with Sandbox.create(memory="128MiB") as sandbox, sandbox.interpreter() as py:
        cell = py.run("hoard = [bytearray(1 << 20) for _ in range(1000)]")
        assert cell.outcome is CellOutcome.DIED
        assert "memory" in cell.ended or "SIGKILL" in cell.ended
        py.restart()
        assert py.run("6 * 7").value_repr == "42"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a cell that resists cost the tests less time."""
    monkeypatch.setattr(session, "_INTERRUPT_SECONDS", 1.0)
    monkeypatch.setattr(session, "_KILL_SECONDS", 1.0)


@pytest.mark.usefixtures("impatient")
def test_cell_that_stops_its_agent_is_killed_with_it(sandbox: Sandbox) -> None:
    with sandbox.interpreter() as py:
        cell = py.run("import os, time\nos.kill(os.getppid(), 19)\ntime.sleep(60)", timeout=0.2)
        assert (cell.outcome, cell.ended) == (CellOutcome.TIMED_OUT, "its agent does not answer")
        py.restart()
        assert py.run("6 * 7").value_repr == "42"


def test_cell_that_forks_ends_once(py: Interpreter) -> None:
    cell = py.run("import os\npid = os.fork()\nprint('in both')\nif pid: os.waitpid(pid, 0)")
    assert cell.stdout == "in both\n" * 2
    assert py.run("1").value_repr == "1"


FORGERY = """
import os, threading, time
def forge():
    time.sleep(0.3)
    for fd in map(int, os.listdir('/proc/self/fd')):
        try:
            os.write(fd, b'.' + (4).to_bytes(4, 'big') + b'done')
        except OSError:
            pass
threading.Thread(target=forge).start()
"""


def test_cell_that_forges_the_end_of_a_later_one_is_caught(py: Interpreter) -> None:
    py.run(FORGERY)
    cell = py.run("import time\ntime.sleep(5)")
    assert (cell.outcome, cell.ended) == (CellOutcome.DIED, "it wrote a forged end of its cell")


def test_agent_memory_and_descriptors_are_closed_to_cells(py: Interpreter) -> None:
    cell = py.run("import os\nfor name in ('fd/1', 'mem', 'environ'): open(f'/proc/{os.getppid()}/{name}', 'rb')")
    assert cell.error is not None
    assert cell.error.type == "PermissionError"
    listing = py.run("import os\nos.listdir(f'/proc/{os.getppid()}/fd')")
    assert listing.error is not None and listing.error.type == "PermissionError"


def test_cell_output_and_displays_over_their_limits_are_left_out(sandbox: Sandbox) -> None:
    limits = CellLimits(output=1000, displays=2, display_bytes=10_000)
    with sandbox.interpreter("python", limits=limits) as py:
        cell = py.run("print('x' * 5000)\nfor n in range(5): display(n)\nimport sys\nprint('e', file=sys.stderr)")
        assert (len(cell.stdout), cell.stderr, len(cell.displays)) == (1000, "e\n", 2)
        assert dict(cell.omitted) == {"stdout": 4001, "displays": 3}
        large = py.run("class Large:\n    def _repr_html_(self): return 'x' * 100_000\ndisplay(Large())")
        assert [sorted(display.data) for display in large.displays] == [["text/plain"]]
        assert py.run("'y' * 200_000").value_repr is not None


def test_cell_with_endless_output_is_cut_at_the_policy_limit(py: Interpreter) -> None:
    cell = py.run("!yes", timeout=0.5)
    assert cell.outcome is CellOutcome.TIMED_OUT
    assert len(cell.stdout) == 64 * 1024
    assert cell.omitted["stdout"] > MIB
    assert py.run("1").value_repr == "1"


def test_interpreter_kills_what_cells_left_at_restart(sandbox: Sandbox) -> None:
    with sandbox.interpreter("python") as py:
        py.run("import subprocess\np = subprocess.Popen(['sleep', '86395.5'], start_new_session=True)")
        py.restart()
        listing = py.run("found = !pgrep -f 'sleep 8639[5]'\nlen(found)")
        assert listing.value_repr == "0"


def test_interpreter_refuses_invalid_arguments(py: Interpreter) -> None:
    for source, timeout in (("a\0b", 1.0), ("1", 0.0), ("1", float("nan"))):
        with pytest.raises(JobError):
            py.run(source, timeout=timeout)
    with pytest.raises(JobError, match="no interpreter that keeps state"):
        Interpreter(lambda: None, "cobol")  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("language", "cells", "value", "error"),
    [
        ("ruby", ["x = 40", "def f(n) = n + 2", "puts 'hello'; f(x)"], "42", ("1 / 0", "ZeroDivisionError")),
        (
            "javascript",
            ["const x = 40; function f(n) { return n + 2 }", "console.log('hello'); f(x)"],
            "42",
            ("null.x", "TypeError"),
        ),
    ],
)
def test_other_languages_keep_state_too(
    sandbox: Sandbox, language: str, cells: list[str], value: str, error: tuple[str, str]
) -> None:
    with sandbox.interpreter(language) as other:
        last = [other.run(source) for source in cells][-1]
        assert (last.stdout, last.value_repr) == ("hello\n", value)
        failed = other.run(error[0])
        assert failed.error is not None and failed.error.type == error[1]
        endless = other.run("while (true) {}" if language == "javascript" else "loop {}", timeout=0.3)
        assert (endless.outcome, endless.ended) == (CellOutcome.TIMED_OUT, "")
        assert other.run("x").value_repr == "40"


def test_interpreter_memory_stays_flat_over_many_cells(py: Interpreter) -> None:
    kinds = (
        ("n += 1\nn", 10.0),
        ("1 / 0", 10.0),
        ("print('x' * (1 << 20))", 10.0),
        ("while True: pass", 0.02),
        ("display(n)", 10.0),
    )
    py.run("n = 0")
    memory: list[int] = []
    for number in range(CELLS):
        # a cell past its time costs 20 ms, so one in ten is such a cell
        source, timeout = kinds[3] if number % 10 == 3 else kinds[(number % 10) % 3]
        cell = py.run(source, timeout=timeout)
        assert cell.ended == ""
        assert py.run("n").value_repr is not None
        memory.append(cell.usage.memory or 0)
    begin = len(memory) // 10
    grown = (memory[-1] - memory[begin]) / (len(memory) - begin)
    assert grown < 1024, f"{grown:.0f} bytes a cell"


def test_interpreter_closed_while_a_cell_runs_ends_the_cell(sandbox: Sandbox) -> None:
    py = sandbox.interpreter("python")
    timer = threading.Timer(0.3, py.close)
    timer.start()
    begin = time.monotonic()
    cell = py.run("import time\ntime.sleep(30)")
    timer.join()
    assert cell.outcome is CellOutcome.DIED
    assert time.monotonic() - begin < 10


def test_displays_and_output_come_in_the_order_of_the_cell(py: Interpreter) -> None:
    events: list[CellOutput | Display] = []
    cell = py.run(
        "import sys\n"
        "for n in range(40):\n"
        "    print('print', n)\n"
        "    if n % 20 == 0: get_ipython().system(f'echo command {n}')\n"
        "    display(n)\n"
        "    print('error', n, file=sys.stderr)\n"
        "    display('second')",
        on_event=events.append,
    )
    assert cell.error is None
    told = [f"|{event.data['text/plain']}|" if isinstance(event, Display) else event.data.decode() for event in events]
    command = {0: "command 0\n", 20: "command 20\n"}
    expected = [f"print {n}\n{command.get(n, '')}|{n}|error {n}\n|'second'|" for n in range(40)]
    assert "".join(told) == "".join(expected)


def test_interpreter_ends_when_a_callback_for_events_raises(py: Interpreter) -> None:
    events: list[object] = []
    py.run("print('one')\ndisplay(2)", on_event=events.append)
    assert [type(event).__name__ for event in events] == ["CellOutput", "Display"]

    def fail(_event: object) -> None:
        raise BrokenPipeError("the caller's own")

    with pytest.raises(BrokenPipeError, match="the caller's own"):
        py.run("print(1)", on_event=fail)
    with pytest.raises(SessionEnded, match="the caller stopped waiting"):
        py.run("1")


def test_interpreter_of_a_closed_sandbox_is_gone() -> None:
    with Sandbox.create() as made:
        py = made.interpreter()
    with pytest.raises(SessionEnded, match="its agent has ended"):
        py.run("1")
    with pytest.raises(StockadeError, match="closed"):
        py.restart()
    py.close()
