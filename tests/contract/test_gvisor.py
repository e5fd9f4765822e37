"""The gvisor backend under the conformance suite.

``make gvisor`` runs the whole suite. Otherwise the parts run of which this backend has code of its own: outcomes and receipts.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

import pytest

from stockade.testing import BackendContract
from stockade.testing.outcomes import OutcomesContract
from stockade.testing.receipts import ReceiptsContract

PARTS: Any = (BackendContract,) if os.environ.get("STOCKADE_WHOLE") else (OutcomesContract, ReceiptsContract)


@pytest.mark.needs("runsc")
class TestGvisor(*PARTS):
    backend = "gvisor"
    interpreter = "/usr/bin/python3"
    slows_reads = False
    bounds_terminals = False
    root_can_be_writable = False
    tells_signals = False
    keeps_environment = frozenset({"PWD"})
    disk: ClassVar = {"/tmp": 4, "/dev/shm": 4, "/workspace": 2}
    explains_denials = False
    keeps_capabilities = False
    has_tight_filter = False
    keeps_workspaces = False
    shows_host_paths = False
    has_host_network = False
    takes_signals = False
    counts_tasks = False
    has_cpu_clock = False
    has_data_limit = False
    has_pipes = False
    own_memory = 24 << 20
    process_name = "runsc-sandbox"
    start_seconds = 2.0
