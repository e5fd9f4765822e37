"""Hostile programs in a batch: right verdicts for them and for their neighbours, on the real kernel."""

from __future__ import annotations

import pytest
from bench import hostile
from tests.support import host

import stockade
from stockade.batch.records import CaseVerdict, Verdict, VerdictKind

pytestmark = [pytest.mark.needs("native"), pytest.mark.timeout(300), pytest.mark.timing]

LIMITS = {"memory": "64MiB", "wall_time": 30, "cpu_time": 10, "processes": 5, "output": "64KiB"}
POLICY = stockade.Policy(limits=LIMITS, on_output="kill")

HOSTILE = {
    "fork bomb": ("import os\nwhile True:\n try: os.fork()\n except OSError: pass", {"limit_exceeded", "failed"}),
    "memory": ("x = []\nwhile True: x.append(b'x' * 2**20)", {"limit_exceeded", "failed"}),
    "flood": ("while True: print('x' * 10000)", {"limit_exceeded"}),
    "busy": ("while True: pass", {"limit_exceeded"}),
    "sleep": ("import time\nwhile True: time.sleep(1)", {"limit_exceeded"}),
    "killer": ("import os, signal\nos.kill(-1, signal.SIGKILL)", {"crashed", "failed", "passed"}),
    "files": ("n = 0\nwhile True:\n open(str(n), 'w').close(); n += 1", {"failed", "limit_exceeded"}),
    "disk": ("f = open('x', 'wb')\nwhile True: f.write(b'x' * 2**20)", {"failed", "crashed", "limit_exceeded"}),
    "daemon": ("import os, time\nif os.fork() == 0:\n os.setsid(); time.sleep(1000)\nos._exit(1)", {"failed"}),
    "liar": ("import os\nprint('passed'); os.write(1, b'{}'); os._exit(0)", {"wrong_output"}),
}


def test_hostile_batch_gets_right_verdicts():
    """A fifth of the programs are hostile here; bench/hostile.py measures how much it slows the others."""
    kind = list(HOSTILE)
    programs = []
    for n in range(50):
        if n % 5 == 0:
            source = HOSTILE[kind[(n // 5) % len(kind)]][0]
            limits = {"cpu_time": 0.5, "wall_time": 5}
            programs.append({"id": f"{n}", "source": source, "expected": "never", "limits": limits})
        else:
            programs.append({"id": f"{n}", "source": f"print({n} ** 2)", "expected": str(n**2)})
    host.adopt_orphans()
    found = list(stockade.evaluate(programs, policy=POLICY, jobs=3))
    for n, verdict in enumerate(found):
        wanted = HOSTILE[kind[(n // 5) % len(kind)]][1] if n % 5 == 0 else {"passed"}
        assert verdict.verdict in wanted, (kind[(n // 5) % len(kind)] if n % 5 == 0 else "neighbour", verdict)
    assert "passed" not in {verdict.verdict for verdict in found[::5]}
    host.stop_warden()
    assert host.eventually(lambda: not host.descendants(), 5)


def test_corpus_attacks_do_not_slow_neighbours():
    """The test has six attacks among fifty-four neighbours; python -m bench.hostile runs all attacks."""
    found = hostile.compare(hostile.SMALL)
    assert found["wrong"] == [] and found["attacks"] == 6
    assert found["verdicts on attacks"] == {"limit_exceeded": 3, "failed": 3}
    assert found["factors"]["median"] < 5  # on a machine that others use; what it costs is for the bench to say


def test_hostile_bench_finds_wrong_verdicts():
    def ended(name, word, status, attempts=1):
        cases = (CaseVerdict("1", word, exit_code=status),)
        return Verdict(name, word, limit="memory" if status is None else None, cases=cases, attempts=attempts)

    (attack,) = hostile.attacks(["memory/list"])
    good = {
        attack.id: ended(attack.id, VerdictKind.LIMIT_EXCEEDED, None),
        "neighbour 0": ended("neighbour 0", VerdictKind.PASSED, 0),
    }
    assert hostile.wrong([attack], good) == []
    for bad in (
        ended(attack.id, VerdictKind.FAILED, 42),
        ended(attack.id, VerdictKind.PASSED, 0),
        ended(attack.id, VerdictKind.SANDBOX_FAILED, None),
        ended("neighbour 0", VerdictKind.LIMIT_EXCEEDED, None),
        ended("neighbour 0", VerdictKind.PASSED, 0, attempts=2),
    ):
        assert len(hostile.wrong([attack], {**good, bad.id: bad})) == 1
