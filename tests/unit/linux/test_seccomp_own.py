"""A custom filter as a table: the calls that it adds, those that stay closed, and those that it lacks."""

import errno
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.linux.test_seccomp_bpf import assert_agree

from stockade.linux.seccomp import own
from stockade.linux.seccomp.docker import load_profile
from stockade.linux.seccomp.filters import listening, table_of
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.syscalls import Arch, numbers
from stockade.linux.seccomp.table import (
    ALLOW,
    KILL_PROCESS,
    LOG,
    NOTIFY,
    REFUSE,
    UNIMPLEMENTED,
    Table,
    allow_if,
    answer,
    low,
)

NR = numbers(Arch.X86_64)
OURS = table_of(Filter.STANDARD, Arch.X86_64)
I386 = 0x40000003


def theirs(*entries: dict[str, Any], default: str = "SCMP_ACT_ERRNO") -> Table:
    document = {"defaultAction": default, "syscalls": list(entries)}
    return load_profile(json.dumps(document), Arch.X86_64, added_to=None, kernel=(6, 1))


def added(*entries: dict[str, Any], default: str = "SCMP_ACT_ERRNO") -> Table:
    return own.added(OURS, theirs(*entries, default=default))


def entry(*names: str, action: str = "SCMP_ACT_ALLOW", **more: Any) -> dict[str, Any]:
    return {"names": list(names), "action": action, **more}


def test_added_named_call_alone_is_allowed() -> None:
    table = added(entry("mount"))
    assert (OURS.decide(NR["mount"]), table.decide(NR["mount"])) == (REFUSE, ALLOW)
    assert all(table.decide(nr) == OURS.decide(nr) for nr in range(600) if nr != NR["mount"])


def test_added_entry_arguments_are_checked() -> None:
    only_seven = {"index": 0, "value": 7, "op": "SCMP_CMP_EQ"}
    table = added(entry("acct", args=[only_seven]))
    assert [table.decide(NR["acct"], (value, *(0,) * 5)) for value in (7, 8)] == [ALLOW, REFUSE]


def test_added_refusing_file_removes_nothing() -> None:
    for action in ("SCMP_ACT_ERRNO", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_TRAP"):
        table = added(default=action)
        assert all(table.decide(nr) == OURS.decide(nr) for nr in range(600))


def test_added_log_action_is_kept() -> None:
    assert added(entry("mount", action="SCMP_ACT_LOG")).decide(NR["mount"]) == LOG


@pytest.mark.parametrize("default", ["SCMP_ACT_ALLOW", "SCMP_ACT_LOG"])
@pytest.mark.parametrize(
    ("name", "args", "action"),
    [
        ("clone", (0x10000011,), REFUSE),
        ("clone3", (), UNIMPLEMENTED),
        ("unshare", (0x10000000,), REFUSE),
        ("unshare", (1 << 40 | 0x10000000,), REFUSE),
        ("ioctl", (0, 0x5412), REFUSE),
        ("ioctl", (0, 1 << 40 | 0x5412), REFUSE),
        ("prlimit64", (1,), REFUSE),
        ("prlimit64", (0, 4, 1, 0), answer(0)),
        ("setrlimit", (4, 1), answer(0)),
        ("socket", (40, 1), answer(errno.EAFNOSUPPORT)),
        ("io_uring_setup", (), REFUSE),
    ],
)
def test_added_file_cannot_open_closed_calls(default: str, name: str, args: tuple[int, ...], action: int) -> None:
    full = (*args, *(0,) * (6 - len(args)))
    table = added(default=default)
    assert table.decide(NR[name], full) == action
    assert own.stays_closed(table, NR[name], full)
    assert not own.stays_closed(table, NR["mount"], full)


def test_added_file_keeps_own_allowed_calls() -> None:
    permissive = table_of(Filter.PERMISSIVE, Arch.X86_64)
    table = own.added(permissive, theirs())
    assert table.decide(NR["clone"], (0x10000011, 0, 0, 0, 0, 0)) == ALLOW


def test_added_foreign_calls_stay_refused() -> None:
    for table in (added(default="SCMP_ACT_ALLOW"), theirs(default="SCMP_ACT_ALLOW")):
        for each in (table, listening(table)):
            assert each.decide(20, audit=I386) == KILL_PROCESS
            assert each.decide(1 << 30 | 39) == UNIMPLEMENTED


def test_added_table_agrees_with_program() -> None:
    only_seven = {"index": 0, "value": 7, "op": "SCMP_CMP_EQ"}
    table = added(entry("acct", args=[only_seven]), entry("ioctl", "clone", "unshare", "mount"))
    assert_agree(table)
    assert_agree(listening(table))


def test_listening_second_listener_is_refused() -> None:
    for table in (*(table_of(which, Arch.X86_64) for which in Filter), theirs(default="SCMP_ACT_ALLOW")):
        asking = listening(table)
        for flags in (8, 8 | 1, 1 << 40 | 8):
            assert asking.decide(NR["seccomp"], (1, flags, 0, 0, 0, 0)) == answer(errno.EBUSY)
        plain = table.with_notify()
        assert all(asking.decide(nr) == plain.decide(nr) for nr in range(600))


def test_refusals_keep_their_own_errno() -> None:
    table = theirs(
        entry("acct", action="SCMP_ACT_ERRNO", errnoRet=5),
        entry("mount", action="SCMP_ACT_ERRNO", errnoRet=0),
        entry("swapon", action="SCMP_ACT_ERRNO", errnoRet=38),
        entry("reboot", action="SCMP_ACT_KILL"),
        default="SCMP_ACT_ALLOW",
    )
    assert table.refusals() == {NR["acct"]: 5}
    names = ("acct", "mount", "swapon", "reboot")
    decided = [table.with_notify().decide(NR[name]) for name in names]
    assert decided == [NOTIFY, answer(0), UNIMPLEMENTED, 0]


def test_refusals_two_errnos_notify_only_lowest() -> None:
    rule = allow_if((low(0, 1),), otherwise=REFUSE).narrowed_by(allow_if((low(1, 1),), otherwise=answer(5)))
    table = Table(Arch.X86_64, {1: rule})
    assert table.refusals() == {1: errno.EPERM}
    answers = [table.with_notify().decide(1, (*args, 0, 0, 0, 0)) for args in ((0, 0), (1, 0), (1, 1))]
    assert answers == [NOTIFY, answer(5), ALLOW]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.sampled_from(sorted(NR.values())))
def test_added_table_is_union_of_both(first: int, second: int, nr: int) -> None:
    file = theirs(entry("mount", "clone", "ioctl", "acct"))
    table, args = own.added(OURS, file), (first, second, 0, 0, 0, 0)
    if OURS.decide(nr, args) == ALLOW:
        assert table.decide(nr, args) == ALLOW
    elif file.decide(nr, args) != ALLOW:
        assert table.decide(nr, args) == OURS.decide(nr, args)


def test_lacking_names_calls_to_start_a_program() -> None:
    assert own.lacking(OURS) == own.lacking(table_of(Filter.TIGHT, Arch.X86_64)) == []
    assert own.lacking(table_of(Filter.TIGHT, Arch.AARCH64)) == []
    assert "execve" in own.lacking(theirs()) and "mmap" in own.lacking(theirs())
    assert own.lacking(theirs(entry("execve", action="SCMP_ACT_KILL"), default="SCMP_ACT_ALLOW")) == ["execve"]
