"""No guest gets a uid under which a process already exists."""

import contextlib
import os
import signal

import pytest

from stockade.warden.uid_pool import UidPool

UIDS = range(2_000_065_000, 2_000_065_002)  # far from those that runs beside this test take
pytestmark = pytest.mark.needs("root")


@pytest.fixture
def leftover():
    """Start a process under the first uid, end it, and return its pid. It stays a zombie until it is waited for."""
    pid = os.fork()
    if not pid:
        os.setuid(UIDS[0])
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        yield pid
    finally:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def test_uid_of_a_zombie_goes_to_nobody_until_it_is_reaped(leftover):
    pool = UidPool(UIDS)
    assert pool.take() == UIDS[1]
    with pytest.raises(OSError, match="every uid of STOCKADE_UID_RANGE is in use"):
        pool.take()
    os.waitpid(leftover, 0)
    assert pool.take() == UIDS[0]
