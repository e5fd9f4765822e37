"""A user's own filter on the real kernel: the calls that it opens, and those that stay refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stockade
from stockade.linux.seccomp.syscalls import Arch, numbers

MACHINE = os.uname().machine
pytestmark = [
    pytest.mark.needs("native"),
    pytest.mark.skipif(MACHINE not in list(Arch), reason=f"no system-call table for {MACHINE}"),
]
NR = numbers(Arch(MACHINE)) if MACHINE in list(Arch) else {}
CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(arg) for arg in args))
    return ctypes.get_errno() if result == -1 else 0
"""
CLONE_FILES, NEW_USER, NEW_NET, CHILD = 0x400, 0x10000000, 0x40000000, 17
EPERM, EAFNOSUPPORT, ENOSYS = 1, 97, 38
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a profile; return its path."""

    def write(*entries: Any, default: str = "SCMP_ACT_ERRNO") -> str:
        path = tmp_path / "profile.json"
        path.write_text(json.dumps({"defaultAction": default, "syscalls": list(entries)}))
        return str(path)

    return write


def allow(*names: str) -> dict[str, Any]:
    return {"names": list(names), "action": "SCMP_ACT_ALLOW"}


def value(code: str, **security: Any) -> Any:
    result = stockade.run(CALL + code, policy=stockade.Policy(security=security))
    assert result.outcome == "completed", (result.summary(), result.stderr)
    return result.value


UNSHARE = f"call({NR.get('unshare')}, {CLONE_FILES})"


def test_added_call_is_allowed_beside_ours(write: Write) -> None:
    file = write(allow("unshare"))
    assert value(UNSHARE) == EPERM
    assert value(UNSHARE, syscalls_file=file) == 0
    assert value(f"call({NR['mount']}, 0, 0, 0, 0, 0)", syscalls_file=file) == EPERM


def test_closed_call_cannot_be_added(write: Write) -> None:
    code = f"""
[call({NR["unshare"]}, {NEW_USER}), call({NR["clone"]}, {NEW_USER | CHILD}, 0, 0, 0, 0),
 call({NR["clone3"]}, 0, 0), call({NR["ioctl"]}, 0, 0x5412, 0), call({NR["ioctl"]}, 0, 1 << 40 | 0x5412, 0),
 call({NR["io_uring_setup"]}, 1, 0), call({NR["socket"]}, 40, 1, 0)]
"""
    added = value(code, syscalls_file=write(default="SCMP_ACT_ALLOW"))
    assert added == [EPERM, EPERM, ENOSYS, EPERM, EPERM, EPERM, EAFNOSUPPORT]
    logged = value(code, syscalls_file=write(default="SCMP_ACT_LOG"))
    assert logged == added
    replaced = value(code, syscalls_file=write(default="SCMP_ACT_ALLOW"), syscalls_mode="replace")
    assert EPERM not in replaced[3:6]


def test_replacing_file_decides_alone(write: Write) -> None:
    getpid = f"call({NR['getppid']})"
    assert value(getpid) == 0
    file = write({"names": ["getppid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 77}, default="SCMP_ACT_ALLOW")
    assert value(getpid, syscalls_file=file, syscalls_mode="replace") == 77
    assert value(getpid, syscalls_file=file) == 0
    assert value(UNSHARE, syscalls_file=file, syscalls_mode="replace") == 0


ENTER_32_BIT = """
import mmap
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
page.write(bytes.fromhex("53 89f8 31db 31c9 31d2 31f6 31ff cd80 5b c3"))
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)(20)
"""


@pytest.mark.needs("ia32")
@pytest.mark.parametrize("mode", ["add", "replace"])
@pytest.mark.parametrize("explain", [False, True])
def test_32_bit_entry_kills_under_any_file(mode: str, explain: bool, write: Write) -> None:
    security = {"syscalls_file": write(default="SCMP_ACT_ALLOW"), "syscalls_mode": mode, "explain_denials": explain}
    result = stockade.run(CALL + ENTER_32_BIT, policy=stockade.Policy(security=security))
    assert (result.outcome, result.signal) == ("crashed", 31)


def test_minimal_file_starts_a_program(write: Write) -> None:
    from stockade.linux.seccomp import own

    loader = "access arch_prctl set_tid_address set_robust_list rseq pread64 getrandom"
    file = write(allow(*own._NEEDED.split(), *loader.split()))
    for explain in (False, True):
        security = {"syscalls_file": file, "syscalls_mode": "replace", "explain_denials": explain}
        for _ in range(2):
            result = stockade.run_command(
                ["/bin/true"], files={"folder/file": "x"}, policy=stockade.Policy(security=security)
            )
            assert (result.outcome, result.denials) == ("completed", ()), (result.summary(), result.denials)


def test_plan_keeps_file_content(write: Write) -> None:
    file = write(allow("unshare"))
    box = stockade.Runner(stockade.Policy(security={"syscalls_file": file}))
    Path(file).unlink()
    assert box.run(CALL + UNSHARE).value == 0
    assert box.plan.enforcement["syscalls"].mechanism == f"seccomp filter of {file}, in addition to 'standard'"


def test_denial_names_the_file(write: Write) -> None:
    file = write(allow("unshare"))
    security = {"syscalls_file": file, "explain_denials": True}
    result = stockade.run(CALL + f"call({NR['acct']}, 0)", policy=stockade.Policy(security=security))
    assert [denial.call for denial in result.denials] == ["acct"]
    assert f"and {file} does not allow it" in result.denials[0].explanation
    assert result.denials[0].allowed_by == "security.syscalls_file: a custom filter that allows it"
