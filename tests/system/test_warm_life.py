"""Starts and ends of warm interpreters: their effect on runs, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.mutants import tree
from tests.mutants.protection import Edit, Protection
from tests.support import host

import stockade
from stockade import Outcome, Policy

pytestmark = [pytest.mark.needs("namespaces"), pytest.mark.timing]

_KIND = "N"


@pytest.fixture(autouse=True)
def own_warden() -> Iterator[None]:
    """Give each test a warden of its own, and check that nothing is left of it."""
    with host.as_before():
        yield


def runner(kind: object = "") -> stockade.Runner:
    """Return a runner whose runs are of a kind of their own."""
    policy = Policy.parse({"environment": {"set": {_KIND: str(kind)}}})
    return stockade.Runner(policy, backend="native", warm=True)


def warden() -> int:
    return next(pid for pid in host.descendants() if _parent(pid) == os.getpid())


def _parent(pid: int) -> int:
    """Return the parent of a process, or 0 if the process has ended."""
    fields = host.read(f"/proc/{pid}/stat").rpartition(") ")[2].split()
    return int(fields[1]) if fields else 0


def zygotes() -> list[int]:
    """Return the zygotes: interpreters whose parent is not an interpreter."""
    return [pid for pid in host.descendants() if _is_interpreter(pid) and not _is_interpreter(_parent(pid))]


def _is_interpreter(pid: int) -> bool:
    return "/job/.agent/agent.py" in host.read(f"/proc/{pid}/cmdline")


def together(count: int, run) -> list[stockade.Result]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_more_kinds_than_kept_all_run() -> None:
    results = together(8, lambda number: runner(number).run("import os; os.environ['N']"))
    assert [result.value for result in results] == list("01234567")
    assert len(zygotes()) <= 4


def test_kinds_taking_turns_all_run() -> None:
    boxes = [runner(number) for number in range(7)]
    for _ in range(3):
        assert [box.run("import os; os.environ['N']").value for box in boxes] == list("0123456")
    assert len(zygotes()) <= 4


def test_more_runs_than_workers_all_complete() -> None:
    """The zygote does not exist yet in the first round, and exists in the second."""
    box = runner()
    for _ in range(2):
        results = together(60, lambda number: box.run(f"import time; time.sleep(0.1); {number}"))
        assert [result.value for result in results] == list(range(60)), Counter(r.summary() for r in results)


def test_killed_zygote_fails_only_its_runs() -> None:
    box, other = runner(1), runner(2)
    box.run("1")
    (killed,) = zygotes()
    other.run("1")
    with ThreadPoolExecutor(12) as pool:
        doomed = [pool.submit(box.run, "import time; time.sleep(20)") for _ in range(4)]
        safe = [pool.submit(other.run, "import time; time.sleep(1); 1") for _ in range(4)]
        assert host.eventually(lambda: len(host.guests(os.getpid())) >= 4, 10)  # those that have not begun come again
        time.sleep(0.5)
        os.kill(killed, signal.SIGKILL)
        begin = time.monotonic()
        assert [each.result().outcome for each in doomed] == [Outcome.SANDBOX_FAILED] * 4
        assert time.monotonic() - begin < 5
        assert [each.result().value for each in safe] == [1] * 4
    assert [each.run("1").value for each in (box, other, box, other)] == [1] * 4


def test_zygotes_killed_under_load_are_replaced() -> None:
    box = runner()
    seen: Counter[Outcome] = Counter()
    over = threading.Event()

    def go() -> None:
        while not over.is_set():
            result = box.run("1")
            killed_guest = result.outcome is Outcome.CRASHED and not result.shared  # a fresh interpreter looks the same
            seen[Outcome.COMPLETED if killed_guest else result.outcome] += 1

    threads = [threading.Thread(target=go) for _ in range(4)]
    for each in threads:
        each.start()
    for _ in range(5):
        time.sleep(0.3)
        for pid in zygotes():
            os.kill(pid, signal.SIGKILL)
    over.set()
    for each in threads:
        each.join()
    assert set(seen) <= {Outcome.COMPLETED, Outcome.SANDBOX_FAILED}
    assert host.eventually(lambda: box.run("1").value == 1, seconds=2)  # it has to be noticed


def test_killed_worker_fails_only_its_run() -> None:
    box = runner()
    box.run("1")
    with ThreadPoolExecutor(2) as pool:
        safe = pool.submit(box.run, "import time; time.sleep(1); 1")
        assert host.eventually(lambda: len(guests()) == 1, seconds=5)
        first = guests()
        doomed = pool.submit(box.run, "import time; time.sleep(20)")
        assert host.eventually(lambda: len(guests()) == 2, seconds=5)
        (second,) = guests() - first
        os.kill(_parent(second), signal.SIGKILL)
        assert doomed.result().outcome is Outcome.SANDBOX_FAILED
        assert safe.result().value == 1
    assert box.run("1").value == 1


def guests() -> set[int]:
    """Return the guests that sleep in their job."""
    return {
        pid for pid in host.descendants() if _is_interpreter(pid) and "nanosleep" in host.read(f"/proc/{pid}/wchan")
    }


def workers() -> set[int]:
    """Return the workers: interpreters that are PID 1 of a namespace."""
    return {
        pid
        for pid in host.descendants()
        if _is_interpreter(pid) and "\t1\n" in host.read(f"/proc/{pid}/status").partition("\nNSpid:")[2][:40]
    }


@pytest.mark.needs("root", "cgroup-pids")  # where nothing counts processes, a run past its limit may cost its worker
def test_run_past_output_limit_keeps_its_worker() -> None:
    box = stockade.Runner(Policy(limits={"output": 1000}, on_output="kill"), backend="native", warm=True)

    def lost() -> int:
        before: set[int] = set()
        gone = 0
        for _ in range(12):
            assert box.run("import os\nos.write(1, b'x' * 5000)").limit == "output"
            time.sleep(0.02)
            gone += len(before - workers())
            before = workers()
        assert before
        return gone

    # a busy host may give the worker no turn to end its guest in time
    assert any(lost() <= 3 for _ in range(6))


def test_folders_are_fresh_for_each_guest() -> None:
    box = runner()
    look = "import os; print(os.stat('/tmp').st_ctime_ns)"
    made = set()
    for _ in range(10):
        made.add(box.run(look).check().stdout)
        time.sleep(0.03)  # or two folders would be made within one tick of the clock
    assert len(made) == 10


def test_oom_score_prefers_guest_over_worker() -> None:
    box = runner()
    assert {box.run("open('/proc/self/oom_score_adj').read()").value for _ in range(8)} == {"1000\n"}
    own = host.read("/proc/self/oom_score_adj")
    assert host.eventually(
        lambda: workers() and {host.read(f"/proc/{pid}/oom_score_adj") for pid in workers()} == {own}
    )


@pytest.mark.parametrize(
    "fill", ["n = 0\nwhile True: n += 1; open(str(n), 'w').close()", "open('all', 'w').write('x' * (1 << 21))"]
)
def test_guest_filling_folders_keeps_its_worker(fill: str) -> None:
    box = stockade.Runner(Policy(limits={"disk": "1MiB"}), backend="native", warm=True)
    for _ in range(4):
        box.run("1").check()
    before = workers()
    for _ in range(8):
        assert not box.run(fill).ok
        assert box.run("import os; os.listdir()").value == []
    assert before & workers() == before


def test_caller_dying_while_waiting_leaves_nothing(tmp_path: Path) -> None:
    code = "import stockade; stockade.run('import time; time.sleep(20)', backend='native', warm=True)"
    for wait in (0.1, 0.2, 0.4, 0.8):
        caller = subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )
        time.sleep(wait)
        caller.kill()
        caller.wait()
        assert host.eventually(lambda: not host.descendants(), seconds=5)


def test_killed_warden_leaves_no_process() -> None:
    box = runner()
    box.run("1")
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(box.run, "import time; time.sleep(20)") for _ in range(2)]
        time.sleep(0.5)
        assert len(host.descendants()) > 6
        os.kill(warden(), signal.SIGKILL)
        for each in runs:
            assert each.result().outcome is Outcome.SANDBOX_FAILED
    assert host.eventually(lambda: not host.descendants(), seconds=5)
    assert box.run("1").value == 1  # by another one, which removes the groups that the first has left


def test_many_runs_leak_nothing() -> None:
    box = runner()

    def look() -> tuple[int, int]:
        host.eventually(lambda: False, seconds=0.3)
        return len(list(Path(f"/proc/{warden()}/fd").iterdir())), len(host.descendants())

    def some(count: int) -> None:
        for number in range(count):
            code = (
                "1",
                "1/0",
                "import os; os.kill(os.getpid(), 9)",
                "import os, time\nif os.fork() == 0: time.sleep(9)",
            )
            box.run(code[number % 4])
            with box.stream("import time; time.sleep(9)") as stream:
                stream.cancel()

    some(20)
    before = look()
    some(150)
    files, processes = look()
    assert files <= before[0] + 40 and processes <= before[1] + 8, (before, files, processes)  # three slots more


_PRINTS = """
import sys, stockade
warm = True if "insist" in sys.argv else None
box = stockade.Runner(backend="native", warm=warm)
for number in range(int(sys.argv[1])):
    result = box.run(str(number))
    print(result.outcome, result.value, "warm" if result.shared else "cold", result.error and result.error.message)
