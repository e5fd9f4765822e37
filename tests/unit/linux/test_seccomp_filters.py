"""The decisions of the three filters, in terms of their purpose."""

import errno
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from stockade.linux import seccomp
from stockade.linux.seccomp.filters import GROUPS, build, table_of, without_uncounted_memory
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.rules import ARGUMENT_RULES
from stockade.linux.seccomp.syscalls import Arch, names, numbers
from stockade.linux.seccomp.table import ALL_BITS, ALLOW, KILL_PROCESS, NOTIFY, REFUSE, UNIMPLEMENTED, answer
from stockade.linux.seccomp.words import explain

TIGHT, STANDARD, PERMISSIVE = Filter
UNSUPPORTED = answer(errno.EAFNOSUPPORT)
HIGH = 1 << 32
CORE = 4  # RLIMIT_CORE
PRETEND = answer(0)  # success without effect
NEW_USER, SIGCHLD, CLONE_PARENT = 0x10000000, 17, 0x8000
THREAD = 0x3D0F00  # flags of pthread_create
VFORK = 0x4111  # flags of posix_spawn


def decide(which: Filter, name: str, *args: int, arch: Arch = Arch.X86_64, **options: bool) -> int:
    table = table_of(which, arch, **options)
    return table.decide(numbers(arch)[name], (*args, *(0,) * (6 - len(args))))


@pytest.mark.parametrize("arch", Arch)
def test_groups_hold_each_call_exactly_once(arch: Arch) -> None:
    counts = Counter(name for group in GROUPS for name in group.names)
    assert {name: counts[name] for name in numbers(arch)} == dict.fromkeys(numbers(arch), 1)


def test_groups_and_rules_name_existing_calls() -> None:
    known = {name for arch in Arch for name in numbers(arch)}
    assert {name for group in GROUPS for name in group.names} == known
    assert set(ARGUMENT_RULES) <= known


words = st.integers(0, ALL_BITS) | st.sampled_from(
    [0, 1, 2, 10, 16, 17, 0o755, 0o4755, 0x5412, 0x5401, THREAD, NEW_USER, VFORK, 0xFFFFFFFF, HIGH]
)


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(Arch), st.integers(0, 600), st.tuples(*[words] * 6), st.booleans())
def test_filter_allows_all_of_stricter_ones(
    arch: Arch, nr: int, args: tuple[int, ...], refuse_shared_memory: bool
) -> None:
    allowed = [
        table_of(which, arch, refuse_shared_memory=refuse_shared_memory).decide(nr, args) == ALLOW for which in Filter
    ]
    assert allowed == sorted(allowed)


@pytest.mark.parametrize("arch", Arch)
def test_filter_allows_more_than_stricter_ones(arch: Arch) -> None:
    for stricter, looser, name in [(TIGHT, STANDARD, "seccomp"), (STANDARD, PERMISSIVE, "mount")]:
        assert decide(stricter, name, arch=arch) == REFUSE
        assert decide(looser, name, arch=arch) == ALLOW


@pytest.mark.parametrize("arch", Arch)
def test_filter_unknown_call_is_unimplemented(arch: Arch) -> None:
    for which in Filter:
        table = table_of(which, arch)
        unknown = set(range(1000)) - set(names(arch))
        assert {table.decide(nr) for nr in (*unknown, 0x40000000, 2**32 - 1)} == {UNIMPLEMENTED}
        assert table.decide(0, audit=0x40000003) == KILL_PROCESS


REFUSED_BY_TIGHT_AND_STANDARD = """
unshare setns mount umount2 fsopen fsconfig fsmount fspick open_tree open_tree_attr move_mount mount_setattr
pivot_root chroot ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp sethostname setdomainname
name_to_handle_at
"""
REFUSED_BY_ALL = """
bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key
kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff quotactl quotactl_fd acct
syslog open_by_handle_at settimeofday clock_settime adjtimex clock_adjtime memfd_secret vhangup fanotify_init
lookup_dcookie
"""


@pytest.mark.parametrize("arch", Arch)
def test_filter_dangerous_call_is_refused(arch: Arch) -> None:
    for name in (REFUSED_BY_TIGHT_AND_STANDARD + REFUSED_BY_ALL).split():
        assert decide(TIGHT, name, arch=arch) == decide(STANDARD, name, arch=arch) == REFUSE, name
    for name in REFUSED_BY_ALL.split():
        assert decide(PERMISSIVE, name, arch=arch) == REFUSE, name
    for which in Filter:
        assert decide(which, "clone3", arch=arch) == UNIMPLEMENTED
        assert decide(which, "nfsservctl", arch=arch) == UNIMPLEMENTED


def test_filter_x86_only_call_is_refused() -> None:
    for name in ("iopl", "ioperm", "modify_ldt", "uselib", "sysfs", "ustat"):
        assert {decide(which, name) for which in Filter} == {REFUSE}


