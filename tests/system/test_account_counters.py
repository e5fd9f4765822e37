"""Counters that the kernel keeps for a whole account: a guest has a bounded share, or the receipt names the counter."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time

import pytest

import stockade

pytestmark = pytest.mark.alone
SYSTEM_PYTHON = "/usr/bin/python3"
ACCEPT = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
NEEDS = {
    "native": ("native",),
    "bubblewrap": ("bwrap",),
    "oci": ("crun",),
    "firejail": ("firejail",),
    "process": (),
}
INSTANCES, WATCHES, SIGNALS = 16, 1024, 1024
TAKE = """
import ctypes, json, os, signal, tempfile, time

libc = ctypes.CDLL(None, use_errno=True)
instances = []
while len(instances) < 20 and (fd := libc.inotify_init1(0)) >= 0:
    instances.append(fd)
watches = 0
with tempfile.TemporaryDirectory() as folder:
    for number in range(1100 if instances else 0):
        path = f"{folder}/{number}"
        open(path, "w").close()
        if libc.inotify_add_watch(instances[0], path.encode(), 2) < 0:
            break
        watches += 1
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
signals = 0
while signals < 1100 and libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(1)) == 0:
    signals += 1
attributes = (ctypes.c_long * 8)(0, 1, 8)
queue = libc.mq_open(b"/account", os.O_CREAT | os.O_RDWR, 0o600, ctypes.byref(attributes))
if queue >= 0:
    libc.mq_unlink(b"/account")
context = ctypes.c_ulong(0)
aio = libc.syscall({"x86_64": 206, "aarch64": 0}[os.uname().machine], 8, ctypes.byref(context))
key = libc.syscall({"x86_64": 248, "aarch64": 217}[os.uname().machine], b"user", b"account", b"x", 1, -3)
namespace = libc.unshare(0x10000000)
taken = {"instances": len(instances), "watches": watches, "signals": signals, "queue": queue >= 0, "aio": aio >= 0,
         "key": key >= 0, "namespace": namespace == 0}
time.sleep(HOLD)
print(json.dumps(taken))
"""
TAKE_PIPES = """
import os, time

for _ in range(9):
    if os.fork() == 0:
        break
pipes = []
while True:
    try:
        pipes.append(os.pipe())
    except OSError:
        break
time.sleep(15)
os._exit(0)
"""
NOTHING = {"queue": False, "aio": False, "key": False, "namespace": False}


def _take(hold: float = 0.0) -> str:
    return TAKE.replace("HOLD", str(hold))


def _shares(backend: str) -> dict[str, int]:
    """Return the share of a guest under ``backend``. Other user namespaces than ours have no settable bounds."""
    ours = backend in ("native", "oci")
    bounded = ours or (backend != "process" and os.geteuid() == 0)
    share = INSTANCES if ours else 20
    watches = WATCHES if ours else 1100
    return {"instances": share if bounded else 0, "watches": watches if bounded else 0, "signals": SIGNALS, **NOTHING}


@pytest.fixture(scope="module")
def unconfined() -> dict[str, int]:
    """Return how much the same program takes outside a sandbox, where it must get more."""
    said = subprocess.run([SYSTEM_PYTHON, "-c", _take()], check=True, capture_output=True, text=True)
    taken = json.loads(said.stdout)
    assert taken["instances"] > INSTANCES
    assert taken["watches"] > WATCHES
    assert taken["signals"] > SIGNALS
    assert taken["aio"]
    return taken


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize("backend", [pytest.param(name, marks=pytest.mark.needs(*NEEDS[name])) for name in NEEDS])
def test_guest_takes_its_share_and_no_more(backend: str) -> None:
    policy = stockade.Policy(accept=ACCEPT)
    result = stockade.run(_take(), policy=policy, backend=backend, interpreter=SYSTEM_PYTHON)
    taken, shares = json.loads(result.stdout), _shares(backend)
    # Without a user namespace of its own, a guest finds less where others of its account have signals pending.
    assert 0 < taken.pop("signals") <= shares.pop("signals")
    assert taken == shares, result.stderr


@pytest.mark.needs("native")
def test_neighbours_and_later_runs_have_full_shares() -> None:
    async def together() -> list[stockade.Result]:
        async with stockade.AsyncRunner(backend="native") as box:
            held = await asyncio.gather(*(box.run(_take(hold=0.5)) for _ in range(3)))
            return [*held, await box.run(_take())]

    assert [json.loads(result.stdout) for result in asyncio.run(together())] == [_shares("native")] * 4


@pytest.mark.needs("unprivileged", "native")
def test_used_up_pipe_pages_stop_no_neighbour() -> None:
    async def until_used_up() -> stockade.Result:
        async with stockade.AsyncRunner(backend="native") as box:
            hog = asyncio.create_task(box.run(TAKE_PIPES))
            until = time.monotonic() + 10
            while True:
                neighbour = await box.run("import fcntl, os\nprint('x' * 60_000)\nfcntl.fcntl(os.pipe()[0], 1032)")
                if neighbour.value == 2 * 4096 or not neighbour.ok or time.monotonic() > until:
                    break
            hog.cancel()
            return neighbour

    neighbour = asyncio.run(until_used_up())
    assert neighbour.ok, neighbour.stderr
    assert neighbour.value == 2 * 4096, "the pages of the account are not used up"
    assert len(neighbour.stdout) == 60_001


def test_receipt_names_counters_without_bound() -> None:
    note = stockade.plan().enforcement[stockade.Guarantee.PRIVILEGES].note
    assert ("the kernel counts pipe pages, epoll watches and descriptors in flight" in note) == (os.geteuid() != 0)


@pytest.mark.needs("root", "native")
def test_receipt_names_account_of_the_policy() -> None:
    policy = stockade.Policy(security={"host_uid": 65534})
    assert "all other processes of uid 65534" in stockade.plan(policy).enforcement[stockade.Guarantee.PRIVILEGES].note
