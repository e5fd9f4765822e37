"""Profiles in Docker's JSON format become tables."""

import errno
import json
from typing import Any

import pytest

from stockade.linux.seccomp.docker import load_profile
from stockade.linux.seccomp.filters import table_of
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.syscalls import Arch, numbers
from stockade.linux.seccomp.table import ALLOW, KILL_THREAD, LOG, REFUSE, UNIMPLEMENTED, Table, answer

NR = numbers(Arch.X86_64)


def load(
    *entries: dict[str, Any],
    added_to: Table | None = None,
    arch: Arch = Arch.X86_64,
    kernel: tuple[int, int] = (6, 1),
    capabilities: tuple[str, ...] = (),
    **top: Any,
) -> Table:
    document = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": list(entries), **top}
    held = frozenset(capabilities)
    return load_profile(json.dumps(document), arch, added_to=added_to, kernel=kernel, capabilities=held)


def entry(*names: str, action: str = "SCMP_ACT_ALLOW", **rest: Any) -> dict[str, Any]:
    return {"names": list(names), "action": action, **rest}


def compare(op: str, value: int, index: int = 0, **rest: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": f"SCMP_CMP_{op}", **rest}


def args(*values: int) -> tuple[int, ...]:
    return (*values, *(0,) * (6 - len(values)))


def test_profile_replacing_decides_alone() -> None:
    table = load(entry("read", "mount"), defaultErrnoRet=errno.EACCES)
    assert table.decide(NR["mount"]) == ALLOW
    assert table.decide(NR["write"]) == answer(errno.EACCES)
    assert table.decide(5000) == UNIMPLEMENTED


def test_profile_added_only_narrows() -> None:
    ours = table_of(Filter.STANDARD, Arch.X86_64)
    table = load(entry("read", "mount", "clone", "socket"), added_to=ours)
    assert table.decide(NR["read"]) == ALLOW
    assert table.decide(NR["mount"]) == REFUSE
    assert table.decide(NR["write"]) == REFUSE
    assert table.decide(NR["clone3"]) == UNIMPLEMENTED
    assert table.decide(NR["clone"], args(0x10000000)) == REFUSE
    assert table.decide(NR["socket"], args(1)) == ALLOW
    assert table.decide(NR["socket"], args(40)) == answer(errno.EAFNOSUPPORT)


def test_profile_added_keeps_both_arguments() -> None:
    only_tcp = entry("socket", args=[compare("EQ", 1, index=1)])
    table = load(only_tcp, added_to=table_of(Filter.STANDARD, Arch.X86_64))
    decisions = [table.decide(NR["socket"], args(family, kind)) for family in (2, 40) for kind in (1, 2)]
    assert decisions == [ALLOW, REFUSE, answer(errno.EAFNOSUPPORT), answer(errno.EAFNOSUPPORT)]


@pytest.mark.parametrize(
    ("op", "allowed"),
    [("EQ", [7]), ("NE", [6, 8]), ("LT", [6]), ("LE", [6, 7]), ("GE", [7, 8]), ("GT", [8])],
)
def test_profile_comparison_operators(op: str, allowed: list[int]) -> None:
    table = load(entry("ioctl", args=[compare(op, 7)]))
    assert [value for value in (6, 7, 8) if table.decide(NR["ioctl"], args(value)) == ALLOW] == allowed


def test_profile_masked_comparison_mask_is_first() -> None:
    table = load(entry("clone", args=[compare("MASKED_EQ", 0x7E020000)]))  # valueTwo is 0 if absent
    assert table.decide(NR["clone"], args(17)) == ALLOW
    threads = load(entry("clone", args=[compare("MASKED_EQ", 0x10000, valueTwo=0x10000)]))
    assert [threads.decide(NR["clone"], args(flags)) for flags in (0x3D0F00, 17)] == [ALLOW, REFUSE]
    assert table.decide(NR["clone"], args(0x10000011)) == REFUSE


def test_profile_repeated_argument_is_alternative() -> None:
    both = load(entry("socket", args=[compare("EQ", 2), compare("EQ", 1, index=1)]))
    assert [both.decide(NR["socket"], args(2, kind)) for kind in (1, 2)] == [ALLOW, REFUSE]
    either = load(entry("socket", args=[compare("EQ", 2), compare("EQ", 10)]))
    assert [either.decide(NR["socket"], args(family)) for family in (2, 10, 3)] == [ALLOW, ALLOW, REFUSE]


def test_profile_actions_are_translated() -> None:
    table = load(
        entry("read", action="SCMP_ACT_LOG"),
        entry("mount", action="SCMP_ACT_KILL"),
        entry("clone3", action="SCMP_ACT_ERRNO", errnoRet=errno.ENOSYS),
    )
    assert [table.decide(NR[n]) for n in ("read", "mount", "clone3")] == [LOG, KILL_THREAD, UNIMPLEMENTED]


@pytest.mark.parametrize(
    ("condition", "kind", "applies"),
    [
        ({"arches": ["amd64"]}, "includes", True),
        ({"arches": ["arm64", "s390"]}, "includes", False),
        ({"arches": ["amd64"]}, "excludes", False),
        ({"caps": ["CAP_SYS_ADMIN"]}, "includes", False),
        ({"caps": ["CAP_SYS_CHROOT"]}, "includes", True),
        ({"caps": ["CAP_SYS_CHROOT", "CAP_SYS_ADMIN"]}, "includes", False),
        ({"caps": ["CAP_SYS_CHROOT", "CAP_SYS_ADMIN"]}, "excludes", False),
        ({"caps": ["CAP_SYS_ADMIN"]}, "excludes", True),
        ({"minKernel": "4.8"}, "includes", True),
        ({"minKernel": "6.10"}, "includes", False),
        ({"minKernel": "6.1"}, "excludes", False),
    ],
)
def test_profile_conditions_select_entries(condition: dict[str, Any], kind: str, applies: bool) -> None:
    table = load({**entry("mount"), kind: condition}, capabilities=("CAP_SYS_CHROOT",))
    assert (table.decide(NR["mount"]) == ALLOW) is applies


def test_profile_foreign_names_are_ignored() -> None:
    table = load(entry("read", "_llseek", "arm_fadvise64_64"), arch=Arch.AARCH64)
    assert table.decide(numbers(Arch.AARCH64)["read"]) == ALLOW


def test_profile_old_name_field_is_read() -> None:
    empty: dict[str, Any] = {"names": [], "args": None, "comment": "", "includes": {}}
    old = {"name": "read", "action": "SCMP_ACT_ALLOW", **empty}
    arches = [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}]
    assert load(old, archMap=arches, flags=[], listenerPath="").decide(NR["read"]) == ALLOW


