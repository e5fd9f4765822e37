"""The steps of real runs, as every process notes them: all are there, and none before its cause."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

from stockade.api.runner import Runner
from stockade.core import trace

pytestmark = [pytest.mark.needs("namespaces"), pytest.mark.timing]
BESIDE = {trace.STARTED, trace.RELEASED, trace.REAPED, trace.EMPTY, trace.SET_UP}
OF_A_COPY = {
    trace.SEALED,
    trace.BEGUN,
    trace.ENDED,
    trace.COMPLETED,
    trace.COMPLETION_SEEN,
    trace.ALONE,
    trace.SET_UP,
}


def noted(*, warm, source="print(1)"):
    """Return step to nanoseconds for the second of some runs, since a later run reports the steps after its answer."""
    box = Runner(backend="native", warm=warm)
    last = trace.SET_UP if warm else trace.RELEASED
    trace.take()
    found = defaultdict(dict)
    for box._launcher.trace in range(1, 100):
        assert box.run(source).ok
        for number, step, at in trace.take():
            found[number].setdefault(step, at)
        if last in found[2]:
            break
        time.sleep(0.05)
    return found[2]


def test_warm_run_has_all_steps_in_order():
    found = noted(warm=True)
    assert found.keys() | {trace.ALONE} == trace.STEPS.keys() - {trace.CALLED, trace.RETURNED}
    steps = [step for step in trace.STEPS if step in found.keys() - BESIDE]
    assert sorted(steps, key=found.__getitem__) == steps
    assert found[trace.READ] < found[trace.TAKEN] < found[trace.HANDED_OVER]
    assert found[trace.APPLIED] < found[trace.STARTED] < found[trace.ANSWERED] < found[trace.RELEASED]
    assert found[trace.COMPLETION_SEEN] < found[trace.REAPED] < found[trace.EMPTY] < found[trace.SET_UP]


def test_cold_run_has_its_steps_in_order():
    found = noted(warm=False)
    assert found.keys() == trace.STEPS.keys() - OF_A_COPY - {trace.CALLED, trace.RETURNED}
    assert found[trace.APPLIED] < found[trace.REAPED] < found[trace.EMPTY] < found[trace.ANSWERED]


def test_guest_cannot_write_steps_of_others():
    forged = 'import os\nos.write(3, b\'{"trace": [["answered", 1], ["begun", 2]]}\\n\')\nprint(1)'
    found = noted(warm=True, source=forged)
    assert found[trace.ANSWERED] > 1 and found[trace.BEGUN] > 2  # its last word counts, as for all that it reports


def test_untraced_run_has_no_steps():
    trace.take()
    assert Runner(backend="native", warm=True).run("print(1)").ok
    assert trace.take() == []
