"""A guest that its next caller is lent: who comes again after a pause hands it the launch past the warden."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support import host
from tests.system.test_warm_life import keeping, warden

import stockade
from stockade import Outcome, Policy, _trace
from stockade.client import wardens
from stockade.client.conversation import repetition
from stockade.warden import wire

pytestmark = pytest.mark.needs("namespaces")

_PAUSE = 0.05
_STATUS = ["Uid", "Gid", "Groups", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters", "SigIgn"]
_SEEN = f"""
import os, resource, sys
print(sorted(os.listdir("/proc/self/fd")), os.getpid(), os.getppid(), os.getcwd(), sys.argv, dict(os.environ))
print([resource.getrlimit(number) for number in range(16)], os.umask(0), sorted(sys.modules))
own = [line for line in open("/proc/self/status") if line.split(":")[0] in {_STATUS}]
print(own, open("/proc/self/cgroup").read(), open("/proc/self/mountinfo").read().count("\\n"), os.listdir("."))
print(len(open(__file__).read()), [os.stat(__file__)[n] for n in (0, 3, 4, 5)], open("/proc/self/oom_score_adj").read())
"""


@pytest.fixture(autouse=True)
def own_warden() -> Iterator[None]:
    """Each test has a warden of its own, of which nothing is left."""
    with host.as_before():
        yield


def noted(box: stockade.Sandbox, source: str, **options: Any) -> tuple[stockade.Result, Mapping[str, int]]:
    """Return the result of a run, and its steps."""
    box._opener.trace += 1
    _trace.take()
    result = box.run(source, **options)
    return result, {step: at for number, step, at in _trace.take() if number == box._opener.trace}


def ready(box: stockade.Sandbox) -> stockade.Sandbox:
    """Have a guest lent to the next run."""
    for _ in range(40):
        time.sleep(_PAUSE)
        result, steps = noted(box, "print('again')")
        assert result.ok
        if _trace.PASSED in steps:
            time.sleep(_PAUSE)
            return box
    raise AssertionError("no guest was ever lent")


def guests() -> set[int]:
    """Return the copies whose parent is the init of a namespace: they have a job, or wait for one."""
    return {pid for pid in host.descendants() if _status(pid, "NSpid")[-1:] == ["2"] and _is_init(_status(pid, "PPid"))}


def _is_init(parent: list[str]) -> bool:
    numbers = _status(int(parent[0]), "NSpid") if parent else []
    return len(numbers) > 1 and numbers[-1] == "1"


def _status(pid: int, name: str) -> list[str]:
    lines = host.read(f"/proc/{pid}/status").splitlines()
    return next((line.split()[1:] for line in lines if line.startswith(f"{name}:")), [])


def test_who_pauses_is_lent_the_next_guest_and_who_does_not_is_not() -> None:
    box = ready(keeping())
    steps = [noted(box, f"print({number})")[1] for number in range(8)]
    assert _trace.PASSED in steps[0]
    assert sum(_trace.PASSED in each for each in steps[1:]) <= 3  # this process may be kept from its processor


def test_it_finds_what_every_guest_finds() -> None:
    keeping().run("1").check()
    first, steps = noted(keeping(), _SEEN)  # what a sandbox runs first has no run before it to be like
    assert first.ok and _trace.PASSED not in steps
    second, steps = noted(ready(keeping()), _SEEN)
    assert second.ok and _trace.PASSED in steps
    assert second.stdout == first.stdout
    assert (second.enforcement.keys(), second.shared) == (first.enforcement.keys(), first.shared)


@pytest.mark.parametrize(
    ("source", "outcome", "limit"),
    [
        ("while True: pass", Outcome.LIMIT_EXCEEDED, "cpu_time"),
        ("import time; time.sleep(60)", Outcome.LIMIT_EXCEEDED, "wall_time"),
        ("x = bytearray(1 << 30)", None, None),
        ("print('x' * 5000000)", Outcome.COMPLETED, None),
        ("import os; os._exit(3)", Outcome.FAILED, None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", Outcome.CRASHED, None),
        ("raise SystemExit(4)", Outcome.FAILED, None),
        ("import os\nif os.fork() == 0:\n    import time; time.sleep(60)", Outcome.COMPLETED, None),
    ],
)
def test_its_end_is_that_of_any_other(source: str, outcome: Outcome | None, limit: str | None) -> None:
    policy = Policy(limits={"cpu_time": 0.5, "wall_time": 1, "memory": "128M"})
    box = stockade.Sandbox(policy, backend="native", warm=True)
    plain = box.run(source)
    result, steps = noted(ready(box), source)
    assert _trace.PASSED in steps
    assert (result.outcome, result.exit_code, result.signal, result.limit) == (
        plain.outcome,
        plain.exit_code,
        plain.signal,
        plain.limit,
    )
    assert outcome is None or (result.outcome, result.limit) == (outcome, limit)
    assert {limit: met.state for limit, met in result.limits_met.items()} == {
        limit: met.state for limit, met in plain.limits_met.items()
    }
    assert (result.stdout_bytes, result.stdout_omitted) == (plain.stdout_bytes, plain.stdout_omitted)


def test_one_that_is_not_used_goes_to_the_next_run_of_its_kind() -> None:
    box, other = ready(keeping("a")), keeping("b")
    keepers = {_status(pid, "PPid")[0] for pid in guests()}
    assert other.run("print('other')").stdout == "other\n"  # over the same line
    assert box.run("print(1)", arguments=["x"]).stdout == "1\n"
    assert keepers <= set(map(str, host.descendants()))
    assert _trace.PASSED in noted(ready(box), "print(2)")[1]


def test_one_that_is_killed_while_it_is_lent_is_made_up_for() -> None:
    box = ready(keeping())
    _kill(guests())
    time.sleep(_PAUSE)
    assert box.run("print('well')").stdout == "well\n"


def test_one_that_dies_in_the_moment_in_which_it_is_used_is_no_guest_that_failed() -> None:
    box = ready(keeping())
    for number in range(30):
        time.sleep(0.01)
        if number % 2:
            _kill(guests())
        result = box.run(f"print({number})")
        assert result.outcome is Outcome.SANDBOX_FAILED if number % 2 and not result.ok else result.ok
        assert result.stdout == (f"{number}\n" if result.ok else "")


def test_one_whose_caller_has_left_is_ended_since_nobody_knows_what_it_was_told() -> None:
    ready(keeping())
    line = wardens.idle_line()
    assert line is not None
    line.borrow()
    guest = line.guest
    assert guest is not None
    words = wire.encode("launch", steps=[("job_file", "main.py", b"import time; time.sleep(600)")], argv=[])
    guest.send(words[:20])  # and not the rest
    before = guests()
    line.sock.close()
    guest.close()
    _until(lambda: len(before - guests()) == 1)
    assert keeping().run("print('next')").stdout == "next\n"


def _handed(box: stockade.Sandbox, source: bytes) -> tuple[wardens.Line, bytes]:
    """Hand a lent guest its launch; return the line to the warden, and what that is to be told of it."""
    form, line = box._opener._form, wardens.idle_line()
    assert form is not None and line is not None
    line.borrow()
    assert line.guest is not None
    line.guest.send(wire.usual(source, 0))
    line.let_go_of_guest()
    return line, repetition(source, form.said, line.said, 0, lent=True)


def _verdict(line: wardens.Line) -> Mapping[str, Any]:
    decoder = wire.Decoder()
    while True:
        for kind, fields in decoder.feed(line.sock.recv(1 << 16)):
            if kind == "exited":
                return dict(fields["report"])


@pytest.mark.parametrize(
    ("limits", "least", "most", "cause"), [({}, 0.2, 0.4, None), ({"wall_time": 0.1}, 0.05, 0.2, "wall_time")]
)
def test_one_whose_caller_does_not_tell_of_it_is_ended_in_time(
    limits: Any, least: float, most: float, cause: str | None
) -> None:
    box = ready(stockade.Sandbox(Policy(limits=limits), backend="native", warm=True))
    before = guests()
    line, words = _handed(box, b"import time; time.sleep(0.7)")
    begin = time.monotonic()
    _until(lambda: len(before - guests()) == 1)
    assert least <= time.monotonic() - begin < most
    line.sock.sendall(words)  # it comes too late: the run begins anew
    report = _verdict(line)
    assert (report["cause"], report["started"]) == (cause, True)
    line.sock.close()
    assert box.run("print('next')").stdout == "next\n"


def test_the_clock_of_one_whose_caller_tells_of_it_late_has_run_all_the_while() -> None:
    box = ready(keeping())
    line, words = _handed(box, b"import time; time.sleep(0.2)")
    time.sleep(0.15)
    line.sock.sendall(words)
    assert 0.2 <= _verdict(line)["wall_seconds"] < 0.35
    line.sock.close()


def test_who_has_missed_the_descriptor_goes_the_ordinary_way() -> None:
    box = ready(keeping())
    line = wardens.idle_line()
    assert line is not None
    assert line.sock.recv(1 << 16) == wire.encode("lent")  # without it
    line.settled = True
    with line:
        pass
    result, steps = noted(box, "print('ordinary')")
    assert result.stdout == "ordinary\n"
    assert _trace.PASSED not in steps


def test_a_run_is_not_handed_to_a_guest_that_was_not_lent() -> None:
    box = ready(keeping())
    box.run("print(1)").check()
    form, line = box._opener._form, wardens.idle_line()
    assert form is not None and line is not None
    line.sock.sendall(repetition(b"print(1)", form.said, line.said, 0, lent=True))
    ((kind, fields),) = wire.Decoder().feed(line.sock.recv(1 << 16))
    assert (kind, "was not lent" in fields["message"]) == ("refused", True)
    line.sock.close()


def test_one_is_not_taken_by_a_run_of_another_kind() -> None:
    box = ready(keeping())
    form, line = box._opener._form, wardens.idle_line()
    assert form is not None and line is not None
    line.borrow()
    guest = line.guest
    assert guest is not None
    before = guests()
    line.sock.sendall(repetition(b"print(1)", dict(form.said) | {"caller": 99}, line.said, 0, lent=True))
    ((kind, fields),) = wire.Decoder().feed(line.sock.recv(1 << 16))
    guest.close()
    assert kind == "refused"
    assert "of another kind" in fields["message"]
    _until(lambda: len(before - guests()) == 1)
    line.sock.close()


def test_a_warden_that_stands_still_finds_a_run_that_has_begun_without_it() -> None:
    box, pid = ready(keeping()), warden()
    os.kill(pid, signal.SIGSTOP)
    waker = threading.Timer(0.3, os.kill, (pid, signal.SIGCONT))
    waker.start()
    result, steps = noted(box, "print('alone')")
    waker.join()
    assert _trace.PASSED in steps
    assert result.stdout == "alone\n"


class _Left(Exception):
    pass


def test_nothing_is_left_of_one_whose_caller_leaves_in_the_moment_in_which_it_makes_way_for_it() -> None:
    def leave(*_: object) -> None:
        raise _Left

    box = ready(keeping())
    opened = len(list(Path("/proc/self/fd").iterdir()))
    handler = signal.signal(signal.SIGALRM, leave)
    left: list[_Left] = []
    try:
        for number in range(10):
            ready(box)
            before = guests()
            signal.setitimer(signal.ITIMER_REAL, 0.0002 * number + 0.0003)
            try:
                box.run("while True: pass")
            except _Left as error:
                left.append(error)  # and with it all that its frames hold
            _until(lambda before=before: len(before - guests()) >= 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert len(left) == 10
    assert len(list(Path("/proc/self/fd").iterdir())) <= opened + 1
    assert box.run("print('next')").stdout == "next\n"


def test_many_threads_with_pauses() -> None:
    box = ready(keeping())

    def loop(name: int) -> None:
        for number in range(20):
            time.sleep(0.003 * (name % 4))
            assert box.run(f"print({name}, {number})").stdout == f"{name} {number}\n"

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(loop, range(6)))


def test_a_child_of_the_caller_has_none_of_it() -> None:
    box = ready(keeping())
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = int(box.run("print('child')").stdout != "child\n")
        finally:
            wardens._stop_at_exit()
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert box.run("print('parent')").stdout == "parent\n"


def _kill(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _until(holds: Any) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
