"""Rules on the arguments of calls that a filter allows in part.

A filter can judge registers only: memory behind a pointer may change after the check. If the kernel takes an ``int``,
only the low 32 bits are compared, because only they reach it. With all 64 compared, TIOCSTI with a high bit set is "not
TIOCSTI" to the filter, and TIOCSTI to the kernel (CVE-2019-10063).
"""

import errno
from collections.abc import Mapping

from stockade.core.dataclass import dataclass
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.table import (
    ALLOW,
    REFUSE,
    UNIMPLEMENTED,
    Clause,
    Condition,
    Op,
    Rule,
    allow_if,
    always,
    answer,
    any_bit,
    bits,
    low,
    refuse_if,
)


@dataclass(frozen=True)
class ArgumentRule:
    """The rule of each filter that narrows a call. `why` completes a sentence after "except"."""

    why: str
    rules: Mapping[Filter, Rule]


_NO_FAMILY = answer(errno.EAFNOSUPPORT)

# CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}; clone does not take CLONE_NEWTIME.
_NEW_NAMESPACES = 0x7E02_0000
_CLONE_PARENT = 0x8000
_CLONE_THREAD = 0x1_0000
_ESCAPES = _NEW_NAMESPACES | _CLONE_PARENT

_CLONE = ArgumentRule(
    "with namespace flags, which would give the guest every capability in a user namespace of its own, or "
    "with CLONE_PARENT, which hands its child to the supervisor; the tight filter allows only threads",
    {
        Filter.TIGHT: allow_if((bits(0, _CLONE_THREAD | _ESCAPES, _CLONE_THREAD),)),
        Filter.STANDARD: allow_if((bits(0, _ESCAPES, 0),)),
    },
)

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_PACKET, _SOCK_TYPE_MASK = 10, 0xF
_ROUTE, _SOCK_DIAG, _KOBJECT_UEVENT = 0, 4, 15  # netlink protocols


def _netlink(protocol: int) -> tuple[Condition, ...]:
    return (low(0, _AF_NETLINK), low(2, protocol))


def _socket(*netlink_protocols: int) -> Rule:
    """Allow UNIX, IPv4, IPv6 and some netlink. AF_INET with SOCK_PACKET is the old name of AF_PACKET."""
    packet = Clause((low(0, _AF_INET), bits(1, _SOCK_TYPE_MASK, _SOCK_PACKET)), _NO_FAMILY)
    families = ((low(0, family),) for family in (_AF_UNIX, _AF_INET, _AF_INET6))
    allowed = allow_if(*families, *map(_netlink, netlink_protocols), otherwise=_NO_FAMILY)
    return Rule((packet, *allowed.clauses), allowed.otherwise)


_SOCKET = ArgumentRule(
    "for families beyond UNIX, IPv4, IPv6 and NETLINK_ROUTE (which looks up interfaces), because the others "
    "are a large attack surface and AF_VSOCK talks to the hypervisor; the tight filter allows only UNIX",
    {
        Filter.TIGHT: allow_if((low(0, _AF_UNIX),), otherwise=_NO_FAMILY),
        Filter.STANDARD: _socket(_ROUTE),
        Filter.PERMISSIVE: _socket(_ROUTE, _SOCK_DIAG, _KOBJECT_UEVENT),
    },
)

NEW_THREADS = _CLONE.rules[Filter.TIGHT]
"""Only threads of the calling process."""
_STREAM, _DATAGRAM = 1, 2
IP_SOCKETS = allow_if(
    *(
        (low(0, family), bits(1, _SOCK_TYPE_MASK, kind))
        for family in (_AF_INET, _AF_INET6)
        for kind in (_STREAM, _DATAGRAM)
    ),
    _netlink(_ROUTE),
    otherwise=_NO_FAMILY,
)
"""TCP, UDP, and the netlink protocol by which a resolver lists the host's addresses."""

_SOCKETPAIR = ArgumentRule(
    "for families other than UNIX, because only rarely used families have pairs too",
    dict.fromkeys(Filter, allow_if((low(0, _AF_UNIX),), otherwise=_NO_FAMILY)),
)

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_NO_TYPING = refuse_if((low(1, _TIOCSTI),), (low(1, _TIOCLINUX),))
# TCGETS, TCGETS2, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX
_PLAIN_IOCTLS = (0x5401, 0x802C_542A, 0x540F, 0x5413, 0x541B, 0x5421, 0x5451, 0x5450)

_IOCTL = ArgumentRule(
    "TIOCSTI and TIOCLINUX, which type into the terminal as if the user did; the tight filter allows only "
    "requests about descriptors and the terminal's size",
    {
        Filter.TIGHT: allow_if(*((low(1, request),) for request in _PLAIN_IOCTLS)),
        Filter.STANDARD: _NO_TYPING,
        Filter.PERMISSIVE: _NO_TYPING,
    },
)

