"""Kernels that lack a facility, simulated by a filter around the whole library: see ``tests.support.older_kernel``."""

import ctypes
import errno
import json
import subprocess
import sys

import pytest
from tests.support import older_kernel

MOUNTS = """
import os
for line in open("/proc/self/mountinfo"):
    print(*line.split()[4:6])
for path in ("/usr/x", "/etc/x", "/x", "/proc/self/oom_score_adj", "/tmp/x", "/workspace/x"):
    try:
        open(path, "w").close()
        print(path, "open")
    except OSError as error:
        print(path, error.errno)
print(sorted(os.listdir("/proc/self/fd")))
"""
LIBRARY = f"""
import json, stockade
result = stockade.run({MOUNTS!r})
print(json.dumps({{"outcome": result.outcome.value, "stdout": result.stdout, "stderr": result.stderr,
    "write": [str(result.enforcement["filesystem_write"].mechanism), result.enforcement["filesystem_write"].note]}}))
"""
EVERYTHING = ",".join(older_kernel.FACILITIES)


def as_on(facilities):
    command = [sys.executable, "-c", LIBRARY]
    if facilities:
        command = [sys.executable, "-m", "tests.support.older_kernel", facilities, *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def this_kernel():
    return as_on("")


@pytest.mark.parametrize("facilities", [*older_kernel.FACILITIES, EVERYTHING])
def test_old_kernel_guest_sees_same_mounts(facilities, this_kernel):
    old = as_on(facilities)
    assert (old["outcome"], old["stdout"]) == (this_kernel["outcome"], this_kernel["stdout"]), old["stderr"]
    assert "/usr/x 30" in old["stdout"]
    assert "/workspace/x open" in old["stdout"]


def test_receipt_says_landlock_is_missing():
    mechanism, note = as_on("landlock")["write"]
    assert "Landlock" not in mechanism
    assert "no Landlock" in note


def test_simulation_hides_named_calls():
    code = "import ctypes; c = ctypes.CDLL(None, use_errno=True); c.syscall(442, -1, b'', 0, None, 0); print(ctypes.get_errno())"
    command = [sys.executable, "-m", "tests.support.older_kernel", "mount_setattr", sys.executable, "-c", code]
    assert int(subprocess.run(command, capture_output=True, check=True).stdout) == errno.ENOSYS
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(442, -1, b"", 0, None, 0)
    assert ctypes.get_errno() != errno.ENOSYS  # or the test above would compare a kernel with itself


def test_outer_filter_refusing_filters_is_noticed():
    code = "from stockade.linux import probe; print(probe._seccomp())"
    command = [sys.executable, "-m", "tests.support.older_kernel", "seccomp", sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "False\n"