@pytest.mark.parametrize(
    ("name", "args", "tight", "standard", "permissive"),
    [
        ("clone", (THREAD,), ALLOW, ALLOW, ALLOW),
        ("clone", (SIGCHLD,), REFUSE, ALLOW, ALLOW),
        ("clone", (VFORK,), REFUSE, ALLOW, ALLOW),
        ("clone", (NEW_USER | SIGCHLD,), REFUSE, REFUSE, ALLOW),
        ("clone", (NEW_USER | THREAD,), REFUSE, REFUSE, ALLOW),
        ("clone", (CLONE_PARENT | SIGCHLD,), REFUSE, REFUSE, ALLOW),
        *((("clone"), (1 << bit,), REFUSE, REFUSE, ALLOW) for bit in (17, 25, 26, 27, 28, 29, 30)),
        ("socket", (1, 1), ALLOW, ALLOW, ALLOW),
        ("socket", (2, 1), UNSUPPORTED, ALLOW, ALLOW),
        ("socket", (10, 2), UNSUPPORTED, ALLOW, ALLOW),
        ("socket", (16, 3, 0), UNSUPPORTED, ALLOW, ALLOW),
        ("socket", (16, 3, 4), UNSUPPORTED, UNSUPPORTED, ALLOW),
        ("socket", (16, 3, 2), UNSUPPORTED, UNSUPPORTED, UNSUPPORTED),
        ("socket", (17, 3), UNSUPPORTED, UNSUPPORTED, UNSUPPORTED),
        ("socket", (40, 1), UNSUPPORTED, UNSUPPORTED, UNSUPPORTED),
        ("socket", (HIGH | 40, 1), UNSUPPORTED, UNSUPPORTED, UNSUPPORTED),
        ("socket", (2, 10), UNSUPPORTED, UNSUPPORTED, UNSUPPORTED),  # AF_INET with SOCK_PACKET
        ("socket", (HIGH | 2, HIGH | 0x80000 | 10), UNSUPPORTED, UNSUPPORTED, UNSUPPORTED),
        ("socketpair", (1, 1), ALLOW, ALLOW, ALLOW),
        ("socketpair", (30, 1), UNSUPPORTED, UNSUPPORTED, UNSUPPORTED),
        ("prlimit64", (0,), ALLOW, ALLOW, ALLOW),
        ("prlimit64", (1,), REFUSE, REFUSE, REFUSE),
        ("prlimit64", (HIGH,), REFUSE, REFUSE, REFUSE),
        ("prlimit64", (0, CORE, 0, 1), ALLOW, ALLOW, ALLOW),  # a query only
        ("prlimit64", (0, CORE, 1, 0), PRETEND, PRETEND, PRETEND),
        ("prlimit64", (0, HIGH | CORE, HIGH, 0), PRETEND, PRETEND, PRETEND),
        ("prlimit64", (0, CORE, 1, 1), REFUSE, REFUSE, REFUSE),
        ("prlimit64", (1, CORE, 1, 0), REFUSE, REFUSE, REFUSE),
        ("setrlimit", (CORE, 1), REFUSE, PRETEND, PRETEND),
        ("setrlimit", (HIGH | CORE, 1), REFUSE, PRETEND, PRETEND),
        ("setrlimit", (CORE + 1, 1), REFUSE, ALLOW, ALLOW),
        ("io_setup", (), REFUSE, REFUSE, REFUSE),
        ("ioctl", (0, 0x5401), ALLOW, ALLOW, ALLOW),
        ("ioctl", (0, 0x5412), REFUSE, REFUSE, REFUSE),
        ("ioctl", (0, HIGH | 0x5412), REFUSE, REFUSE, REFUSE),
        ("ioctl", (0, 0xFFFFFFFF_0000541C), REFUSE, REFUSE, REFUSE),
        ("ioctl", (0, 0x1234), REFUSE, ALLOW, ALLOW),
        ("prctl", (15,), ALLOW, ALLOW, ALLOW),
        ("prctl", (35,), REFUSE, ALLOW, ALLOW),
        ("prctl", (1,), REFUSE, ALLOW, ALLOW),  # PR_SET_PDEATHSIG: to outlive its parent
        ("personality", (0xFFFFFFFF,), ALLOW, ALLOW, ALLOW),
        ("personality", (0,), REFUSE, ALLOW, ALLOW),
        ("personality", (0x40000,), REFUSE, ALLOW, ALLOW),
        ("personality", (8,), REFUSE, REFUSE, ALLOW),
        ("personality", (0x400000,), REFUSE, REFUSE, REFUSE),
        ("chmod", (0, 0o1777), ALLOW, ALLOW, ALLOW),
        ("chmod", (0, 0o4755), REFUSE, REFUSE, ALLOW),
        ("fchmod", (0, 0o2755), REFUSE, REFUSE, ALLOW),
        ("fchmodat", (0, 0, 0o4755), REFUSE, REFUSE, ALLOW),
        ("fchmodat2", (0, 0, 0o4755), REFUSE, REFUSE, ALLOW),
        ("creat", (0, 0o4755), REFUSE, REFUSE, ALLOW),
        ("open", (0, 0o101, 0o4755), REFUSE, REFUSE, ALLOW),
        ("open", (0, 0, 0o4755), ALLOW, ALLOW, ALLOW),  # no O_CREAT: the kernel ignores the mode
        ("openat", (0, 0, 0o20200000, 0o6755), REFUSE, REFUSE, ALLOW),  # O_TMPFILE
        ("openat", (0, 0, 0o101, 0o755), ALLOW, ALLOW, ALLOW),
        ("openat2", (), UNIMPLEMENTED, UNIMPLEMENTED, ALLOW),
        ("mknod", (0, 0o010644), REFUSE, ALLOW, ALLOW),
        ("mknod", (0, 0o104755), REFUSE, REFUSE, ALLOW),
        ("mknodat", (0, 0, 0o020644), REFUSE, REFUSE, ALLOW),
        ("mknodat", (0, 0, 0o060644), REFUSE, REFUSE, ALLOW),
        ("fork", (), REFUSE, ALLOW, ALLOW),
        ("landlock_restrict_self", (), REFUSE, ALLOW, ALLOW),
    ],
)
def test_filter_decides_by_arguments(
    name: str, args: tuple[int, ...], tight: int, standard: int, permissive: int
) -> None:
    assert [decide(which, name, *args) for which in Filter] == [tight, standard, permissive]


