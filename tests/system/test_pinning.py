"""A fork copies pinned pages, and the io_uring that pins them is useless for anything else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support import host

pytestmark = [pytest.mark.needs("io_uring"), pytest.mark.timing]

_MEMORY = """
import ctypes, mmap, os, resource, struct, sys
from stockade.linux import libc, pinning
pages = 256
memory = mmap.mmap(-1, pages * pinning.PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = b"M" * len(memory)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
"""
_FAULTS = (
    _MEMORY
    + """
if "pinned" in sys.argv:
    ring = pinning.open_ring()
    nowhere = (1 << 40, pinning.PAGE, True)
    pinning.pin(ring, [nowhere, *((address + half, len(memory) // 2, True) for half in (0, len(memory) // 2))])
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
if os.fork() == 0:
    before = faults()
    for at in range(0, len(memory), pinning.PAGE):
        memory[at] = 67
    print(faults() - before, flush=True)
    os._exit(0)
os.wait()
print(memory[0])
"""
)
_LESS = (
    _MEMORY
    + """
os.setresuid(65534, 65534, 65534)  # who may lock memory without a limit has none
ring = pinning.open_ring()
pinning.pin(ring, [(address + 8 * at * pinning.PAGE, 4 * pinning.PAGE, True) for at in range(32)])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmPin")))
"""
)
_OWN = (
    _MEMORY
    + """
if os.fork() == 0:
    for at in (3, 4, 5, 9):
        memory[at * pinning.PAGE] = 67
    maps, pagemap = (os.open(f"/proc/self/{name}", os.O_RDONLY) for name in ("maps", "pagemap"))
    runs = [run for run in pinning.own_pages(maps, pagemap) if address <= run[0] < address + len(memory)]
    print([((at - address) // pinning.PAGE, size // pinning.PAGE, anonymous) for at, size, anonymous in runs], flush=True)
    os._exit(0)
os.wait()
"""
)
_WRITE = (
    _MEMORY
    + """
parameters = ctypes.create_string_buffer(struct.pack("=10I80x", 0, 0, 1 << 6, *[0] * 7))
ring = libc.syscall("io_uring_setup", 1, parameters)
if "pinned" in sys.argv:
    pinning.pin(ring, [(address, len(memory), True)])
else:
    assert pinning._register(ring, [(address, len(memory), True)])
    libc.syscall("io_uring_register", ring, 12, 0, 0)
entries, completed, *_ = struct.unpack_from("=10I", parameters)
submit = struct.unpack_from("=7I", parameters, 40)  # head, tail, mask, entries, flags, dropped, array
complete = struct.unpack_from("=7I", parameters, 80)  # head, tail, mask, entries, overflow, entries themselves
size = max(submit[6] + entries * 4, complete[5] + completed * 16)
rings, requests = mmap.mmap(ring, size, offset=0), mmap.mmap(ring, entries * 64, offset=0x10000000)
there, _ = os.pipe()[::-1]
requests[:64] = struct.pack("=BBHiQQIIQHHIQQ", 5, 0, 0, there, 0xFFFFFFFFFFFFFFFF, address, 8, 0, 7, 0, 0, 0, 0, 0)  # WRITE_FIXED
rings[submit[6] : submit[6] + 4] = struct.pack("=I", 0)
rings[submit[1] : submit[1] + 4] = struct.pack("=I", 1)
libc.NUMBERS["io_uring_enter"] = 426
try:
    libc.syscall("io_uring_enter", ring, 1, 1, 1, 0, 0)
    print(struct.unpack_from("=Qi", rings, complete[5])[1])
except OSError as error:
    print(-error.errno)
try:
    libc.syscall("io_uring_register", ring, 1, 0, 0)  # UNREGISTER_BUFFERS
    print("let go")
except OSError as error:
    print(error.errno)
"""
)


@pytest.fixture(autouse=True)
def nothing_pinned() -> Iterator[None]:
    """Wait until nothing is pinned: an ordinary user's other pinned pages count here as well."""
    with host.as_before():
        yield


def printed(code: str, *arguments: str) -> list[str]:
    """Run ``code`` and return its lines. Unpinned pages stop counting only after a while, so retry."""
    done: list[subprocess.CompletedProcess[str]] = []

    def runs() -> bool:
        command = [sys.executable, "-c", code, *arguments]
        done.append(subprocess.run(command, capture_output=True, text=True, timeout=30, check=False))
        return done[-1].returncode == 0

    assert host.eventually(runs, 20), done[-1].stderr
    return done[-1].stdout.splitlines()


def test_child_has_own_pages_after_fork() -> None:
    (shared, kept), (copied, as_kept) = printed(_FAULTS), printed(_FAULTS, "pinned")
    assert (kept, as_kept) == ("77", "77")  # what the child has written is not the parent's
    assert int(shared) >= 256 and int(copied) < 100


def test_pinning_stays_within_memlock() -> None:
    allowed = 1 << 18
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_MEMLOCK, ({allowed}, {allowed}))\n"
    some = printed(limit + _LESS)
    assert 16 <= int(some[0]) <= allowed // 1024


def test_written_pages_since_fork_are_known() -> None:
    assert printed(_OWN) == ["[(3, 3, True), (9, 1, True)]"]


def test_pinning_io_uring_is_useless_to_holder() -> None:
    assert printed(_WRITE) == ["8", "let go"]
    assert printed(_WRITE, "pinned") == ["-13", "13"]