_RLIMIT_CORE = 4
_PRETEND = answer(0)  # the call returns 0 and changes nothing

# With a limit of 1 byte the kernel starts no core handler (core(5)); with a limit of 0 it does. Programs that set the
# limit to 0 for their own safety give up if that fails, so the filter answers them with success.
# A call that also asks for the old limit is refused: the answer would leave the caller's buffer unfilled.
_PRLIMIT = ArgumentRule(
    "for another process, whose limits the guest may not change; the limit on core files stays unchanged, and "
    "a plain change of it gets success as the answer",
    dict.fromkeys(
        Filter,
        Rule(
            (
                Clause((Condition(0, Op.NE, 0),), REFUSE),  # all 64 bits: only zero is allowed
                Clause((low(1, _RLIMIT_CORE), Condition(2, Op.NE, 0), Condition(3, Op.NE, 0)), REFUSE),
                Clause((low(1, _RLIMIT_CORE), Condition(2, Op.NE, 0)), _PRETEND),
            ),
            ALLOW,
        ),
    ),
)
_SETRLIMIT = ArgumentRule(
    "for the limit on core files, which stays unchanged: the answer is success",
    dict.fromkeys((Filter.STANDARD, Filter.PERMISSIVE), refuse_if((low(0, _RLIMIT_CORE),), action=_PRETEND)),
)

_INIT = 1
_PRIO_USER, _IOPRIO_WHO_USER = 2, 3


def _protect_init(*others: tuple[Condition, ...], pid: int) -> ArgumentRule:
    """Refuse every spelling of init's pid. Init may have the guest's uid, and the kernel asks for no more."""
    rule = refuse_if((low(pid, _INIT),), *others)
    return ArgumentRule(
        "for the sandbox's own init, because an init that hardly runs cannot end the guest in time",
        {Filter.STANDARD: rule, Filter.PERMISSIVE: rule},
    )


# PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_{SET,GET}_NAME, PR_GET_SECCOMP, PR_CAPBSET_READ,
# PR_{SET,GET}_NO_NEW_PRIVS, PR_SET_VMA (glibc and CPython name their memory with it)
_PLAIN_PRCTLS = (2, 3, 15, 16, 21, 23, 38, 39, 0x5356_4D41)

_PRCTL = ArgumentRule(
    "for options that a plain program does not need: the tight filter allows names, no_new_privs and queries",
    {Filter.TIGHT: allow_if(*((low(0, option),) for option in _PLAIN_PRCTLS))},
)

# PER_LINUX, the query, and ADDR_NO_RANDOMIZE. The last one weakens only the caller's own address space, and sanitizers
# and debuggers use it to run themselves again.
_QUERY = 0xFFFF_FFFF
_PERSONALITIES = (0, _QUERY, 0x0004_0000)
_OLD_NAMES = (0x8, 0x2_0000, 0x2_0008)  # PER_LINUX32, UNAME26 and both: setarch

_PERSONALITY = ArgumentRule(
    "domains that make memory executable or map page zero, which turns small kernel bugs into large ones",
    {
        Filter.TIGHT: allow_if((low(0, _QUERY),)),
        Filter.STANDARD: allow_if(*((low(0, value),) for value in _PERSONALITIES)),
        Filter.PERMISSIVE: allow_if(*((low(0, value),) for value in (*_PERSONALITIES, *_OLD_NAMES))),
    },
)

_SETUID_BITS = 0o6000  # S_ISUID | S_ISGID
_CREATING = 0o100 | 0o20000000  # O_CREAT | __O_TMPFILE; without them the kernel ignores the mode
_FILE_TYPE, _CHARACTER_DEVICE, _BLOCK_DEVICE = 0o170000, 0o020000, 0o060000
_SETUID_WHY = (
    "with setuid or setgid bits, because a file that outlives the run would give its owner's rights to everyone who "
    "runs it"
)


def _no_setuid(mode: int) -> Rule:
    return refuse_if((any_bit(mode, _SETUID_BITS),))


def _no_setuid_when_creating(flags: int, mode: int) -> Rule:
    return refuse_if((any_bit(flags, _CREATING), any_bit(mode, _SETUID_BITS)))


def _plain_node(mode: int) -> Rule:
    kinds = (_CHARACTER_DEVICE, _BLOCK_DEVICE)
    devices = ((bits(mode, _FILE_TYPE, kind),) for kind in kinds)
    return refuse_if((any_bit(mode, _SETUID_BITS),), *devices)


