"""Steps are noted for the runs that are traced, and what a guest says of its own is taken for what it is."""

from __future__ import annotations

import json

import pytest

from stockade.core import trace


@pytest.fixture(autouse=True)
def empty():
    trace.take()
    yield
    trace.take()


def test_a_run_that_is_not_traced_leaves_no_note():
    trace.note(0, trace.CALLED)
    assert trace.take() == []


def test_notes_are_handed_on_once():
    trace.note(7, trace.READ)
    trace.note(7, trace.TAKEN, 5)
    first, second = trace.take()
    assert first[:2] == (7, "read") and first[2] > 0
    assert second == (7, "taken", 5)
    assert trace.take() == []


def test_notes_of_a_guest_survive_encoding():
    noted = [(7, trace.BEGUN, 1), (7, trace.ENDED, 2)]
    assert trace.reported_notes(7, json.loads(trace.encode_notes(noted))["trace"]) == noted


@pytest.mark.parametrize(
    "reported",
    [None, 3, "begun", {}, [1], [[]], [["begun"]], [["begun", "1"]], [["begun", True]], [[[], 1]], [["read", 1]]],
)
def test_reported_notes_takes_only_the_guests_own_steps(reported):
    assert trace.reported_notes(7, reported) == []
