"""The steps of real runs, as every process notes them: all there, and none before its cause."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

from stockade import _trace
from stockade._sandbox import Sandbox

pytestmark = [pytest.mark.needs("namespaces"), pytest.mark.timing]
BESIDE = {_trace.STARTED, _trace.RELEASED, _trace.REAPED, _trace.EMPTY, _trace.FURNISHED}
OF_A_COPY = {
    _trace.SEALED,
    _trace.BEGUN,
    _trace.ENDED,
    _trace.ANNOUNCED,
    _trace.HEARD,
    _trace.ALONE,
    _trace.FURNISHED,
}


def noted(*, warm, source="print(1)"):
    """Return step to nanoseconds for the second of some runs: what comes behind its answer is told with a later one."""
    box = Sandbox(backend="native", warm=warm)
    last = _trace.FURNISHED if warm else _trace.RELEASED
    _trace.take()
    found = defaultdict(dict)
    for box._opener.trace in range(1, 100):
        assert box.run(source).ok
        for number, step, at in _trace.take():
            found[number].setdefault(step, at)
        if last in found[2]:
            break
        time.sleep(0.05)
    return found[2]


def test_a_warm_run_comes_to_all_steps_in_their_order():
    found = noted(warm=True)
    assert found.keys() | {_trace.ALONE} == _trace.STEPS.keys() - {_trace.CALLED, _trace.RETURNED}
    steps = [step for step in _trace.STEPS if step in found.keys() - BESIDE]
    assert sorted(steps, key=found.__getitem__) == steps
    assert found[_trace.READ] < found[_trace.TAKEN] < found[_trace.HANDED_OVER]
    assert found[_trace.DRESSED] < found[_trace.STARTED] < found[_trace.ANSWERED] < found[_trace.RELEASED]
    assert found[_trace.HEARD] < found[_trace.REAPED] < found[_trace.EMPTY] < found[_trace.FURNISHED]


def test_a_cold_run_comes_to_those_that_it_has():
    found = noted(warm=False)
    assert found.keys() == _trace.STEPS.keys() - OF_A_COPY - {_trace.CALLED, _trace.RETURNED}
    assert found[_trace.DRESSED] < found[_trace.REAPED] < found[_trace.EMPTY] < found[_trace.ANSWERED]


def test_a_guest_cannot_speak_for_others():
    forged = 'import os\nos.write(3, b\'{"trace": [["answered", 1], ["begun", 2]]}\\n\')\nprint(1)'
    found = noted(warm=True, source=forged)
    assert found[_trace.ANSWERED] > 1 and found[_trace.BEGUN] > 2  # its last word counts, as for all that it reports


def test_nothing_is_noted_unless_it_is_asked_for():
    _trace.take()
    assert Sandbox(backend="native", warm=True).run("print(1)").ok
    assert _trace.take() == []
