"""The weave is assumed to be broken: the worker runs raw Python. The kernel and the caller still hold.

Each attack on the host succeeds first where no sandbox is, as the control. Each attack on the caller is bytes that
a worker can write once a script has escaped from the weave.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stockade.embedded import Caps, ResourceExhausted, Runtime, RuntimeDead, WorkerCrashed
from stockade.embedded.worker import process
from stockade.embedded.worker.modules import modules_message

pytestmark = pytest.mark.needs("native")
RAW_AGENT = """
from stockade.embedded.worker.codec import decode, encode
def serve(send, receive):
    receive()
    send(b"r", b"")
    while True:
        kind, payload = receive()
        space = {"send": send, "receive": receive, "encode": encode, "decode": decode}
        exec(decode(payload)[1][0], space)
        send(b"v", encode(((0, 0, "", 0), (space.get("result"),))))
"""
HONEST = "result = 6 * 7"


@pytest.fixture
def escaped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Runtime]]:
    """Make runtimes whose worker runs the source as it is: no weave, no meter, no guards."""
    known = json.loads(modules_message(compiled=False))
    known["stockade.embedded.worker.agent"] = (False, False, RAW_AGENT)
    monkeypatch.setattr(process, "modules_message", lambda *, compiled: json.dumps(known).encode())
    made: list[Runtime] = []

    def make(**caps: Any) -> Runtime:
        made.append(Runtime(Caps(**{"deadline": 60.0, "fuel": 1000} | caps)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def outside(source: str) -> Any:
    """The control: what the source does in an ordinary process."""
    code = f"{source}\nimport json; print(json.dumps(result))"
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(run.stdout)


ATTACKS = """
import os, socket, time
def fork():
    for count in range(8):
        if os.fork() == 0:
            time.sleep(2)
            os._exit(0)
    return count + 1
attacks = {
    "read": lambda: open(SECRET).read(),
    "write": lambda: open(WRITTEN, "w").write("x"),
    "environment": lambda: os.environ["HOST_PASSWORD"],
    "connect": lambda: socket.create_connection(ADDRESS, 5).fileno(),
    "see": lambda: os.stat(f"/proc/{VICTIM}/cmdline").st_mode,
    "kill": lambda: os.kill(VICTIM, 0) is None,
    "fork": fork,
}
result = {}
for name, attack in attacks.items():
    try:
        result[name] = attack()
    except Exception as error:
        result[name] = f"refused: {type(error).__name__}"
"""


def test_raw_python_reaches_nothing_of_the_host(
    escaped: Callable[..., Runtime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, written = tmp_path / "secret", tmp_path / "written"
    secret.write_text("hunter2")
    monkeypatch.setenv("HOST_PASSWORD", "hunter2")
    with subprocess.Popen(["sleep", "600"]) as victim, socket.create_server(("127.0.0.1", 0)) as server:
        given = {"SECRET": str(secret), "WRITTEN": str(written), "ADDRESS": server.getsockname(), "VICTIM": victim.pid}
        source = "".join(f"{name} = {value!r}\n" for name, value in given.items()) + ATTACKS
        try:
            control = outside(source)
            assert not [each for each in control.values() if str(each).startswith("refused")], control
            written.unlink()
            found = escaped().run(source)
        finally:
            victim.kill()
    assert set(found) == set(control)
    assert not [name for name, each in found.items() if not str(each).startswith("refused")], found
    assert not written.exists()


def test_worker_that_ignores_its_deadline_is_killed(escaped: Callable[..., Runtime]) -> None:
    for source in ("while True: pass", "import signal, time\nsignal.pthread_sigmask(0, range(1, 65))\ntime.sleep(600)"):
        rt = escaped(deadline=0.5)
        begun = time.monotonic()
        with pytest.raises(ResourceExhausted) as caught:
            rt.run(source)
        assert (caught.value.cap, caught.value.figure) == ("deadline", 0.5)
        assert time.monotonic() - begun < 30
        with pytest.raises(RuntimeDead):
            rt.run("result = 1")


@pytest.mark.timing
def test_worker_that_ignores_its_deadline_is_killed_soon(escaped: Callable[..., Runtime]) -> None:
    late = []
    for _ in range(3):
        rt = escaped(deadline=1.0)
        rt.run(HONEST)
        begun = time.monotonic()
        with pytest.raises(ResourceExhausted):
            rt.run("while True: pass")
        late.append(time.monotonic() - begun - 1.0)
    assert min(late) < 0.25  # some 30 ms on a quiet machine


def test_worker_that_crashes_is_an_error_that_says_how(escaped: Callable[..., Runtime]) -> None:
    for source, reason in {
        "import ctypes\nctypes.string_at(0)": "SIGSEGV",
        "import os\nos.abort()": "SIGABRT",
        "import os\nos._exit(7)": "7",
        "x = iter([1])\nfor _ in range(300_000): x = map(str, x)\nnext(x)": "SIGSEGV",  # the end of the C stack
        "x = [bytearray(1 << 24) for _ in range(999)]": "memory|exit status 1",  # the second without a control group
        "raise ValueError('x')": "exit status 1",
    }.items():
        rt = escaped()
        with pytest.raises(WorkerCrashed, match=reason):
            rt.run(source)
        assert rt.is_dead


class Trap:
    """The control of a codec that calls nothing: pickle calls what the sender names."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.getenv, ("PATH",)


