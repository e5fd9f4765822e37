"""The completion marker of a warm guest: it decides the exit status, and it ends every process of the run."""

from __future__ import annotations

import os
import time

import pytest

import stockade
from stockade import Guarantee, Outcome, Policy
from tests.support import host

pytestmark = pytest.mark.needs("native")

_SAY = """import ctypes, os
def call(name): ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
def say(status):
    call(b'done')
    os.write(3, b'\\0stockade\\0' + bytes((status,)))
"""
_CHILD = "if os.fork() == 0:\n    "
_STAY = "while True: pass"


@pytest.fixture(scope="module")
def box() -> stockade.Runner:
    return stockade.Runner(backend="native", warm=True)


def run(box: stockade.Runner, code: str, **options) -> stockade.Result:
    """Run ``code``, and check that no process of it lives and that other runs still work."""
    marker = os.urandom(6).hex()
    result = box.run(f"{_SAY}call(b'{marker}')\n{code}", **options)
    # The guest that wrote the marker can still be dying.
    assert not [pid for pid in host.descendants() if host.name(pid) == marker]
    assert [box.run("40 + 2").value for _ in range(3)] == [42] * 3
    return result


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_first_marker_decides_the_status(box: stockade.Runner, status: int) -> None:
    result = run(box, f"say({status}); say(99)\n{_STAY}")
    assert (result.exit_code, result.outcome) == (status, Outcome.FAILED if status else Outcome.COMPLETED)
    assert result.usage.wall_seconds < 2


CHILDREN = {
    "child": f"{_CHILD}{_STAY}\nsay(0)",
    "many": f"for _ in range(8):\n    {_CHILD}    {_STAY}\nsay(0)",
    "of another session": f"{_CHILD}os.setsid()\n    if os.fork() == 0:\n        {_STAY}\n    os._exit(0)\nos.wait(); say(0)",
    "stopped": f"import signal\n{_CHILD}os.kill(os.getpid(), signal.SIGSTOP)\nsay(0)",
    "deaf": f"import signal\nfor n in range(1, 64):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n{_CHILD}{_STAY}\nsay(0)",
    "thread": f"import threading\ndef go():\n    {_STAY}\nthreading.Thread(target=go).start()\nsay(0)",
    "said by the child": f"{_CHILD}say(0)\n    {_STAY}\nos.wait()",
    "said by the orphan": f"{_CHILD}say(0)\n    {_STAY}\nos._exit(5)",
    "forks on and on": f"{_CHILD}\n        while True:\n            try: os.fork()\n            except OSError: pass\nsay(0)\n{_STAY}",
}  # fmt: skip


@pytest.mark.parametrize("code", CHILDREN.values(), ids=CHILDREN)
def test_no_process_outlives_the_marker(box: stockade.Runner, code: str) -> None:
    for _ in range(5):
        result = run(box, code)
        assert result.exit_code in {0, 5}, result.summary()
        assert result.usage.wall_seconds < 5


def test_output_long_after_marker_is_not_seen(box: stockade.Runner) -> None:
    """Output of a process that is being killed can still be read, but nothing that it does later has an effect."""
    code = f"{_CHILD}import time; time.sleep(0.3); print('late', flush=True); open('late', 'w')\nprint('first', flush=True); say(0)"
    result = run(box, code, artifacts=["*"])
    assert result.stdout == "first\n" and not result.artifacts


@pytest.mark.parametrize(
    "more", ["os.close(3)", "[os.write(3, bytes(65536)) for _ in range(64)]", "os.write(3, b'{}\\n')"]
)
def test_channel_bytes_after_marker_are_ignored(box: stockade.Runner, more: str) -> None:
    result = run(box, f'os.write(3, b\'{{"repr": "1"}}\\n\'); say(3); {more}\n{_STAY}')
    assert (result.exit_code, result.value_repr) == (3, "1")


@pytest.mark.parametrize("piece", [b"\0", b"\0\0", b"\0stockade", b"\0stockade\0", b"stockade\0\1", bytes(1 << 17)])
def test_part_of_a_marker_does_not_count(box: stockade.Runner, piece: bytes) -> None:
    result = run(
        box,
        f"import time\nfor at in range(0, {len(piece)}, 65536): os.write(3, {piece!r}[at:at + 65536])\ntime.sleep(0.2); os._exit(9)",
    )
    assert result.exit_code == 9


def test_marker_in_pieces_counts(box: stockade.Runner) -> None:
    code = f"import time\ncall(b'done')\nfor each in b'\\0stockade\\0\\4': os.write(3, bytes((each,))); time.sleep(0.01)\n{_STAY}"
    assert run(box, code).exit_code == 4


@pytest.mark.needs("root")
def test_limit_met_before_marker_stands() -> None:
    policy = Policy.parse({"limits": {"memory": "64MiB", "processes": 4, "wall_time": 1.0}})
    box = stockade.Runner(policy, backend="native", warm=True)
    many = "for _ in range(20):\n    try:\n        if os.fork() == 0:\n            while True: pass\n    except OSError: pass\nsay(0)"
    assert Guarantee.PROCESSES in {limit for limit, state in run(box, many).limits_met.items() if state.state == "met"}
    late = run(box, "import time; time.sleep(5); say(0)")
    assert late.limit is Guarantee.WALL_TIME


@pytest.mark.needs("root")
def test_memory_exceeded_before_marker_stands() -> None:
    box = stockade.Runner(Policy.parse({"limits": {"memory": "64MiB"}}), backend="native", warm=True)
    for _ in range(5):
        used = run(box, f"{_CHILD}x = bytearray(200 << 20)\n    os._exit(0)\nos.wait(); say(0)\n{_STAY}")
        assert used.limit is Guarantee.MEMORY, used.summary()


def test_cancel_during_marker_ends_cleanly(box: stockade.Runner) -> None:
    for wait in (0.0, 0.001, 0.005, 0.02):
        with box.stream(_SAY + f"import time; time.sleep(0.005); say(0)\n{_STAY}") as stream:
            time.sleep(wait)
            stream.cancel()
            for _ in stream:
                pass
        assert stream.result.outcome in {Outcome.COMPLETED, Outcome.CANCELLED}
    assert run(box, "say(0)").ok
