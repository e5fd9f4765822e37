"""Stockade logs the life of runs, and logging costs nothing where nobody listens."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import stockade
from stockade.core import log


def test_info_without_logging_imports_nothing() -> None:
    program = "import sys\nfrom stockade.core import log\nlog.info('x')\nassert 'logging' not in sys.modules"
    subprocess.run([sys.executable, "-S", "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_refusal_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="stockade")
    with pytest.raises(stockade.JobError), log.refusals():
        raise stockade.JobError("no such language")
    assert caplog.messages == ["refused: JobError: no such language"]


def test_other_errors_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="stockade")
    with pytest.raises(KeyError), log.refusals():
        raise KeyError("x")
    assert not caplog.messages
