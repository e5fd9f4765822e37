"""Describe a system call in plain words: its effect, and why a filter allows or refuses it."""

from stockade.linux.seccomp import syscalls
from stockade.linux.seccomp.filters import GROUP_OF
from stockade.linux.seccomp.groups import ALLOWED_FROM_STANDARD, Filter, Group
from stockade.linux.seccomp.refusals import REFUSED_BY_STANDARD
from stockade.linux.seccomp.rules import ARGUMENT_RULES
from stockade.linux.seccomp.syscalls import Arch
from stockade.linux.seccomp.table import UNIMPLEMENTED


def explain(nr: int, arch: Arch, which: Filter = Filter.STANDARD) -> str:
    """Describe the effect of system call `nr`, and why the filter allows or refuses it, in one line."""
    name = syscalls.names(Arch(arch)).get(nr)
    if name is None:
        return (
            f"system call {nr}: unknown; refused because stockade has no rule for this call, so it is answered as if "
            "the kernel did not have it (ENOSYS), and libraries fall back"
        )
    group = GROUP_OF[name]
    includes = which.includes(group.since)
    verdict = _allowed(name, group, which) if includes else _refused(group, which)
    return f"{name}: {_WORDS.get(name, group.does)}; {verdict}"


def describe(nr: int, arch: Arch) -> tuple[str, str]:
    """Return the name and the effect of system call `nr`."""
    name = syscalls.names(Arch(arch)).get(nr)
    if name is None:
        return f"system call {nr}", "unknown"
    return name, _WORDS.get(name, GROUP_OF[name].does)


def why_refused(nr: int, arch: Arch, which: str) -> str:
    """Explain why a filter refuses a known system call with some of its arguments."""
    name = syscalls.names(Arch(arch))[nr]
    group = GROUP_OF[name]
    if Filter(which).includes(group.since):
        narrowed = ARGUMENT_RULES.get(name)
        return f"the {which!r} filter allows it, except {narrowed.why}" if narrowed else "refused"
    if group in ALLOWED_FROM_STANDARD:
        return f"the {which!r} filter refuses it because a program that only computes does not need it"
    return f"the {which!r} filter refuses it because {group.why}"


def _allowed(name: str, group: Group, which: Filter) -> str:
    narrowed = ARGUMENT_RULES.get(name)
    if narrowed and which in narrowed.rules:
        return f"allowed, except {narrowed.why}"
    if group in REFUSED_BY_STANDARD:
        return "allowed because the permissive filter serves debuggers, nested sandboxes and container tools"
    return f"allowed because {group.why}"


def _refused(group: Group, which: Filter) -> str:
    if group in ALLOWED_FROM_STANDARD:
        return f"refused because a program that only computes does not need it ({which} filter)"
    answered = " (answered with ENOSYS)" if group.refusal == UNIMPLEMENTED else ""
    return f"refused because {group.why}{answered}"


# Descriptions of calls whose group has too general a description.
_LINES = """
clone: starts a thread or a process
clone3: starts a thread or a process, with the flags in memory
fork: starts a process
vfork: starts a process
socket: makes a socket
socketpair: makes a pair of connected sockets
ioctl: sends a request to a device or a descriptor
prlimit64: reads and sets resource limits
prctl: changes settings of the calling process
personality: changes the execution domain
chmod: changes a file's mode
fchmod: changes a file's mode
fchmodat: changes a file's mode
fchmodat2: changes a file's mode
mknod: makes a pipe, file or device
mknodat: makes a pipe, file or device
memfd_create: makes a file that lives in memory
shmget: makes a System V shared memory segment
io_uring_setup: makes a queue of system calls
io_uring_enter: runs a queue of system calls
io_uring_register: changes a queue of system calls
userfaultfd: handles page faults in user space
memfd_secret: makes memory that no other process can read
open_by_handle_at: opens a file by its handle
settimeofday: sets the clock
clock_settime: sets a clock
adjtimex: tunes the clock
clock_adjtime: tunes a clock
unshare: moves the caller into new namespaces
setns: moves the caller into another process's namespaces
sethostname: sets the host name
setdomainname: sets the NIS domain name
mount: attaches a file system
umount2: detaches a file system
fsopen: starts to configure a file system
fsconfig: configures a file system
fsmount: makes a mount of a configured file system
fspick: reconfigures a mounted file system
move_mount: attaches or moves a mount
open_tree: copies a mount
open_tree_attr: copies a mount and changes its options
mount_setattr: changes the options of a mount
pivot_root: changes the root file system
chroot: changes the caller's root directory
ptrace: controls another process as a debugger does
process_vm_readv: reads another process's memory
process_vm_writev: writes another process's memory
pidfd_getfd: takes a descriptor out of another process
kcmp: compares the kernel resources of two processes
process_madvise: advises on another process's memory
process_mrelease: frees a dying process's memory
move_pages: moves a process's memory between NUMA nodes
migrate_pages: moves a process's memory between NUMA nodes
name_to_handle_at: turns a path into a file handle
bpf: loads a program or map into the kernel
perf_event_open: counts processor and kernel events
keyctl: reads and changes key rings
add_key: stores a key in the kernel
request_key: asks the kernel for a key
kexec_load: loads another kernel
kexec_file_load: loads another kernel
init_module: loads a kernel module
finit_module: loads a kernel module
delete_module: unloads a kernel module
reboot: restarts or stops the machine
swapon: adds swap space
swapoff: removes swap space
quotactl: reads and sets disk quotas
quotactl_fd: reads and sets disk quotas
acct: switches process accounting
syslog: reads or clears the kernel log
vhangup: hangs up the terminal
lookup_dcookie: turns a profiler's cookie into a path
fanotify_init: starts to watch file accesses
fanotify_mark: chooses whose file accesses to watch
iopl: changes the I/O privilege level
ioperm: opens I/O ports
modify_ldt: changes the processor's segment table
uselib: loads a shared library as in 1993
ustat: asks for the free space of a device
sysfs: lists the kernel's file system types
remap_file_pages: rearranges a file mapping
"""

_WORDS = dict(line.split(": ", 1) for line in _LINES.split("\n") if line)
