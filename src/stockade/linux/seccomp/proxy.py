"""The filter of a run's proxy: it makes TCP connections, looks names up, and runs threads. It does nothing else."""

from stockade.linux.seccomp import syscalls
from stockade.linux.seccomp.rules import IP_SOCKETS, NEW_THREADS
from stockade.linux.seccomp.syscalls import Arch
from stockade.linux.seccomp.table import ALLOW, REFUSE, UNIMPLEMENTED, Table, always

_ALLOWED = """
read write close fstat newfstatat stat lstat statx lseek pread64 openat open access faccessat faccessat2 readlink
readlinkat getdents64 fcntl ioctl poll ppoll select pselect6
connect accept accept4 bind getsockname getpeername getsockopt setsockopt shutdown
sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg
mmap mprotect munmap mremap brk madvise futex set_robust_list rseq gettid getpid getuid geteuid getgid getegid
sched_yield sched_getaffinity rt_sigprocmask rt_sigaction rt_sigreturn sigaltstack restart_syscall
clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time uname getrandom sysinfo exit exit_group
"""


def proxy_table(arch: Arch) -> Table:
    """Return the decisions of the proxy's filter."""
    numbers = syscalls.numbers(arch)
    rules = dict.fromkeys(numbers.values(), always(REFUSE))
    rules |= {numbers[name]: always(ALLOW) for name in _ALLOWED.split() if name in numbers}
    rules |= {numbers["socket"]: IP_SOCKETS, numbers["clone"]: NEW_THREADS}
    rules[numbers["clone3"]] = always(UNIMPLEMENTED)  # its flags lie in memory; the C library then uses clone
    return Table(arch, rules)