PICKLED = pickle.dumps(Trap())
VALUE = "send(b'v', encode(((0, 0, '', 0), (%s,))))"
BYTES = {
    "a frame that is too long": "import os\nos.write(1, b'v\\xff\\xff\\xff\\xff')\nreceive()",
    "a kind that does not exist": "send(b'?', encode(((0, 0, '', 0), ())))",
    "an answer without a report": "send(b'v', encode((1,)))",
    "bytes that are no value": "send(b'v', b'\\xff' * 100)",
    "pickled data": f"send(b'v', {PICKLED!r})",
    "a count without elements": "send(b'v', b'l\\xff\\xff\\xff\\xff')",
    "deep nesting": "send(b'v', b'l\\x00\\x00\\x00\\x01' * 100000)",
    "keys that collide": "send(b'v', encode(((0, 0, '', 0), ({i * (2**61 - 1) for i in range(1, 100)},))))",
    "more fuel than the cap": "send(b'v', encode(((1001, 0, '', 0), (1,))))",
    "less fuel than before": "send(b'v', encode(((-1, 0, '', 0), (1,))))",
    "a report of other types": "send(b'v', encode((('0', 0, '', 0), (1,))))",
    "a cap that is not set": "send(b'x', encode(((0, 0, '', 0), ('heap_objects', 5, 1))))",
    "a cap that does not exist": "send(b'x', encode(((0, 0, '', 0), ('money', 5, 1))))",
    "a call of no host function": "send(b'c', encode(('__class__', [], {})))",
    "a call with wrong keywords": "send(b'c', encode(('spy', [], {1: 2})))",
    "calls that the fuel cannot pay": "while True:\n  send(b'c', encode(('spy', [], {})))\n  receive()",
}


@pytest.mark.parametrize("source", BYTES.values(), ids=BYTES)
def test_hostile_bytes_of_a_worker_end_it(source: str, escaped: Callable[..., Runtime]) -> None:
    rt = escaped()
    calls: list[int] = []
    rt.register("spy", lambda: calls.append(1))
    assert rt.run(HONEST) == 42
    with pytest.raises(WorkerCrashed, match="broke the protocol"):
        rt.run(source)
    assert rt.is_dead
    assert len(calls) <= 50
    assert pickle.loads(PICKLED) == os.environ["PATH"]


def test_numbers_of_a_worker_cannot_break_an_error_message(escaped: Callable[..., Runtime]) -> None:
    rt = escaped()
    with pytest.raises(ResourceExhausted) as caught:
        rt.run("send(b'x', encode(((0, 0, '', 0), ('fuel', 1000, 1 << 100000))))")
    assert (caught.value.line, rt.is_dead) == (0, True)


def test_host_functions_are_not_called_past_the_deadline(escaped: Callable[..., Runtime]) -> None:
    calls: list[float] = []
    rt = escaped(deadline=2.0, fuel=10**9)
    rt.register("spy", lambda: calls.append(time.monotonic()))
    begun = time.monotonic()
    with pytest.raises(ResourceExhausted, match="deadline"):
        rt.run("while True:\n  send(b'c', encode(('spy', [], {})))\n  receive()")
    assert calls
    assert calls[-1] - begun < 30


def test_worker_that_reads_no_answers_is_killed_at_the_deadline(escaped: Callable[..., Runtime]) -> None:
    rt = escaped(deadline=0.5, fuel=10**9)
    rt.register("spy", lambda: b"x" * (1 << 20))
    begun = time.monotonic()
    with pytest.raises(ResourceExhausted, match="deadline"):
        rt.run("while True: send(b'c', encode(('spy', [], {})))")
    assert time.monotonic() - begun < 20