"""


def output_of(edits: tuple[Edit, ...], *arguments: str) -> list[str]:
    """Return the lines of runs from a copy of the source with ``edits``."""
    with tree.mutated([Protection("", edits, ())]) as place:
        done = subprocess.run(
            [sys.executable, "-c", _PRINTS, *arguments],
            env={**os.environ, "PYTHONPATH": str(place / "src")}, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    return done.stdout.splitlines()


UNFIT = (("warden/warm/guest_setup.py", "        for function, arguments, purpose, harmless in self._calls:", "        raise OSError(5, 'no room')\n        for function, arguments, purpose, harmless in self._calls:"),)  # fmt: skip


KILLED = (
    (
        "languages/agents/python_zygote.py",
        """print(f"{f(2)}"[:0], end="")\n""",
        "import os; os.getpid() == 2 and os.kill(2, 9)\n",
    ),
)


def test_worker_killed_at_start_blocks_no_run() -> None:
    assert output_of(KILLED, "6") == [f"completed {number} cold None" for number in range(6)]
    (line,) = output_of(KILLED, "1", "insist")
    assert (
        line.startswith("sandbox_failed None cold the warm interpreter could make no worker: ")
        and "killed while it was set up" in line
    )


UNSOUND = (("warden/warm/interpreter.py", "        instance = self._slot.instance\n        if instance is None:", "        instance = self._slot.no_such_name\n        if instance is None:"),)  # fmt: skip


def test_error_in_warden_makes_runs_cold() -> None:
    assert output_of(UNSOUND, "4") == [f"completed {number} cold None" for number in range(4)]
    lines = output_of(UNSOUND, "4", "insist")
    assert all(line.startswith("sandbox_failed None cold ") and "no_such_name" in line for line in lines), lines
    assert any("failed 3 times in a row" in line for line in lines), lines


UNCOMPILED = (("languages/agents/python_start.py", "    enter_package()\n    from stockade.core import trace", "    os._exit(1)\n    from stockade.core import trace"),)  # fmt: skip


def test_compile_failure_makes_runs_cold() -> None:
    assert output_of(UNCOMPILED, "4") == [f"completed {number} cold None" for number in range(4)]
    (line,) = output_of(UNCOMPILED, "1", "insist")
    assert line.startswith("sandbox_failed None cold the warm interpreter failed: ") and "could not be compiled" in line


@pytest.mark.parametrize("count", [12])
def test_guest_setup_failure_makes_runs_cold(count: int) -> None:
    assert output_of(UNFIT, str(count)) == [f"completed {number} cold None" for number in range(count)]


def test_guest_setup_failure_with_warm_true_is_reported() -> None:
    (line,) = output_of(UNFIT, "1", "insist")
    assert line.startswith("sandbox_failed None cold the warm interpreter could make no worker: ") and "no room" in line


def test_much_used_zygote_is_replaced() -> None:
    lines = output_of((("warden/warm/interpreter.py", "_MOST_USES = 100_000", "_MOST_USES = 3"),), "20", "insist")
    assert [line.split()[:2] for line in lines] == [["completed", str(number)] for number in range(20)]
    assert all(" warm " in line for line in lines)


def test_dead_zygote_is_replaced_on_demand() -> None:
    box = stockade.Runner(Policy.parse({"environment": {"set": {_KIND: "died"}}}), backend="native")
    assert host.eventually(lambda: box.run("1").shared, seconds=10)
    for pid in zygotes():
        os.kill(pid, signal.SIGKILL)
    assert host.eventually(lambda: not zygotes(), seconds=5)
    assert host.eventually(lambda: box.run("1").shared, seconds=10)


def faults(box: stockade.Runner, runs: int, pause: float) -> list[int]:
    """Return each guest's page faults at the start of its job."""
    found = []
    for _ in range(runs):
        found.append(int(box.run("import resource\nresource.getrusage(resource.RUSAGE_SELF).ru_minflt").value))
        time.sleep(pause)
    return found


