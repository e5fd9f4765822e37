"""The frames of a fork, on their way from one sandbox to the other."""

from __future__ import annotations

import json

import pytest

from stockade.api.sessions.link import frame
from stockade.api.snapshots import stream
from stockade.api.snapshots.stream import Check, SnapshotRefused

FOLDER = (b"d", json.dumps({"in": 1, "path": "a", "mode": 0o755, "at": 0}).encode())
OUTSIDE = (b"d", json.dumps({"in": 1, "path": "../a", "mode": 0o755, "at": 0}).encode())
END = (b".", b"")


def test_checked_frames_pass_unchanged_up_to_the_end():
    assert list(stream.checked([FOLDER, END], Check())) == [FOLDER, END]


@pytest.mark.parametrize(
    ("frames", "why"), [([FOLDER], "cut off"), ([FOLDER, OUTSIDE, END], "outside"), ([END, FOLDER], "follows its end")]
)
def test_checked_frames_are_refused(frames, why):
    with pytest.raises(SnapshotRefused, match=why):
        list(stream.checked(frames, Check()))


def test_batches_hold_all_frames_in_their_order():
    frames = [(b"b", bytes(8) + bytes([number]) * 100_000) for number in range(5)] + [END]
    found = list(stream.batches(frames))
    assert b"".join(found) == b"".join(frame(*each) for each in frames)
    assert 1 < len(found) < len(frames)
