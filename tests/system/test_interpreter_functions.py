"""Cells call functions of the caller: only those, with plain data only, and whatever the guest writes to the agent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from stockade import CellOutcome, CellOutput, Interpreter, JobError, Sandbox
from stockade.embedded import HostError

TOLD: list[Any] = []


def add(left: int, right: int = 1) -> int:
    TOLD.append((left, right))
    return left + right


def wait(seconds: float) -> str:
    time.sleep(seconds)
    return "late" * 100_000  # more than a pipe holds


def fail(openly: bool) -> None:
    if openly:
        raise HostError("the table has no row 7")
    raise ValueError("password=hunter2")


def strange(what: str) -> Any:
    return {"set": {1}, "page": "x" * (4 << 20), "large": "x" * (9 << 20)}[what]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.create(memory="512MiB", processes=32, timeout=60) as made:
        yield made


@pytest.fixture
def py(sandbox: Sandbox) -> Iterator[Interpreter]:
    TOLD.clear()
    with sandbox.interpreter(functions={"add": add, "wait": wait, "fail": fail, "strange": strange}) as made:
        yield made


def test_cells_call_functions_of_the_caller(py: Interpreter) -> None:
    assert py.run("x = add(40, right=2); x").value_repr == "42"
    assert py.run("from concurrent.futures import ThreadPoolExecutor as T\nsum(T(4).map(add, range(20)))").ok
    assert TOLD[0] == (40, 2) and sorted(TOLD[1:]) == [(each, 1) for each in range(20)]
    py.restart()
    assert py.run("add(1)").value_repr == "2"


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("fail(True)", "the table has no row 7"),
        ("fail(False)", "fail() failed outside of the sandbox"),
        ("add()", "add(): missing a required argument: 'left'"),
        ("add({1})", "add() takes plain data: Object of type set is not JSON serializable"),
        ("add('x' * (10 << 20))", "add() is passed 10485816 bytes, and 8388608 is the most"),
        ("strange('set')", "strange() = {1} is not plain data"),
        ("strange('large')", "strange() returns 9437186 bytes, and 8388608 is the most"),
        ("for each in range(2000): add(each)", "add(): a cell makes at most 1000 calls"),
        (
            "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse:\n    add(7)",
            "add(): only the interpreter's own",
        ),
    ],
)
def test_call_that_cannot_be_made_is_an_error_of_the_cell(py: Interpreter, source: str, error: str) -> None:
    cell = py.run(source)
    assert cell.error is not None and cell.error.message.startswith(error)
    assert "hunter2" not in str(cell) and TOLD in ([], [(each, 1) for each in range(1000)])
    assert py.run("add(1)").value_repr == "2"


@pytest.mark.parametrize("then", ["x = add(2)", "import time; time.sleep(2); x = 3"])
def test_answer_to_an_interrupted_call_is_no_answer_to_the_next(py: Interpreter, then: str) -> None:
    begun = threading.Event()
    threading.Thread(target=lambda: begun.wait(30) and py.interrupt()).start()
    source = f"try:\n print('begun', flush=True)\n wait(1)\nexcept KeyboardInterrupt: {then}\nx"
    assert py.run(source, on_event=lambda _: begun.set()).value_repr == "3"
    assert py.run("add(3)").value_repr == "4"


def test_large_answers_come_while_the_cell_sends_as_much(py: Interpreter) -> None:
    cell = py.run(
        "import threading\n"
        "busy = True\n"
        "def show():\n"
        "    while busy: display('y' * 60_000)\n"
        "thread = threading.Thread(target=show)\n"
        "thread.start()\n"
        "found = {len(strange('page')) for _ in range(5)}\n"
        "busy = False\n"
        "thread.join()\n"
        "found",
        timeout=30,
    )
    assert (cell.value_repr, cell.ended) == ("{4194304}", "")


def test_call_overtakes_no_output_before_it(py: Interpreter) -> None:
    cell = py.run(
        "import threading\n"
        "busy = True\n"
        "def show():\n"
        "    while busy: display('y' * 1000)\n"
        "thread = threading.Thread(target=show)\n"
        "thread.start()\n"
        "for each in range(300): print(each, flush=True) or add(each)\n"
        "busy = False\n"
        "thread.join()",
        on_event=lambda event: TOLD.append(bytes(event.data)) if isinstance(event, CellOutput) else None,
    )
    told = b"".join(each if isinstance(each, bytes) else b"called " for each in TOLD)
    assert cell.ok and told == b"".join(b"%d\ncalled " % each for each in range(300))


def test_cell_whose_function_takes_too_long_has_timed_out(py: Interpreter) -> None:
    assert py.run("wait(1.5)", timeout=0.5).outcome is CellOutcome.TIMED_OUT
    assert py.run("add(2)").value_repr == "3"


RAW = """
import gc
cells, = (each for each in gc.get_objects() if type(each).__name__ == 'Cells')
cells.write(b'c', {})
"""


@pytest.mark.parametrize(
    "payload",
    [
        b"no json",
        b'{"number": 1, "name": "add", "args": [1], "kwargs": []}',
        b'{"number": 1, "name": ["add"], "args": [1], "kwargs": {}}',
        b'{"number": 1, "name": "add", "args": [NaN], "kwargs": {}}',
        b'{"number": 1, "name": "add", "args": [1e999], "kwargs": {}}',
        b'{"number": 1, "name": "add", "args": ' + b"[" * 9000 + b"]" * 9000 + b', "kwargs": {}}',
        b'{"number": 1, "name": "add", "args": [' + b"9" * 5000 + b'], "kwargs": {}}',
    ],
)
def test_forged_call_ends_the_interpreter_and_calls_nothing(py: Interpreter, payload: bytes) -> None:
    fine = b'{"number": 1, "name": "add", "args": [5], "kwargs": {}}'
    py.run(RAW.format(fine))
    assert TOLD == [(5, 1)]  # a forged call is a call like any other
    cell = py.run(RAW.format(payload))
    assert cell.outcome is CellOutcome.DIED and not py.alive and TOLD == [(5, 1)]


@pytest.mark.parametrize("name", ["__class__", "eval", "answer", "_functions"])
def test_only_named_functions_can_be_called(py: Interpreter, name: str) -> None:
    cell = py.run(f"add.__closure__[1].cell_contents.call({name!r}, ['1'], {{}})")
    assert cell.error is not None and cell.error.message == f"no function has the name {name!r}" and not TOLD


def test_functions_are_checked_before_anything_starts(sandbox: Sandbox) -> None:
    async def later() -> None: ...

    for wrong in ({"a b": add}, {"class": add}, {"add": 3}, {"later": later}):
        with pytest.raises(JobError, match="functions"):
            sandbox.interpreter(functions=wrong)  # type: ignore[arg-type]
    with pytest.raises(JobError, match="only cells of Python"):
        sandbox.interpreter("ruby", functions={"add": add})


def test_function_cannot_wait_for_the_cell_that_calls_it(sandbox: Sandbox) -> None:
    def again(action: str) -> None:
        try:
            {"run": lambda: py.run("1"), "restart": py.restart}[action]()
        except JobError as error:
            raise HostError(str(error)) from None

    with sandbox.interpreter(functions={"again": again}) as py:
        for action, words in (("run", "run another cell of"), ("restart", "restart")):
            cell = py.run(f"again({action!r})")
            assert cell.error is not None and f"cannot {words} its own interpreter" in cell.error.message
