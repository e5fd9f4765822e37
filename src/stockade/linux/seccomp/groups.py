"""The system calls that each filter allows, as data: groups with a reason each.

Every system call in `syscalls.py` belongs to exactly one group, and a test checks it. `rules.py` narrows some of the
allowed calls by their arguments.
"""

from enum import StrEnum

from stockade.core.dataclass import dataclass
from stockade.linux.seccomp.table import REFUSE


class Filter(StrEnum):
    """The filters, strictest first. Each allows everything that stricter ones allow, and more."""

    TIGHT = "tight"
    STANDARD = "standard"
    PERMISSIVE = "permissive"

    def includes(self, since: "Filter | None") -> bool:
        """Return whether this filter allows a group whose strictest allowing filter is `since`."""
        order = tuple(Filter)
        return since is not None and order.index(self) >= order.index(since)


@dataclass(frozen=True)
class Group:
    """System calls that are allowed, or refused, for one reason.

    `since` is the strictest filter that allows them, or None. `why` is the reason why the tight or the standard filter
    allows them. In the groups of `refusals.py`, it is the reason why the standard filter refuses them.
    """

    does: str
    since: Filter | None
    why: str
    calls: str
    refusal: int = REFUSE

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the group's system calls."""
        return tuple(self.calls.split())


ALLOWED_FROM_TIGHT = (
    Group(
        "works with files",
        Filter.TIGHT,
        "the mount view and Landlock decide which files exist",
        """
        read write open close stat fstat lstat lseek pread64 pwrite64 readv writev preadv pwritev
        preadv2 pwritev2 access faccessat faccessat2 dup dup2 dup3 fcntl flock fsync fdatasync
        truncate ftruncate fallocate getdents getdents64 getcwd chdir fchdir rename renameat
        renameat2 mkdir mkdirat rmdir creat link linkat unlink unlinkat symlink symlinkat readlink
        readlinkat chmod fchmod fchmodat fchmodat2 umask utime utimes futimesat utimensat newfstatat
        openat statx statfs fstatfs fadvise64 readahead copy_file_range sendfile close_range
        sync_file_range ioctl
        """,
    ),
    Group(
        "manages the caller's own memory",
        Filter.TIGHT,
        "it reaches only the caller's own address space, which the memory limit bounds",
        """
        mmap mprotect munmap brk mremap madvise msync mseal pkey_mprotect pkey_alloc pkey_free
        map_shadow_stack membarrier
        """,
    ),
    Group(
        "runs threads",
        Filter.TIGHT,
        "every language runtime starts threads, and the process limit counts them",
        """
        clone futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list get_robust_list
        set_tid_address rseq arch_prctl prctl gettid sched_yield getcpu sched_getaffinity
        restart_syscall
        """,
    ),
    Group(
        "runs, ends or awaits a program",
        Filter.TIGHT,
        "the filter is in place before the guest's program is executed",
        "execve execveat exit exit_group wait4 waitid",
    ),
    Group(
        "sends or handles signals",
        Filter.TIGHT,
        "runtimes need signals, and the process view limits their targets",
        """
        rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend
        rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack kill tkill tgkill pause signalfd signalfd4
        """,
    ),
    Group(
        "reads clocks and sets timers",
        Filter.TIGHT,
        "it changes no clock",
        """
        clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getitimer
        setitimer alarm timer_create timer_settime timer_gettime timer_getoverrun timer_delete
        timerfd_create timerfd_settime timerfd_gettime
        """,
    ),
    Group(
        "waits for events or moves bytes between the caller's own descriptors",
        Filter.TIGHT,
        "it works on descriptors that the caller already has",
        """
        poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
        epoll_pwait2 eventfd eventfd2 pipe pipe2
        """,
    ),
    Group(
        "reads facts about the process and the machine",
        Filter.TIGHT,
        "it changes nothing",
        """
        getpid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgid getpgrp
        getsid capget getrusage getrlimit prlimit64 getpriority sched_getscheduler sched_getparam
        sched_getattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval uname
        sysinfo getrandom
        """,
    ),
    Group(
        "uses sockets",
        Filter.TIGHT,
        "the filter decides about the family when the socket is made",
        """
        socket socketpair bind listen accept accept4 connect getsockname getpeername getsockopt
        setsockopt sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown
        """,
    ),
    Group(
        "changes the execution domain",
        Filter.TIGHT,
        "a query is harmless, and few domains may be set",
        "personality",
    ),
    Group(
        "is the kernel's own trampoline for tracing",
        Filter.TIGHT,
        "the kernel enters it when the program is traced from outside; called by hand, it only faults",
        "uretprobe uprobe",
    ),
)

ALLOWED_FROM_STANDARD = (
    Group(
        "starts processes and groups them",
        Filter.STANDARD,
        "scripts, compilers and shells start programs, and the process limit counts them",
        "fork vfork setpgid setsid pidfd_open pidfd_send_signal",
    ),
    Group(
        "changes how the caller is scheduled and limited",
        Filter.STANDARD,
        "without a capability it can only lower the caller's own share",
        """
        sched_setscheduler sched_setparam sched_setattr sched_setaffinity setpriority ioprio_set
        ioprio_get setrlimit mlock mlock2 munlock mlockall munlockall mincore get_mempolicy
        set_mempolicy mbind set_mempolicy_home_node
        """,
    ),
    Group(
        "changes the caller's own identity",
        Filter.STANDARD,
        "without a capability and with no_new_privs it can only drop rights",
        "setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset",
    ),
    Group(
        "confines the caller further",
        Filter.STANDARD,
        "a filter or a Landlock ruleset can only take rights away, and browsers and build tools use them",
        "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    ),
    Group(
        "changes owners, attributes and special files",
        Filter.STANDARD,
        "archivers, installers and version control need it, and the kernel checks the owner",
        """
        chown fchown lchown fchownat mknod mknodat setxattr lsetxattr fsetxattr getxattr lgetxattr
        fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr setxattrat
        getxattrat listxattrat removexattrat file_getattr file_setattr inotify_init inotify_init1
        inotify_add_watch inotify_rm_watch statmount listmount lsm_get_self_attr lsm_list_modules
        sync syncfs cachestat
        """,
    ),
    Group(
        "shares memory and messages between processes",
        Filter.STANDARD,
        "multiprocessing and databases need it, and the ipc namespace keeps it inside",
        """
        memfd_create shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv
        msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr splice tee
        vmsplice
        """,
    ),
)