def _strict(why: str, rule: Rule) -> ArgumentRule:
    """Return the same rule for the tight and the standard filter."""
    return ArgumentRule(why, {Filter.TIGHT: rule, Filter.STANDARD: rule})


ARGUMENT_RULES: Mapping[str, ArgumentRule] = {
    "clone": _CLONE,
    "socket": _SOCKET,
    "socketpair": _SOCKETPAIR,
    "ioctl": _IOCTL,
    "prlimit64": _PRLIMIT,
    "setrlimit": _SETRLIMIT,
    "sched_setscheduler": _protect_init(pid=0),
    "sched_setparam": _protect_init(pid=0),
    "sched_setattr": _protect_init(pid=0),
    "sched_setaffinity": _protect_init(pid=0),
    "setpriority": _protect_init((low(0, _PRIO_USER),), pid=1),
    "ioprio_set": _protect_init((low(0, _IOPRIO_WHO_USER),), pid=1),
    "prctl": _PRCTL,
    "personality": _PERSONALITY,
    "chmod": _strict(_SETUID_WHY, _no_setuid(1)),
    "fchmod": _strict(_SETUID_WHY, _no_setuid(1)),
    "fchmodat": _strict(_SETUID_WHY, _no_setuid(2)),
    "fchmodat2": _strict(_SETUID_WHY, _no_setuid(2)),
    "creat": _strict(_SETUID_WHY, _no_setuid(1)),
    "open": _strict(_SETUID_WHY, _no_setuid_when_creating(1, 2)),
    "openat": _strict(_SETUID_WHY, _no_setuid_when_creating(2, 3)),
    "mknod": _strict(_SETUID_WHY + ", and devices", _plain_node(1)),
    "mknodat": _strict(_SETUID_WHY + ", and devices", _plain_node(2)),
}

# System V IPC and message queues are separated by user only; the other calls look into other processes.
_OF_THE_HOST = """
shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink keyctl add_key
request_key ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp perf_event_open move_pages migrate_pages
process_madvise process_mrelease
"""
_METADATA = """
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat setxattr lsetxattr
fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr
"""
_ATTRIBUTES = """
getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat
"""
_WATCHING = "inotify_init inotify_init1 inotify_add_watch"
_MOUNTS = "statmount listmount"
_CONNECTING = "bind listen connect accept accept4"
# F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY: signals to others through a pipe, and events of other files
_FCNTL_OF_OTHERS = (8, 10, 15, 1024, 1026)
_SCHEDULING = "sched_setscheduler sched_setparam sched_setattr sched_setaffinity"
_SIGNALLING = "tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal"
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_ONLY_ITSELF = allow_if((low(0, 0),))


