"""A filter of the user's own: added to one of ours, or in its place."""

from stockade.linux.seccomp import syscalls
from stockade.linux.seccomp.filters import closing
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.rules import ARGUMENT_RULES
from stockade.linux.seccomp.table import PASSING, REFUSE, UNIMPLEMENTED, Table, always, any_bit, refuse_if

_NEW_USER = 0x1000_0000
_SCHEDULING = (
    "sched_setscheduler",
    "sched_setparam",
    "sched_setattr",
    "sched_setaffinity",
    "setpriority",
    "ioprio_set",
)
_PERMISSIVE = ("ioctl", "prlimit64", "setrlimit", "socket", "socketpair", *_SCHEDULING)
# What leads around a filter, or past another guarantee: nobody adds it by a list of names. The queue's calls
# and the flags in memory are never shown to a filter, so to allow these is to allow what stays closed here.
_STAYS_CLOSED = {
    **{name: ARGUMENT_RULES[name].rules[Filter.PERMISSIVE] for name in _PERMISSIVE},
    "clone": ARGUMENT_RULES["clone"].rules[Filter.STANDARD],
    "clone3": always(UNIMPLEMENTED),
    "unshare": refuse_if((any_bit(0, _NEW_USER),)),
    **dict.fromkeys(("io_uring_setup", "io_uring_enter", "io_uring_register"), always(REFUSE)),
}

# What the last steps before the guest's program need, and to start a program at all.
_NEEDED = """
sendto sendmsg recvfrom openat mkdir mkdirat chmod fchmodat write read close stat fstat newfstatat mmap munmap mremap
mprotect brk futex prlimit64 getrusage clock_gettime rt_sigaction rt_sigprocmask execve exit_group
"""


def added(ours: Table, own: Table) -> Table:
    """Allow what either allows, but of `own` nothing that stays closed."""
    return ours.widened_by(closing(ours.arch, _STAYS_CLOSED).narrowed_by(own))


def stays_closed(table: Table, nr: int, args: tuple[int, ...]) -> bool:
    """Whether no file that is added could allow this call."""
    return closing(table.arch, _STAYS_CLOSED).decide(nr, args) not in PASSING


def lacking(table: Table) -> list[str]:
    """The calls that a sandbox cannot start a program without, and that `table` refuses whatever the arguments."""
    numbers = syscalls.numbers(table.arch)
    return [
        name for name in _NEEDED.split() if name in numbers and not table.rules[numbers[name]].actions & set(PASSING)
    ]