def test_guests_warm_up_only_after_a_pause() -> None:
    box = stockade.Runner(backend="native", warm=True)  # the rehearsal has some faults of its own
    in_a_loop, paced = (statistics.median(faults(box, *how)[5:]) for how in ((40, 0), (15, 0.05)))
    assert paced > in_a_loop + 20


def test_kernel_without_pagemap_still_runs_warm() -> None:
    lines = output_of((("warden/warm/prefault.py", '("maps", "pagemap")', '("maps", "no_such_file")'),), "6", "insist")
    assert [line.split()[:2] for line in lines] == [["completed", str(number)] for number in range(6)]
    assert all(" warm " in line for line in lines)


@pytest.mark.needs("io_uring")
def test_prefault_saves_page_faults() -> None:
    without = faults_where("resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))")

    def happens() -> bool:
        return statistics.median(faults_where("pass")) < statistics.median(without) * 0.6

    assert host.eventually(happens, 20)  # an ordinary user's memory may still count as locked that is no longer


def test_guest_collects_no_garbage_of_its_worker() -> None:
    box = runner("left")
    found = [box.run("import gc\ngc.collect()").check().value for _ in range(30)]  # in a loop: none has rehearsed
    assert max(found) == 0, found  # as in a fresh interpreter


def faults_where(given: str) -> list[int]:
    """Return the page faults of guests in a program that begins with ``given``."""
    code = (
        "import resource, stockade\n"
        f"{given}\n"
        "box = stockade.Runner(backend='native', warm=True)\n"
        "job = 'import resource; resource.getrusage(resource.RUSAGE_SELF).ru_minflt'\n"
        "print(*(box.run(job).check().value for _ in range(20)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return [int(word) for word in done.stdout.split()]
