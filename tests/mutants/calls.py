"""Protections of the system-call filter: all of it, each refused group, and each rule on arguments."""

from __future__ import annotations

from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.refusals import REFUSED_BY_ALL, REFUSED_BY_STANDARD
from tests.mutants.protection import Edit, Protection

_LIMITS, _NATIVE, _REFUSALS = "backends/shared/limits.py", "backends/native/backend.py", "linux/seccomp/refusals.py"


def _group(does: str, *, permissive: bool) -> Protection:
    since = "Filter.PERMISSIVE" if permissive else "None"
    edit = (_REFUSALS, f'        "{does}",\n        {since},', f'        "{does}",\n        Filter.STANDARD,')
    return Protection(
        f"refusal: {does}",
        (edit,),
        ("syscalls/sweep", *_REACHED.get(does, ())),
        _SECOND.get(does, ()),
    )


_REACHED = {
    "reads, writes or compares other processes": ("process_view/trace", "process_view/memory_of_another"),
    "makes or enters namespaces": ("syscalls/clone_flags", "privileges/nested_root"),
    "starts a process with options in memory": ("syscalls/clone_in_a_struct",),
    "opens a file with options in memory": ("filesystem_write/setuid_in_a_struct",),
    "runs other calls from a queue": ("syscalls/io_uring",),
    "replaces or extends the running kernel": ("privileges/reboot", "privileges/kexec", "privileges/load_module"),
    "loads programs into the kernel or counts its events": ("privileges/bpf", "privileges/perf_events"),
    "handles page faults in user space": ("syscalls/userfaultfd",),
    "uses the kernel's key rings": ("syscalls/keys",),
    "reaches hardware and old processor modes": ("syscalls/modify_ldt",),
}
# With these off, a guest has the host's capabilities, and only the filter still stops it.
_CAPABLE = ("uid of its own", "user namespace", "capabilities dropped", "empty bounding set")
_SECOND = {
    "makes or enters namespaces": ("no user namespaces below the guest's", "rule on clone"),
    "starts a process with options in memory": ("no user namespaces below the guest's",),
    "replaces or extends the running kernel": _CAPABLE,
}
_NOTHING_THERE = "was removed from the kernel or never written"
"""This group is not a protection, because the kernel gives the same answer without it."""
RULE_GROUPS = tuple(
    _group(group.does, permissive=group.since is Filter.PERMISSIVE)
    for group in (*REFUSED_BY_STANDARD, *REFUSED_BY_ALL)
    if group.does != _NOTHING_THERE
)


def _argument(
    name: str,
    calls: tuple[str, ...],
    concerns: tuple[str, ...],
    beside: tuple[str, ...] = (),
    given: tuple[Edit, ...] = (),
    needs: tuple[str, ...] = (),
) -> Protection:
    edit = (
        "linux/seccomp/filters.py",
        "elif name in ARGUMENT_RULES:",
        f"elif name in ARGUMENT_RULES and name not in {calls!r}:",
    )
    return Protection(f"rule on {name}", (edit,), concerns, beside, given, needs)


_TERMINALS_SHOWN = (
    _NATIVE,
    '        ("terminals", TERMINALS, MOST_TERMINALS),\n',
    '        ("bind", "/dev/pts", "/dev/pts", ()),\n',
)
_OF_SCHEDULING = ("sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity")
_OF_MODES = ("chmod", "fchmod", "fchmodat", "fchmodat2", "creat", "open", "openat")
ARGUMENT_RULES = (
    _argument(
        "clone",
        ("clone",),
        ("syscalls/clone_flags", "privileges/nested_root"),
        ("no user namespaces below the guest's",),
    ),
    _argument(
        "socket",
        ("socket",),
        ("network/vm_socket", "network/raw_socket", "network/packet_socket", "network/netlink_usersock"),
        ("network namespace",),
    ),
    _argument(
        "ioctl",
        ("ioctl",),
        ("syscalls/typed_for_another",),
        ("Landlock",),
        (_TERMINALS_SHOWN,),
        ("typing",),
    ),
    _argument(
        "prlimit64",
        ("prlimit64",),
        ("process_view/limit_another", "syscalls/limit_the_init"),
        ("init has another gid",),
    ),
    _argument("scheduling", _OF_SCHEDULING, ("process_view/slow_another",)),
    _argument("setpriority", ("setpriority",), ("process_view/renice",)),
    _argument("ioprio_set", ("ioprio_set",), ("process_view/io_priority",)),
    _argument("personality", ("personality",), ("syscalls/personality",)),
    _argument("modes with set-user-id", _OF_MODES, ("filesystem_write/setuid_of_its_own",)),
    _argument(
        "mknod",
        ("mknod", "mknodat"),
        ("filesystem_write/whiteout_left", "filesystem_write/device_left", "privileges/device_node"),
        ("Landlock",),
    ),
)
SOCKETS = Protection(
    "no Unix socket beside folders of the host",
    (("planning/syscall_filter.py", "    if rules.closes_sockets:", "    if False:"),),
    ("ipc/socket_in_shown_folder", "ipc/socket_in_written_folder", "ipc/datagram_to_shown_folder"),
)
UNCOUNTED = Protection(
    "rule on memory that nothing counts",
    (("planning/syscall_filter.py", "        table = filters.without_uncounted_memory(table)\n", "        pass\n"),),
    (
        "memory/huge_pages",
        "memory/memory_policies",
        "memory/locks_without_owner",
        "memory/access_lists",
        "memory/socket_filters",
        "memory/signature_keys",
    ),
)
FILTER = Protection(
    "system-call filter",
    ((_LIMITS, "    return [(name, syscall_filter.program(plan))]", "    return []"),),
    ("syscalls", "memory/lock_pages"),
)
