"""Refused calls, which kernel and warden name together: counted, bounded, and never a way out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support import host

import stockade
from stockade.client import warden_process
from stockade.linux.seccomp.syscalls import Arch, numbers
from stockade.warden.run.denials import BUDGET

MACHINE = os.uname().machine
pytestmark = [
    pytest.mark.timing,
    pytest.mark.needs("native"),
    pytest.mark.skipif(MACHINE not in list(Arch), reason=f"no system-call table for {MACHINE}"),
]
NR = numbers(Arch(MACHINE)) if MACHINE in list(Arch) else {}
LISTENER = "seccomp notify"
CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(arg) for arg in args))
    return ctypes.get_errno() if result == -1 else 0
"""
FLOOD = f"""
found = {{}}
for _ in range(1_000_000):
    code = call({NR.get("mount")}, 0, 0, 0, 0, 0)
    found[code] = found.get(code, 0) + 1
found
"""


def policy(**security: object) -> stockade.Policy:
    return stockade.Policy(security={"explain_denials": True, **security}, limits={"wall_time": 60, "cpu_time": 60})


def run(code: str, **security: object) -> stockade.Result:
    result = stockade.run(CALL + code, policy=policy(**security))
    assert result.outcome == "completed", (result.summary(), result.stderr)
    return result


def warden_cpu() -> float:
    fields = host.read(f"/proc/{warden_process.current().pid}/stat").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_refused_calls_named_counted_with_own_errno() -> None:
    code = f"""
m, s, c, p = {NR["mount"]}, {NR["socket"]}, {NR["clone3"]}, {NR["prlimit64"]}
[call(m, 0, 0, 0, 0, 0), call(m, 0, 0, 0, 0, 0), call(s, 40, 1, 0), call(c, 0, 0), call(p, 1, 7, 0, 0)]
"""
    plain = stockade.run(CALL + code)
    result = run(code)
    assert result.value == plain.value == [1, 1, 97, 38, 1]
    assert plain.denials == ()
    assert [(denial.call, denial.count) for denial in result.denials] == [("mount", 2), ("socket", 1), ("prlimit64", 1)]
    assert not result.denials_truncated
    mount = result.denials[0]
    assert mount.explanation.startswith("attaches a file system; the 'standard' filter refuses it because the mount")
    assert mount.allowed_by == "security.syscalls='permissive'"
    assert json.loads(json.dumps(result.as_json()))["denials"][0]["call"] == "mount"


@pytest.mark.parametrize("which", ["tight", "standard", "permissive"])
def test_program_without_refusals_has_no_denials(which: str) -> None:
    for _ in range(3):  # the first cell is made for it, the later ones ahead
        result = stockade.run_command(["true"], policy=policy(syscalls=which))
        assert (result.outcome, result.denials, result.denials_truncated) == ("completed", (), False)


def test_prewarmed_instance_reports_denials() -> None:
    for _ in range(4):
        result = run(f"call({NR['mount']}, 0, 0, 0, 0, 0)")
        assert [(denial.call, denial.count) for denial in result.denials] == [("mount", 1)]
        time.sleep(0.4)  # until the next cell has said that it is ready


def test_filter_loaded_late_reports_denials(tmp_path: Path) -> None:
    """Files shown to a command keep the instance from being prewarmed, so the listener comes after the launch."""
    tmp_path.chmod(0o755)
    (tmp_path / "shown").write_text("x")
    from stockade.api.job_arguments import job_from_command
    from stockade.api.runner import Runner

    old = Path.cwd()
    os.chdir(tmp_path)
    try:
        job = job_from_command(["sh", "-c", "cat shown; unshare -U true; exit 0"], inputs=["shown"])
        result = Runner(policy()).run_job(job)
    finally:
        os.chdir(old)
    assert result.stdout == "x"
    assert [(denial.call, denial.count) for denial in result.denials] == [("unshare", 1)]


def test_flood_costs_warden_only_its_budget() -> None:
    run("1")
    before = warden_cpu()
    result = run(FLOOD)
    spent = warden_cpu() - before
    assert result.value == {"1": BUDGET, "38": 1_000_000 - BUDGET}
    assert [(denial.call, denial.count) for denial in result.denials] == [("mount", BUDGET)]
    assert result.denials_truncated
    assert spent < 1.0, spent


