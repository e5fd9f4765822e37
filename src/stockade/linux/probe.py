"""Find out what this host offers by trying each facility once. Standard library and ``linux/`` only.

The probe decides nothing. It reports evidence, as JSON-compatible data, for planning.
"""

from __future__ import annotations

import errno
import os
import resource

from stockade.linux import cgroups, files, libc, limits, overlay, processes, users
from stockade.linux.seccomp import install
from stockade.linux.stage import Stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_ALL = (
    ("mount", processes.NEW_NS),
    ("pid", processes.NEW_PID),
    ("network", processes.NEW_NET),
    ("ipc", processes.NEW_IPC),
    ("uts", processes.NEW_UTS),
    ("cgroup", processes.NEW_CGROUP),
)
_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = ("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime")
_ALLOW_EVERYTHING = b"\x06\x00\x00\x00\x00\x00\xff\x7f"  # one instruction: return SECCOMP_RET_ALLOW
_LANDLOCK_CREATE_RULESET_VERSION = 1
_SETTINGS = (
    "user.max_user_namespaces",
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
)
"""Settings that allow or forbid user namespaces; not every kernel has them all."""
_DISKLESS = frozenset((
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "ramfs", "rootfs", "securityfs", "selinuxfs", "sysfs",
    "tmpfs", "tracefs",
))  # fmt: skip
"""File systems that the kernel generates or keeps in memory."""
_OVER_DISKS = frozenset(("btrfs", "overlay"))
"""File systems without a disk of their own. They read the disks below on the account of the reader."""
_IDENTITY = 1000
_TRIAL_STEPS = (
    ("cgroup_namespace",),
    ("root", 1 << 16, 64),
    ("proc",),
    ("hostname", "stockade"),
    ("loopback",),
)
_LAST_TRIAL_STEPS = (
    ("leave_host",),
    ("seal_root", True),
    ("identity", _IDENTITY, _IDENTITY),
)
"""The steps of every run, without any folder of the host. A host that refuses a run refuses these steps."""


def probe(guest_uid: int) -> dict[str, Any]:
    """Return the facts. The probe takes a few milliseconds and leaves nothing behind.

    ``guest_uid`` is the host uid of a run that root starts. Call this function in a warden: under cgroup v2 it may move
    its caller, the parent process, into a leaf of the caller's group.
    """
    usable, lost = cgroups.try_controllers(cgroups.find(), os.getppid())
    return {
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "cpus": len(os.sched_getaffinity(0)),
        "uid": os.geteuid(),
        **_namespaces(guest_uid),
        "settings": _settings(),
        "filtered": _is_filtered(),
        "covered": _covered(),
        "off_disk": _off_disk(),
        "hierarchies": [[item.version, item.path, list(item.controllers)] for item in usable],
        "cgroup_lost": lost,
        "swap": _has_swap(),
        "landlock": _landlock(),
        "seccomp": _seccomp(),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "core_handler": _core_handler(),
        "core_limit": limits.core_ceiling(),
        "groups": len(set(os.getgroups()) - {os.getegid()}),
        "system": _system(),
    }


def _namespaces(guest_uid: int) -> dict[str, Any]:
    """Try to create namespaces as root first, where that may work, and then through a user namespace."""
    flags = 0
    for _, flag in _ALL:
        flags |= flag
    reasons = {}
    if os.geteuid() == 0:
        reasons["root"], trouble = _try(flags, lambda: _try_as_root(guest_uid))
        if not reasons["root"]:
            return {"namespaces": True, "privileged": True, "namespace_reasons": {}, "no_overlay": trouble}
    uid, gid = os.geteuid(), os.getegid()  # inside, before ids are mapped, both would be 65534
    reasons["user"], trouble = _try(flags | processes.NEW_USER, lambda: _try_as_user(uid, gid))
    if not reasons["user"]:
        return {"namespaces": True, "privileged": False, "namespace_reasons": {}, "no_overlay": trouble}
    for name, flag in _ALL:
        alone = _in_child(flag | (0 if os.geteuid() == 0 else processes.NEW_USER), lambda: "")
        if alone:
            reasons[name] = alone
    return {
        "namespaces": False,
        "privileged": False,
        "namespace_reasons": {name: reason for name, reason in reasons.items() if reason},
        "no_overlay": "this host allows no namespaces",
    }


def _try_as_root(guest_uid: int) -> str:
    return _try_steps(Stage(uid=guest_uid, gid=guest_uid, privileged=True))


