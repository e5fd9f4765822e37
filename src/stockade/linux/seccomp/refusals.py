"""The groups that the tight and the standard filter refuse.

`why` completes a sentence after "refused because". The permissive filter allows groups with ``since=PERMISSIVE``, for
debuggers, nested sandboxes and container tools inside their own namespaces.
"""

from stockade.linux.seccomp.groups import Filter, Group
from stockade.linux.seccomp.table import UNIMPLEMENTED

REFUSED_BY_STANDARD = (
    Group(
        "makes or enters namespaces",
        Filter.PERMISSIVE,
        "in a user namespace of its own the guest holds every capability, and with them it reaches the "
        "kernel code in which most privilege escalations were found",
        "unshare setns sethostname setdomainname",
    ),
    Group(
        "changes what is mounted and where the root is",
        Filter.PERMISSIVE,
        "the mount view hides the host's files, and must stay unchanged",
        """
        mount umount2 fsopen fsconfig fsmount fspick move_mount open_tree open_tree_attr mount_setattr
        pivot_root chroot
        """,
    ),
    Group(
        "reads, writes or compares other processes",
        Filter.PERMISSIVE,
        "a guest that controls another process acts with that process's rights and descriptors",
        """
        ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise process_mrelease
        move_pages migrate_pages
        """,
    ),
    Group(
        "makes file handles",
        Filter.PERMISSIVE,
        "a handle names a file outside any mount view, and only programs that may open handles need it",
        "name_to_handle_at",
    ),
    Group(
        "opens a file with options in memory",
        Filter.PERMISSIVE,
        "a filter cannot see the mode in memory, which may ask for a setuid file; programs fall back",
        "openat2",
        UNIMPLEMENTED,
    ),
)

REFUSED_BY_ALL = (
    Group(
        "starts a process with options in memory",
        None,
        "a filter cannot see the flags in memory, which may ask for namespaces; libraries fall back to clone",
        "clone3",
        UNIMPLEMENTED,
    ),
    Group(
        "runs other calls from a queue",
        None,
        "calls in the queue are never shown to a filter, so each of them would be allowed",
        "io_uring_setup io_uring_enter io_uring_register",
    ),
    Group(
        "runs the old asynchronous file interface",
        None,
        "a guest could use up the whole machine's limit on requests (fs.aio-max-nr); hardly any program uses it, "
        "those that do can fall back, and its kernel code has a long list of bugs",
        "io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents",
    ),
    Group(
        "loads programs into the kernel or counts its events",
        None,
        "verifier and event code are a large attack surface, and they observe the whole machine",
        "bpf perf_event_open",
    ),
    Group(
        "handles page faults in user space",
        None,
        "it lets a guest stop the kernel in the middle of a copy, which makes its races winnable",
        "userfaultfd",
    ),
    Group(
        "uses the kernel's key rings",
        None,
        "keys belong to a user, not to a namespace, so they may be the host's or another guest's",
        "keyctl add_key request_key",
    ),
    Group(
        "makes memory that no other process can read",
        None,
        "it is locked, hidden even from the kernel, and stops the machine from hibernating",
        "memfd_secret",
    ),
    Group(
        "replaces or extends the running kernel",
        None,
        "it acts on the whole machine",
        "kexec_load kexec_file_load init_module finit_module delete_module reboot",
    ),
    Group(
        "sets the machine's clocks",
        None,
        "the clock is the host's, and its logs and certificates depend on it",
        "settimeofday clock_settime adjtimex clock_adjtime",
    ),
    Group(
        "administers storage, logs and terminals",
        None,
        "swap, quotas, accounting, the kernel log and the terminal are the host's",
        "swapon swapoff quotactl quotactl_fd acct syslog vhangup lookup_dcookie",
    ),
    Group(
        "opens files by handle",
        None,
        "a handle can be guessed and opens files outside the mount view",
        "open_by_handle_at",
    ),
    Group(
        "watches or vetoes file accesses of other processes",
        None,
        "it sees accesses on whole mounts, including those of other processes",
        "fanotify_init fanotify_mark",
    ),
    Group(
        "sets security-module attributes",
        None,
        "confinement is set up before the guest starts, and the guest may not change it",
        "lsm_set_self_attr",
    ),
    Group(
        "reaches hardware and old processor modes",
        None,
        "modern programs do not need it, and it exposes rarely tested kernel code",
        "iopl ioperm modify_ldt",
    ),
    Group(
        "is obsolete",
        None,
        "no modern program needs it, and old kernel code has old bugs",
        "uselib ustat sysfs remap_file_pages",
    ),
    Group(
        "was removed from the kernel or never written",
        None,
        "the kernel gives the same answer",
        """
        _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall tuxcall
        security set_thread_area get_thread_area epoll_ctl_old epoll_wait_old vserver
        """,
        UNIMPLEMENTED,
    ),
)