def test_flood_leaves_other_runs_unharmed() -> None:
    async def main() -> tuple[float, list[stockade.Result], list[stockade.Result]]:
        floods = [asyncio.create_task(stockade.AsyncRunner(policy()).run(CALL + FLOOD)) for _ in range(3)]
        slowest, results = 0.0, []
        while not all(flood.done() for flood in floods):
            begin = time.monotonic()
            results.append(await stockade.AsyncRunner(policy()).run_command(["true"]))
            slowest = max(slowest, time.monotonic() - begin)
        return slowest, results, [await flood for flood in floods]

    slowest, results, floods = asyncio.run(main())
    assert len(results) > 3 and all(result.outcome == "completed" and result.denials == () for result in results)
    assert slowest < 3, slowest
    assert all(flood.denials_truncated for flood in floods)


def test_flood_does_not_delay_its_end() -> None:
    code = CALL + f"while True: call({NR['mount']}, 0, 0, 0, 0, 0)"
    limits = {"wall_time": 0.5}
    result = stockade.run(code, policy=stockade.Policy(security={"explain_denials": True}, limits=limits))
    assert result.limit == "wall_time"
    assert result.usage.wall_seconds < 0.7


def test_interrupted_calls_count_in_budget() -> None:
    code = f"""
import signal, time
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
end = time.monotonic() + 2
made = 0
while time.monotonic() < end:
    call({NR["mount"]}, 0, 0, 0, 0, 0)
    made += 1
signal.setitimer(signal.ITIMER_REAL, 0)
made
"""
    before = warden_cpu()
    result = run(code)
    assert warden_cpu() - before < 1.0
    assert sum(denial.count for denial in result.denials) <= min(BUDGET, result.value)


# Over a filter whose listener is closed a guest may load one that asks itself, and answer "continue".
TAKE_OVER = f"""
import fcntl, os, struct, threading
def answer(end):
    listener = int(os.read(end, 16))
    notice = bytearray(80)
    fcntl.ioctl(listener, 0xC0502100, notice)
    fcntl.ioctl(listener, 0xC0182101, bytearray(struct.pack("<QqiI", struct.unpack_from("<Q", notice)[0], 0, 0, 1)))
for _ in range({BUDGET} + 10):
    call({NR.get("mount")}, 0, 0, 0, 0, 0)
reader, writer = os.pipe()
threading.Thread(target=answer, args=(reader,), daemon=True).start()
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, {NR.get("unshare")}), (6, 0, 0, 0x7FC00000), (6, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *row) for row in rows))
header = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 4, ctypes.addressof(program)))
call({NR.get("prctl")}, 38, 1, 0, 0, 0)
listener = libc.syscall(ctypes.c_long({NR.get("seccomp")}), ctypes.c_ulong(1), ctypes.c_ulong(8), header)
refused = ctypes.get_errno()
if listener >= 0:
    os.write(writer, str(listener).encode())
[refused, call({NR.get("unshare")}, 0x400)]
"""


@pytest.mark.parametrize("which", ["standard", "permissive"])
def test_guest_past_budget_cannot_answer_itself(which: str, tmp_path: Path) -> None:
    expected = {"standard": [16, 38], "permissive": [16, 0]}[which]  # the permissive filter allows unshare
    assert run(TAKE_OVER, syscalls=which).value == expected
    everything = tmp_path / "all.json"
    refused = [{"names": ["unshare", "mount"], "action": "SCMP_ACT_ERRNO"}]
    everything.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": refused}))
    assert run(TAKE_OVER, syscalls_file=str(everything), syscalls_mode="replace").value == [16, 38]


def test_guest_holds_no_listener() -> None:
    listed = run("import os\n[os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if int(n) != 4]")
    assert not any(LISTENER in name for name in listed.value)
    sleeping = threading.Thread(target=run, args=("import time; time.sleep(2)",))
    sleeping.start()
    try:
        warden = warden_process.current().pid
        assert host.eventually(lambda: LISTENER in str(host.descriptors(warden)), 2)
        time.sleep(0.5)
        holders = [pid for pid in host.descendants(warden) if LISTENER in str(host.descriptors(pid))]
        assert holders == []
    finally:
        sleeping.join()


def test_run_leaves_no_listener_behind() -> None:
    for _ in range(20):
        run("1")
    spares = listeners()
    for _ in range(20):
        run("1")
    more = 4  # cells and copies that are made ahead, now and then one more of each
    assert host.eventually(lambda: listeners() <= spares + more, 5), (spares, listeners())


def listeners() -> int:
    return sum(LISTENER in name for name in host.descriptors(warden_process.current().pid).values())


@pytest.mark.needs("numpy")
def test_numpy_runs_under_listening_filter() -> None:
    code = "import numpy\nfloat(numpy.linalg.inv(numpy.eye(200) * 2)[0][0])"
    result = stockade.run(code, policy=policy(), interpreter=sys.prefix)
    assert result.value == 0.5, result.stderr
    assert not result.denials_truncated