def _try_as_user(uid: int, gid: int) -> str:
    proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
    users.map_identity(proc, 0, uid, 0, gid)
    return _try_steps(Stage(uid=0, gid=0, privileged=False))


def _try_steps(stage: Stage) -> str:
    """Apply the steps of a run; return why an overlay fails, or an empty text."""
    stage.apply(_TRIAL_STEPS)
    trouble = overlay.why_no_overlay("")
    stage.apply(_LAST_TRIAL_STEPS)
    _check_fork_limit()
    return trouble


def _check_fork_limit() -> None:
    """Raise ``OSError`` unless RLIMIT_NPROC binds the guest. It never binds the host's root, in any namespace
    (fork(2)).
    """
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    try:
        pid = os.fork()
    except BlockingIOError:
        return
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    raise OSError(errno.EPERM, "step identity: the guest would be the host's root, whom RLIMIT_NPROC does not bind")


def _settings() -> dict[str, str]:
    """Return the value of each setting that this kernel has."""
    found = {}
    for name in _SETTINGS:
        text = files.read(f"/proc/sys/{name.replace('.', '/')}").strip()
        if text:
            found[name] = text
    return found


def _is_filtered() -> bool:
    """Return whether a system-call filter already surrounds this program, as in a container."""
    return "\nSeccomp:\t2\n" in files.read("/proc/self/status")


def _covered() -> list[str]:
    """Return the mounts over parts of /proc. They make the kernel refuse a fresh /proc to an unprivileged user."""
    places = [line.split(" ")[4] for line in files.read("/proc/self/mountinfo").splitlines()]
    return sorted({place for place in places if place.startswith("/proc/")})


def _off_disk() -> list[str]:
    """Return the mount points of file systems whose reads no control group can slow down.

    Examples are network file systems, and those whose disks are read by kernel threads outside of all groups.
    """
    found = []
    for line in files.read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()[0]
        if fields[2].startswith("0:") and kind not in _DISKLESS | _OVER_DISKS:
            found.append(files.unescape(fields[4]))
    return sorted(set(found))


def _in_child(flags: int, work: Callable[[], str]) -> str:
    """Return why ``work`` fails in a child cloned with ``flags``; an empty text means that it works."""
    return _try(flags, work)[0]


def _try(flags: int, work: Callable[[], str]) -> tuple[str, str]:
    """Return why ``work`` fails in a child cloned with ``flags``, and its answer if it succeeds."""
    read, write = os.pipe()
    try:
        pid = processes.clone(flags)
    except OSError as error:
        os.close(read)
        os.close(write)
        return f"clone: {os.strerror(error.errno or 0)}", ""
    if pid == 0:
        reason = answer = ""
        try:
            answer = work()
        except OSError as error:
            reason = error.strerror or os.strerror(error.errno or errno.EIO)
        except BaseException as error:  # the child must end here after any error
            reason = repr(error)
        os.write(write, f"{reason[:500]}\0{answer[:500]}".encode())
        os._exit(0)
    os.close(write)
    reason, _, answer = os.read(read, 4000).decode().partition("\0")
    os.close(read)
    _, status = os.waitpid(pid, 0)
    return (reason, answer) if status == 0 else (f"killed in the attempt ({status})", "")


def _core_handler() -> str:
    """Return how the kernel passes a core to a handler (core(5)); an empty text if it writes a file."""
    pattern = files.read("/proc/sys/kernel/core_pattern")
    return {"|": "pipe", "@": "socket"}.get(pattern[:1], "")


def _has_swap() -> bool:
    try:
        with open("/proc/swaps", encoding="utf-8") as file:
            return len(file.readlines()) > 1
    except OSError:
        return True  # unknown, so assume that there is swap


def _landlock() -> int:
    try:
        return libc.syscall("landlock_create_ruleset", 0, 0, _LANDLOCK_CREATE_RULESET_VERSION)
    except OSError:
        return 0


def _seccomp() -> bool:
    def load() -> str:
        install.install(_ALLOW_EVERYTHING)
        return ""

    return not _in_child(0, load)


def _system() -> list[list[str]]:
    """Return the system's folders as ``[path, link target or ""]``, and the files of /etc that help to find others."""
    found = []
    for path in (*_SYSTEM_FOLDERS, *_SYSTEM_FILES):
        if os.path.islink(path) and path in _SYSTEM_FOLDERS:
            found.append([path, os.readlink(path)])
        elif os.path.exists(path):
            found.append([path, ""])
    return found