def test_filter_shared_memory_refused_on_request() -> None:
    shared, private, shared_file = (0, 0, 3, 0x21), (0, 0, 3, 0x22), (0, 0, 3, 0x01)
    for which in (STANDARD, PERMISSIVE):
        for name, args in [("mmap", shared), ("memfd_create", ()), ("shmget", ()), ("vmsplice", ())]:
            assert decide(which, name, *args) == ALLOW
            assert decide(which, name, *args, refuse_shared_memory=True) == REFUSE
    for args in (private, shared_file):
        assert decide(TIGHT, "mmap", *args, refuse_shared_memory=True) == ALLOW
    large_pages_again = (41, 0)
    assert decide(STANDARD, "prctl", *large_pages_again) == ALLOW
    assert decide(STANDARD, "prctl", *large_pages_again, refuse_shared_memory=True) == REFUSE


def test_filter_refuses_what_no_limit_counts() -> None:
    table, number = without_uncounted_memory(table_of(PERMISSIVE, Arch.X86_64)), numbers(Arch.X86_64)
    for name in ("setxattr", "lsetxattr", "fsetxattr"):
        for size, decision in ((1024, ALLOW), (1025, answer(errno.ENOSPC)), (HIGH, answer(errno.ENOSPC))):
            assert table.decide(number[name], (0, 0, 0, size, 0, 0)) == decision
    for level, option, decision in (
        (1, 26, answer(errno.ENOPROTOOPT)),
        (6, 14, answer(errno.ENOPROTOOPT)),
        (1, 8, ALLOW),
        (6, 26, ALLOW),
    ):
        assert table.decide(number["setsockopt"], (3, level, option, 0, 0, 0)) == decision


def test_notify_changes_only_plain_refusals() -> None:
    plain = table_of(STANDARD, Arch.X86_64)
    asking = plain.with_notify()
    for nr in range(500):
        before = plain.decide(nr)
        assert asking.decide(nr) == (before if before in (ALLOW, UNIMPLEMENTED) else NOTIFY)
    codes = plain.refusals()
    assert (codes[165], codes[41], codes.get(435), codes.get(0)) == (errno.EPERM, errno.EAFNOSUPPORT, None, None)
    assert build(STANDARD, Arch.X86_64, notify=True) != build(STANDARD, Arch.X86_64)


def test_build_twice_gives_the_same_bytes() -> None:
    assert build.__wrapped__(TIGHT, Arch.AARCH64) == build(TIGHT, Arch.AARCH64)


def test_explain_names_effect_and_reason() -> None:
    assert explain(165, Arch.X86_64) == (
        "mount: attaches a file system; refused because the mount view hides the host's files, and must stay unchanged"
    )
    assert explain(40, Arch.AARCH64) == explain(165, Arch.X86_64)
    assert explain(57, Arch.X86_64, TIGHT).endswith("a program that only computes does not need it (tight filter)")
    assert explain(56, Arch.X86_64).startswith("clone: starts a thread or a process; allowed, except with namespace")
    assert "allowed because the permissive filter" in explain(165, Arch.X86_64, PERMISSIVE)
    assert explain(999, Arch.X86_64).startswith("system call 999: unknown; refused because")


@pytest.mark.parametrize("arch", Arch)
@pytest.mark.parametrize("which", Filter)
def test_explain_agrees_with_each_table(arch: Arch, which: Filter) -> None:
    for nr, name in names(arch).items():
        line = explain(nr, arch, which)
        assert line.startswith(f"{name}: ") and "\n" not in line
        rule = table_of(which, arch).rules[nr]
        assert ("; refused because " in line) == (not rule.clauses and rule.otherwise != ALLOW)


def test_seccomp_public_names_are_sorted() -> None:
    assert seccomp.__all__ == sorted(seccomp.__all__)
    assert all(hasattr(seccomp, name) for name in seccomp.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        seccomp.nothing  # noqa: B018
