"""The part of the contract suite on groups, limits and processes. The rest is the same on every host."""

from typing import ClassVar

from stockade.testing.concurrency import ConcurrencyContract
from stockade.testing.limits import LimitsContract
from stockade.testing.outcomes import OutcomesContract


class TestNative(OutcomesContract, LimitsContract, ConcurrencyContract):
    backend = "native"


class TestProcess(LimitsContract):
    """The reaper's tree in the same groups, with an older Landlock (Linux 6.1)."""

    backend = "process"
    interpreter = "/usr/bin/python3"
    accept: ClassVar = {
        "process_view": "absent",
        "disk": "absent",
        "no_survivors": "supervisor",
        "filesystem_write": "absent",
    }
    own_root = False
    disk = None
    tasks_astray = 4