def _each(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


# For a guest without namespaces: refuse the access to the host that Landlock and file permissions leave open.
SHARED_HOST: Mapping[str, Rule] = {
    **_each(_OF_THE_HOST, always(REFUSE)),
    **_each(_SCHEDULING, _ONLY_ITSELF),
    **_each(_METADATA, always(REFUSE)),  # write permission is enough for times and some attributes
    # The answer of a file system without them, or of a kernel without the call: programs ask often.
    **_each(_ATTRIBUTES, always(answer(errno.EOPNOTSUPP))),
    **_each(_MOUNTS, always(UNIMPLEMENTED)),
    **_each(_WATCHING, always(REFUSE)),
    "fcntl": refuse_if(*((low(1, command),) for command in _FCNTL_OF_OTHERS)),
    "ioctl": allow_if(*((low(1, request),) for request in _PLAIN_IOCTLS)),  # files have many, even for attributes
    "prlimit64": allow_if((Condition(0, Op.EQ, 0),)),
    "setpriority": allow_if((low(0, 0), low(1, 0))),  # PRIO_PROCESS, itself
    "ioprio_set": allow_if((low(0, 1), low(1, 0))),  # IOPRIO_WHO_PROCESS, itself
}
NO_NETWORK: Mapping[str, Rule] = {
    **_each(_CONNECTING, always(answer(errno.EACCES))),  # a pair could take an abstract name of the host
    "socket": always(answer(errno.EACCES)),
    # No datagrams: such a socket can send to any named socket of the host without connecting.
    "socketpair": allow_if(
        (low(0, _AF_UNIX), bits(1, _SOCK_TYPE_MASK, _SOCK_STREAM)),
        (low(0, _AF_UNIX), bits(1, _SOCK_TYPE_MASK, _SOCK_SEQPACKET)),
        otherwise=answer(errno.EACCES),
    ),
}
"""Without a network namespace, only connected pairs of unnamed sockets remain. A namespace would keep the families."""
NO_UNIX_SOCKETS: Mapping[str, Rule] = {
    "socket": refuse_if((low(0, _AF_UNIX),), action=answer(errno.EACCES)),
    "socketpair": NO_NETWORK["socketpair"],
    **_each("io_uring_setup io_uring_enter io_uring_register", always(REFUSE)),  # a queue can make and connect sockets
}
"""For a guest that sees folders of the host. A read-only mount refuses no connection to a socket in such a folder, and
a filter cannot see the address of a connection.
"""
NO_SIGNALS: Mapping[str, Rule] = {**_each(_SIGNALLING, always(REFUSE)), "kill": _ONLY_ITSELF}
"""For a guest with the caller's own uid, without a Landlock domain that confines signals: only its own group remains.
"""

WATCHING: Mapping[str, Rule] = _each(_WATCHING, always(REFUSE))
"""For a guest with its caller's uid, in a user namespace that an engine makes and whose counts cannot be bounded."""

_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20  # MAP_SHARED_VALIDATE has the bit of MAP_SHARED

_PR_SET_THP_DISABLE = 41

# For hosts without a memory cgroup: refuse memory that no process's own limits count. A page in a pipe keeps the whole
# transparent huge page that it is a part of, and so does a small rest of one that stays mapped. So the warden switches
# these pages off for all its descendants, and no guest may switch them on.
SHARED_MEMORY_WHY = "no process's own limits count memory that is shared without a file, or held by a pipe"
SHARED_MEMORY: Mapping[str, Rule] = {
    "mmap": refuse_if((bits(3, _MAP_SHARED | _MAP_ANONYMOUS, _MAP_SHARED | _MAP_ANONYMOUS),)),
    "memfd_create": always(REFUSE),
    "shmget": always(REFUSE),
    "vmsplice": always(REFUSE),
    "prctl": refuse_if((low(0, _PR_SET_THP_DISABLE),)),
}

_OFD_SETLK, _OFD_SETLKW = 37, 38
_MAP_HUGETLB, _MFD_HUGETLB, _SHM_HUGETLB = 0x4_0000, 0x4, 0o4000
# SO_ATTACH_{FILTER,BPF,REUSEPORT_CBPF,REUSEPORT_EBPF} of SOL_SOCKET; TCP_MD5SIG, TCP_MD5SIG_EXT, TCP_AO_ADD_KEY
_UNCOUNTED_OPTIONS = (*((1, option) for option in (26, 50, 51, 52)), *((6, option) for option in (14, 32, 38)))
_MOST_ATTRIBUTE_BYTES = 1024
_NO_LARGE_ATTRIBUTE = refuse_if((Condition(3, Op.GT, _MOST_ATTRIBUTE_BYTES),), action=answer(errno.ENOSPC))

# The pool of huge pages belongs to the host, and no memory control group counts what is taken from it. Each call gets
# the answer of a host without a pool, so programs fall back to ordinary pages. Transparent huge pages need no rule. No
# limit counts memory policies either, and a process may have one for each of its mappings. In the kernel's list, locks
# of an open file description belong to no process, so the warden could not attribute them. fcntl answers as before
# Linux 3.15. The kernel does not count the keys that sign TCP segments. It compiles a filter of a socket into memory
# that is neither counted nor large for the whole machine (net.core.bpf_jit_limit). Both get the answer of a kernel
# without them. Nor does it count the access list of a file in a tmpfs, so an attribute is small: a file or folder has
# two lists, and ``disk`` bounds the number of files.
UNCOUNTED_WHY = (
    "no limit counts what it takes: huge pages that the host has reserved, policies for NUMA nodes, locks that belong "
    "to no process, filters or keys of sockets, or access lists of files"
)
UNCOUNTED: Mapping[str, Rule] = {
    "mmap": refuse_if((any_bit(3, _MAP_HUGETLB),), action=answer(errno.ENOMEM)),
    "memfd_create": refuse_if((any_bit(1, _MFD_HUGETLB),), action=answer(errno.EINVAL)),
    "shmget": refuse_if((any_bit(2, _SHM_HUGETLB),), action=answer(errno.ENOMEM)),
    "mbind": always(REFUSE),
    "fcntl": refuse_if((low(1, _OFD_SETLK),), (low(1, _OFD_SETLKW),), action=answer(errno.EINVAL)),
    "setsockopt": refuse_if(
        *((low(1, level), low(2, option)) for level, option in _UNCOUNTED_OPTIONS), action=answer(errno.ENOPROTOOPT)
    ),
    **_each("setxattr lsetxattr fsetxattr", _NO_LARGE_ATTRIBUTE),
    "setxattrat": always(UNIMPLEMENTED),  # its size lies behind a pointer
}
