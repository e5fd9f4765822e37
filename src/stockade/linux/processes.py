"""Control processes: clone with namespaces, pidfds, parent-death signals, credentials, capabilities, descriptors."""

from __future__ import annotations

import ctypes
import errno
import os
import select

from stockade.linux import files, libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

# include/uapi/linux/sched.h
NEW_NS = 0x00020000
NEW_CGROUP = 0x02000000
NEW_UTS = 0x04000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PID = 0x20000000
NEW_NET = 0x40000000

# include/uapi/linux/prctl.h
_PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
_PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
_PR_SET_THP_DISABLE = 41
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_CLOSE_RANGE_CLOEXEC = 4
_FEW_DESCRIPTORS = 1024
KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION_3 = 0x20080522

CAPABILITY_HEADER = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
NO_CAPABILITIES = (ctypes.c_uint32 * 6)()
# include/uapi/linux/capability.h
CAP_DAC_OVERRIDE = 1
CAP_FOWNER = 3
CAP_KILL = 5


def _count_capabilities() -> int:
    """Return how many capabilities this kernel knows. Each question is a system call, so the result is kept."""
    count = 0
    try:
        while True:
            libc.prctl(_PR_CAPBSET_READ, count)
            count += 1
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return count


CAPABILITIES = _count_capabilities()
_before_fork = ctypes.pythonapi.PyOS_BeforeFork
_after_fork_child = ctypes.pythonapi.PyOS_AfterFork_Child
_after_fork_parent = ctypes.pythonapi.PyOS_AfterFork_Parent
for _hook in (_before_fork, _after_fork_child, _after_fork_parent):
    _hook.argtypes = ()
    _hook.restype = None


def clone(flags: int) -> int:
    """Fork into new namespaces (clone(2) without a stack). Return 0 in the child, and the child's pid in the parent."""
    return fork_by(lambda: libc.syscall("clone", flags | signal.SIGCHLD, 0, 0, 0, 0))


def fork_by(call: Callable[[], int]) -> int:
    """Fork by ``call``, which returns 0 in the child and the child's pid in the parent. Return the same.

    Only a single-threaded process may use this function. It runs the interpreter's own fork hooks around the call.
    """
    _before_fork()
    try:
        pid = call()
    except OSError:
        _after_fork_parent()
        raise
    if pid == 0:
        _after_fork_child()
    else:
        _after_fork_parent()
    return pid


def die_with(parent: int, by: int = signal.SIGKILL) -> None:
    """Have the kernel send this process the signal ``by`` when its parent dies.

    ``parent`` is the parent's pidfd, and shows whether it is dead already. Any change of credentials clears the setting
    (prctl(2), PR_SET_PDEATHSIG), so call this function after the last change.
    """
    libc.prctl(_PR_SET_PDEATHSIG, by)
    if is_dead(parent):
        os.kill(os.getpid(), by)


def use_small_pages() -> None:
    """Use no transparent huge pages, here and in every process below (prctl(2), PR_SET_THP_DISABLE)."""
    libc.prctl(_PR_SET_THP_DISABLE, 1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def is_dead(pidfd: int) -> bool:
    """Return whether the process behind ``pidfd`` has ended: its pidfd is readable then (pidfd_open(2))."""
    return wait_for_end(pidfd, 0.0)


def wait_for_end(pidfd: int, seconds: float) -> bool:
    """Wait at most ``seconds`` for the process behind ``pidfd`` to end; return whether it has."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def kill(pidfd: int, by: int = signal.SIGKILL) -> None:
    """Kill the process behind ``pidfd`` if it is alive."""
    try:
        signal.pidfd_send_signal(pidfd, by)
    except ProcessLookupError:
        pass


def set_dumpable(dumpable: bool) -> None:
    """Allow or forbid ptrace and access to ``/proc/PID`` by other processes of the same user (prctl(2))."""
    libc.prctl(PR_SET_DUMPABLE, int(dumpable))


def no_new_privileges() -> None:
    """Disable set-user-id and file capabilities permanently, for this process and its children."""
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1)


def empty_bounding_set() -> None:
    """Permanently give up every capability that this process could still gain (capabilities(7)); needs CAP_SETPCAP."""
    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, capability)


def drop_capabilities() -> None:
    """Empty the ambient, inheritable, permitted and effective sets (capabilities(7))."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    libc.syscall("capset", CAPABILITY_HEADER, NO_CAPABILITIES)


def keep_capabilities(*kept: int) -> None:
    """Give up every capability except ``kept``, which the caller must have."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    mask = sum(1 << number for number in kept)  # all below 32: the first of two words
    libc.syscall("capset", CAPABILITY_HEADER, (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0))


def become(uid: int, gid: int) -> None:
    """Permanently become ``uid`` and ``gid``: drop supplementary groups, and change all three ids of each kind."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def give_up_rights(uid: int | None, parent: int) -> None:
    """Permanently become ``uid`` (``None`` stays), without a capability, closed to other processes of that user.

    The process dies with the process behind the pidfd ``parent``.
    """
    if uid is not None:
        become(uid, uid)
    no_new_privileges()
    drop_capabilities()
    set_dumpable(False)
    die_with(parent)


def new_session_keyring() -> None:
    """Replace the caller's session keyring with a new one (keyctl(2)). ENOSYS means that the kernel has no keys."""
    try:
        libc.syscall("keyctl", KEYCTL_JOIN_SESSION_KEYRING, 0)
    except OSError as error:
        # A filter around stockade answers EPERM or ENOSYS. It keeps the guest from the keys as well.
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise


def tasks_of(uid: int) -> int:
    """Return how many tasks the user ``uid`` has now. RLIMIT_NPROC counts by real uid as well (setrlimit(2))."""
    count = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        fields = dict(line.partition(":")[::2] for line in files.read(f"/proc/{name}/status").splitlines())
        if fields.get("Uid", "").split()[:1] == [str(uid)]:
            count += int(fields.get("Threads", "1"))
    return count


def default_signals() -> None:
    """Give every signal its default action and unblock all signals: a caller may have left any of them ignored."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor except ``keep`` (close_range(2))."""
    low, number = 0, libc.NUMBERS["close_range"]
    for fd in (*sorted(keep), 2**31):
        if fd > low and libc.plain(number, low, fd - 1, 0) < 0:
            libc.check(-1, "close_range")
        low = fd + 1


def close_on_exec_from(low: int) -> None:
    """Mark every descriptor from ``low`` on to be closed by the next execve (close_range(2), Linux 5.11).

    Before 5.11, the function marks them one by one, up to a number that no process with a dozen descriptors exceeds.
    """
    try:
        libc.syscall("close_range", low, 2**31 - 1, _CLOSE_RANGE_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        for fd in range(low, _FEW_DESCRIPTORS):
            try:
                os.set_inheritable(fd, False)
            except OSError:
                pass  # not open
