"""Kinds of memory that only the warden can keep from a guest. The attacks in ``programs/memory`` try the others."""

from __future__ import annotations

import pytest

import stockade
from stockade.client import warden_process

SYSTEM_PYTHON = "/usr/bin/python3"
PAGES = "line, = [line for line in open('/proc/self/status') if line.startswith('THP_enabled')]\nline.split()[1]"
AGAIN = "import ctypes\nctypes.CDLL(None).prctl(41, 0, 0, 0, 0)"  # PR_SET_THP_DISABLE
ACCEPT = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor", "filesystem_write": "absent"}


@pytest.mark.needs("native")
@pytest.mark.parametrize("warm", [False, True])
def test_huge_pages_only_where_a_group_counts_memory(warm: bool) -> None:
    counted = "memory" in warden_process.host_facts().cgroups
    box = stockade.Runner(backend="native", warm=warm)
    assert box.run(PAGES).value == ("1" if counted else "0")
    assert box.run(AGAIN).value == (0 if counted else -1)


def test_no_huge_pages_without_namespaces() -> None:
    counted = "memory" in warden_process.host_facts().cgroups
    box = stockade.Runner(stockade.Policy(accept=ACCEPT), backend="process")
    assert box.run(PAGES, interpreter=SYSTEM_PYTHON).value == ("1" if counted else "0")
