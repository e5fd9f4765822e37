"""A trace is computed from the notes of many runs, and drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from stockade.core import trace
from stockade.profiling import chart
from stockade.profiling.steps import combined


def run(*, slow=0, steps=tuple(trace.STEPS)):
    """Notes of a run with a step every microsecond, except that the guest wakes up ``slow`` microseconds late."""
    times, now = {}, 1_000_000
    for step in steps:
        times[step] = now + (slow if step == trace.WOKEN else 0)
        now = times[step] + 1000
    return times


def test_trace_has_medians_between_steps():
    found = combined([run(slow=slow) for slow in (0, 2000, 8000)])
    steps = {step.name: step for step in found.steps}
    assert found.runs == 3
    assert (steps["woken"].took, steps["woken"].p90, steps["woken"].since) == (3.0, 9.0, "handed over")
    assert steps["applied"].took == 1.0
    assert found.whole == (len(trace.STEPS) - 5) * 1.0 + 2.0
    assert [step.name for step in found.steps if step.behind] == ["released", "reaped", "empty", "set up"]


def test_trace_parallel_steps_delay_nothing():
    steps = {step.name: step for step in combined([run()]).steps}
    assert steps["started"].since == "applied"
    assert steps["completion seen"].since == "completed"
    assert steps["reaped"].since == "completion seen"
    assert steps["released"].since == "answered"
    assert steps["received"].since == "answered"


def test_trace_has_only_steps_of_all_runs():
    cold = [
        step
        for step in trace.STEPS
        if step not in ("sealed", "begun", "ended", "completed", "completion seen", "alone", "set up")
    ]
    order = [*cold[: cold.index("answered")], "reaped", "empty", "answered", "received", "returned", "released"]
    found = combined([run(steps=order), run(steps=order)])
    steps = {step.name: step for step in found.steps}
    assert "begun" not in steps
    assert (steps["reaped"].since, steps["answered"].since) == ("applied", "empty")
    assert not steps["reaped"].behind


def test_trace_leaves_out_unusual_run():
    odd = run(slow=10**9, steps=[step for step in trace.STEPS if step not in ("completion seen", "alone")])
    found = combined([run()] * 9 + [odd])
    assert found.runs == 9
    assert {"completion seen", "alone"} <= {step.name for step in found.steps}
    assert max(step.p90 for step in found.steps) < 1000


@pytest.mark.parametrize("slow", [0, 5_000_000_000])
def test_svg_is_complete_and_within_frame(slow):
    found = combined([run(slow=slow)])
    root = ElementTree.fromstring(chart.svg(found, "<One> & other"))
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text or "" for element in root.iter(f"{space}text")]
    assert texts[0] == "<One> & other"
    assert {"caller", "warden", "guest", "worker"} <= set(texts)
    assert sum("after the answer" in text for text in texts) == 4
    bars = [element for element in root.iter(f"{space}rect") if len(element)]
    assert len(bars) == len(found.steps)
    assert all(float(bar.get("x")) + float(bar.get("width")) <= float(root.get("width")) for bar in bars)
