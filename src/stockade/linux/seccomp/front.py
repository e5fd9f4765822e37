"""The filter of the service's front: it serves connections from a socket that others bound, and a database that is
open. It opens nothing, connects to nothing and starts nothing."""

from stockade.linux.seccomp import syscalls
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.rules import ARGUMENT_RULES
from stockade.linux.seccomp.syscalls import Arch
from stockade.linux.seccomp.table import ALLOW, REFUSE, Table, allow_if, always, any_bit, refuse_if

_ALLOWED = """
read write readv writev pread64 pwrite64 close fstat lseek fcntl fsync fdatasync ftruncate fallocate
poll ppoll select epoll_wait epoll_pwait epoll_ctl
listen accept accept4 getsockname getpeername getsockopt setsockopt shutdown sendto sendmsg recvfrom recvmsg
munmap mremap brk madvise futex set_robust_list rseq gettid getpid getppid getuid geteuid getgid getegid
sched_yield sched_getaffinity rt_sigprocmask rt_sigaction rt_sigreturn sigaltstack restart_syscall
clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time uname getrandom sysinfo getrusage exit exit_group
"""
_EXECUTABLE = 4  # PROT_EXEC
_EMPTY_PATH = 0x1000  # AT_EMPTY_PATH: how the C library spells fstat
_NO_CODE = refuse_if((any_bit(2, _EXECUTABLE),))


def front_table(arch: Arch) -> Table:
    """Return the decisions of the front's filter."""
    numbers = syscalls.numbers(arch)
    rules = dict.fromkeys(numbers.values(), always(REFUSE))
    rules |= {numbers[name]: always(ALLOW) for name in _ALLOWED.split() if name in numbers}
    rules |= {numbers["mmap"]: _NO_CODE, numbers["mprotect"]: _NO_CODE}
    rules[numbers["newfstatat"]] = allow_if((any_bit(3, _EMPTY_PATH),))
    rules[numbers["ioctl"]] = ARGUMENT_RULES["ioctl"].rules[Filter.TIGHT]
    return Table(arch, rules)
