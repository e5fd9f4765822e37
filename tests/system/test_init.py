"""The sandbox's init may have the guest's uid, so every call that could change its scheduling is refused."""

import pytest

from stockade import Outcome, Policy, run

pytestmark = pytest.mark.timing

CALLS = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"x86_64": (144, 142, 314, 203, 141, 251), "aarch64": (119, 118, 274, 122, 140, 30)}[os.uname().machine]
scheduler, param, attr, affinity, priority, io = numbers
zero = ctypes.byref(ctypes.c_uint64(0))
tried = []
for pid in (1, 0x1_0000_0001):
    tried += [(scheduler, pid, 5, zero), (param, pid, zero), (attr, pid, zero, 0), (affinity, pid, 8, zero)]
    tried += [(priority, 0, pid, 19), (io, 1, pid, 0)]
tried += [(priority, 2, 0, 19), (priority, 0x1_0000_0002, 0, 19), (io, 3, 0, 0)]
for call in tried:
    ctypes.set_errno(0)
    libc.syscall(*(item if not isinstance(item, int) else ctypes.c_ulong(item) for item in call))
    assert ctypes.get_errno() == errno.EPERM, call
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.nice(1)
print("own", os.nice(0))
"""


@pytest.mark.parametrize("syscalls", ["standard", "permissive"])
def test_init_scheduling_is_out_of_reach(syscalls):
    result = run(CALLS, policy=Policy(security={"syscalls": syscalls}))
    assert result.stdout == "own 1\n", result.stderr


@pytest.mark.needs("root")  # an ordinary user has no group for it
def test_small_cpu_share_does_not_delay_end():
    policy = Policy(limits={"wall_time": 1, "cpu_rate": 0.01})
    result = run("import os\nfor _ in range(3): os.fork()\nwhile True: pass", policy=policy)
    assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, "wall_time")
    assert result.usage.wall_seconds < 1.3
