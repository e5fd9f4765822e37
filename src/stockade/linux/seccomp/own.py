"""Combine a filter of the user's own with one of stockade's: in addition to it, or in its place."""

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
# Calls that lead around a filter or past another guarantee, so an added file cannot allow them. A filter never sees
# calls in an io_uring queue, nor flags in memory; to allow these would allow everything that stays closed here.
_STAYS_CLOSED = {
    **{name: ARGUMENT_RULES[name].rules[Filter.PERMISSIVE] for name in _PERMISSIVE},
    "clone": ARGUMENT_RULES["clone"].rules[Filter.STANDARD],
    "clone3": always(UNIMPLEMENTED),
    "unshare": refuse_if((any_bit(0, _NEW_USER),)),
    **dict.fromkeys(("io_uring_setup", "io_uring_enter", "io_uring_register"), always(REFUSE)),
}

# Calls that the last steps before the guest's program need, and that every program start needs.
_NEEDED = """
sendto sendmsg recvfrom openat mkdir mkdirat chmod fchmodat write read close stat fstat newfstatat mmap munmap mremap
mprotect brk futex prlimit64 getrusage clock_gettime rt_sigaction rt_sigprocmask execve exit_group
"""


def added(ours: Table, own: Table) -> Table:
    """Return a table that allows what either table allows, except for calls of `own` that stay closed."""
    return ours.widened_by(closing(ours.arch, _STAYS_CLOSED).narrowed_by(own))


def stays_closed(table: Table, nr: int, args: tuple[int, ...]) -> bool:
    """Return whether this call stays refused whatever file is added."""
    return closing(table.arch, _STAYS_CLOSED).decide(nr, args) not in PASSING


def lacking(table: Table) -> list[str]:
    """Return the calls that every sandbox start needs, and that `table` refuses for all arguments."""
    numbers = syscalls.numbers(table.arch)
    return [
        name for name in _NEEDED.split() if name in numbers and not table.rules[numbers[name]].actions & set(PASSING)
    ]
