"""Limits and credentials of a running guest, read from outside. The guest's own statements do not count."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import stockade
from stockade.client import warden_process
from stockade.linux import cgroups
from tests.support import host

SLEEPER = "import sys; print('ready', flush=True); sys.stdin.read()"
WARM = False
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


@contextmanager
def running(policy: stockade.Policy) -> Iterator[int]:
    """Yield the host's pid of a sleeping guest."""
    read, write = os.pipe()
    results: list[stockade.Result] = []
    with os.fdopen(read, "rb", buffering=0) as stdin:
        run = threading.Thread(
            target=lambda: results.append(stockade.run(SLEEPER, policy=policy, stdin=stdin, warm=WARM))
        )
        run.start()
        try:
            found: list[int] = []
            assert host.eventually(lambda: found.extend(_sleepers()) or bool(found), 5)
            yield found[0]
        finally:
            os.close(write)
            run.join()
    assert results[0].ok, results[0]


def _guests() -> list[int]:
    return host.guests(warden_process.current().pid)


def _sleepers() -> list[int]:
    """Return the guests that stay. A worker's profiling run is a guest too, but ends at once."""
    there = _guests()
    time.sleep(0.05)
    return [pid for pid in _guests() if pid in there]


@pytest.fixture(params=[False, True], ids=["fresh", "warm"], autouse=True)
def warm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run each test with a fresh interpreter and with a warm one."""
    monkeypatch.setattr(sys.modules[__name__], "WARM", request.param)
    return bool(request.param)


def capless(theirs: dict[str, str], init: dict[str, str]) -> list[dict[str, str]]:
    """Return the status of the processes that must have no capability.

    A worker, the PID 1 of warm runs, is excluded: it is root of a user namespace above the guest's.
    """
    return [theirs] if WARM else [theirs, init]


def status(pid: int | str) -> dict[str, str]:
    lines = host.read(f"/proc/{pid}/status").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_guest_and_init_have_no_capability() -> None:
    mine = status("self")
    # The control: the test's own process has capabilities.
    assert int(mine["CapBnd"], 16) != 0 and mine["NoNewPrivs"] == "0"
    with running(stockade.Policy()) as guest:
        theirs = status(guest)
        init = status(int(theirs["PPid"]))
    for each in capless(theirs, init):
        assert {name: int(each[name], 16) for name in CAPABILITIES} == dict.fromkeys(CAPABILITIES, 0)
        assert each["NoNewPrivs"] == "1"


@pytest.mark.parametrize("inside", [0, 1000])
def test_guest_is_never_root_of_the_host(inside) -> None:
    with running(stockade.Policy(security={"uid": inside})) as guest:
        theirs = status(guest)
        init = status(int(theirs["PPid"]))
    for each in (theirs, init):
        assert 0 not in map(int, each["Uid"].split() + each["Gid"].split())
        if os.geteuid() == 0:
            assert min(map(int, each["Uid"].split())) >= 2_000_000_000
            assert each["Groups"] == ""


@pytest.mark.needs("root")
def test_two_runs_never_share_a_uid() -> None:
    with running(stockade.Policy()) as guest:
        with_it = {status(pid)["Uid"] for pid in _guests()}
        other = stockade.run("import time; time.sleep(0)")
        assert other.ok
        assert len(with_it) == 1 and status(guest)["Uid"] in with_it


def test_every_namespace_differs_from_host() -> None:
    kinds = ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup")
    with running(stockade.Policy()) as guest:
        for kind in kinds:
            assert Path(f"/proc/{guest}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink(), kind


def test_resource_limits_match_policy() -> None:
    limits = {"open_files": 40, "file_size": 12345, "stack": "1MiB", "processes": 7, "cpu_time": 3}
    with running(stockade.Policy(limits=limits)) as guest:
        rows = host.read(f"/proc/{guest}/limits").splitlines()
    found = {row[:26].strip(): row[26:].split()[:2] for row in rows[1:]}
    assert found["Max open files"] == ["40", "40"]
    assert found["Max file size"] == ["12345", "12345"]
    assert found["Max stack size"] == ["1048576", "1048576"]
    beyond = 64 if "pids" in stockade.plan().facts.cgroups else 0  # only a second bound, because the group counts
    assert found["Max processes"] == [str(7 + beyond)] * 2
    assert int(found["Max cpu time"][0]) in {3, 4}  # only a second bound, because the warden ends the run first
    assert found["Max core file size"] == ["1", "1"]  # 0 would let a core handler behind a pipe run (core(5))
    if "memory" not in stockade.plan().facts.cgroups:
        assert found["Max data size"] == [str(256 << 20)] * 2


@pytest.mark.needs("cgroup-memory", "cgroup-pids")
def test_control_group_limits_match_policy() -> None:
    policy = stockade.Policy(limits={"memory": "40MiB", "swap": "8MiB", "processes": 7, "cpu_rate": 0.5})
    with running(policy) as guest:
        read = {key: value for name in _group_files() for key, value in _read_group(guest, *name)}
    assert read["memory"] == 40 << 20
    assert read.get("swap", 48 << 20) in {48 << 20, 8 << 20}  # v1 counts memory and swap together
    assert 7 <= read["pids"] <= 9  # the sandbox's own processes can be in the group; an attack tries the exact number


def _group_files() -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        ("memory", "memory", ("memory.limit_in_bytes", "memory.max")),
        ("swap", "memory", ("memory.memsw.limit_in_bytes", "memory.swap.max")),
        ("pids", "pids", ("pids.max",)),
    ]


def _read_group(pid: int, key: str, controller: str, files: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    own = host.read(f"/proc/{pid}/cgroup").splitlines()
    for hierarchy in cgroups.find():
        if controller not in hierarchy.controllers:
            continue
        for line in own:
            _, names, path = line.split(":", 2)
            if (controller in names.split(",")) or (hierarchy.version == 2 and not names):
                tail = path[path.index(f"/{cgroups.PREFIX}") :] if f"/{cgroups.PREFIX}" in path else ""
                for file in files:
                    text = host.read(f"{hierarchy.path}{tail}/{file}").strip()
                    if tail and text.isdigit():
                        yield key, int(text)


def test_swap_receipt_matches_the_host() -> None:
    """If no group counts swap, the host must have none. The plan's claim is compared with the kernel's."""
    held = stockade.plan().enforcement[stockade.Guarantee.SWAP]
    has_swap = len(Path("/proc/swaps").read_text(encoding="utf-8").splitlines()) > 1
    if held.mechanism == "the host has no swap":
        assert not has_swap
    elif held.strength == "absent":
        assert has_swap


@pytest.mark.alone
@pytest.mark.needs("cgroup-cpu")
def test_cpu_rate_bounds_a_loop() -> None:
    """As the control, the same loop gets a whole core without the limit."""
    spin = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    free = stockade.run(spin).usage
    held = stockade.run(spin, policy=stockade.Policy(limits={"cpu_rate": 0.25})).usage
    assert free.cpu_seconds / free.wall_seconds > 0.6
    assert held.cpu_seconds / held.wall_seconds < 0.35


@pytest.mark.needs("root")
def test_supplementary_groups_are_dropped(tmp_path) -> None:
    """If the groups were kept, a guest could read their files (seen with a group that owns /etc/shadow)."""
    tmp_path.chmod(0o755)
    file = tmp_path / "for-the-group"
    file.write_text("secret")
    os.chown(file, 0, 4242)
    file.chmod(0o040)
    script = (
        "import os, sys, stockade; os.setgroups([4242]); os.setegid(4242)\n"
        "assert 4242 in os.getgroups()\n"
        "os.setegid(0)\n"
        "code = 'import os, sys; print(os.getgroups()); open(sys.argv[1]).read()'\n"
        "policy = stockade.Policy(filesystem={'read': [sys.argv[1]]})\n"
        "r = stockade.run(code, policy=policy, arguments=[sys.argv[1]])\n"
        "print(r.error.type, r.stdout.strip())"
    )
    for parent in [tmp_path.parent, tmp_path.parent.parent]:
        parent.chmod(0o755)
    answer = subprocess.run(
        [sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout.split(maxsplit=1)[0] == "PermissionError", answer.stdout
    assert "4242" not in answer.stdout


def test_guest_has_four_descriptors_only() -> None:
    with running(stockade.Policy()) as guest:
        time.sleep(0.1)
        assert sorted(map(int, host.descriptors(guest))) == [0, 1, 2, 3]