@pytest.mark.parametrize(
    ("entries", "top", "message"),
    [
        ([], {"flags": ["SECCOMP_FILTER_FLAG_LOG"]}, "profile: field 'flags' with value"),
        ([], {"defaultAction": "SCMP_ACT_TRACE"}, "defaultAction: 'SCMP_ACT_TRACE' is not supported"),
        ([], {"architectures": ["SCMP_ARCH_S390X"]}, "the profile is for .*S390X.*, not for x86_64"),
        ([], {"syscalls": {}}, "syscalls: {} is not a list"),
        ([entry("read", action="SCMP_ACT_NOTIFY")], {}, r"syscalls\[0\].action: 'SCMP_ACT_NOTIFY'"),
        ([entry("read", priority=3)], {}, r"syscalls\[0\]: field 'priority' with value 3"),
        ([entry("read", args=[{"index": 0, "op": "SCMP_CMP_SIGNED"}])], {}, r"args.op: 'SCMP_CMP_SIGNED'"),
        ([entry("read", args=[compare("EQ", 1, index=6)])], {}, r"args.index: 6 is outside 0..5"),
        ([entry("read", args=[compare("EQ", -1)])], {}, r"args.value: -1 is outside"),
        ([entry("read", args=[{"op": "SCMP_CMP_EQ"}])], {}, r"args.index: None is not a number"),
        ([entry("read", includes={"caps": "CAP_X"})], {}, r"includes.caps: 'CAP_X' is not a list"),
        ([entry("read", excludes={"minKernel": "six"})], {}, r"excludes.minKernel: 'six' is not a kernel"),
        ([entry("read", excludes={"maxKernel": "4.0"})], {}, r"excludes: field 'maxKernel' with value '4.0'"),
        ([entry("read", action="SCMP_ACT_ERRNO", errnoRet=9999)], {}, "errnoRet: 9999 is outside 0..4095"),
        ([{"action": "SCMP_ACT_ALLOW"}], {}, r"syscalls\[0\].names: None is not a string"),
        (
            [entry("read"), entry("read", action="SCMP_ACT_KILL")],
            {},
            r"syscalls\[1\]: an earlier entry decides the same call differently",
        ),
        (
            [entry("mout", action="SCMP_ACT_ERRNO")],
            {"defaultAction": "SCMP_ACT_ALLOW"},
            "unknown system call 'mout' would stay allowed",
        ),
    ],
)
def test_profile_unsupported_field_is_named(entries: list[Any], top: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(*entries, **top)
