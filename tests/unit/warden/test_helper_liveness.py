"""When the warden looks at a helper process."""

from __future__ import annotations

import os

import pytest

from stockade.warden import helper_liveness
from stockade.warden.helper_liveness import Helper

NEVER = float("inf")


def test_helper_in_a_group_that_stands_still_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    why = [""]
    monkeypatch.setattr(helper_liveness.standstill, "reason", lambda _pid: why[0])
    helper = Helper(os.getpid(), "the init", 0.0)
    assert helper.due(NEVER) == 0.25
    assert helper.due(0.1) == 0.25  # nothing has run since 0.1, but before that the helper may have been stopped
    assert helper.trouble(0.25) == ""
    assert helper.due(0.25) == 0.5  # both looks fell together, so the stop may have come in between
    assert helper.trouble(0.5) == ""
    assert helper.due(0.25) == NEVER
    assert helper.due(0.6) == 0.75  # something has run
    why[0] = "was stopped by a signal from outside"
    assert helper.trouble(0.75) == ""
    assert helper.due(0.6) == 1.0  # it stands still, so nothing runs any more
    assert "was stopped" in helper.trouble(1.5)
