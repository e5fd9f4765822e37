"""Steps for a new root and for the guest that lives in it."""

from __future__ import annotations

import _socket as socket  # the ``socket`` module imports ``selectors`` and ``enum``
import fcntl
import os
import struct

from stockade.linux import files, libc, mounts, processes, users
from stockade.linux.oom_score import OomScore
from stockade.linux.steps.base import STAGING, Steps, write_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_OLD = "/.old"
_ATTRIBUTES = {
    "ro": mounts.ATTR_RDONLY,
    "nosuid": mounts.ATTR_NOSUID,
    "nodev": mounts.ATTR_NODEV,
}
_SIOCSIFFLAGS = 0x8914  # netdevice(7)
_IFF_UP_RUNNING = 0x41
_WAITING = 128
"""Connections that may wait for the proxy."""
_TIOCSCTTY = 0x540E


class RootSteps(Steps):
    """Steps for a separate root, for its content and for the guest's identity, in an instance with namespaces."""

    oom_score: OomScore
    """The score of the init of a living instance, after ``users``."""

    def do_root(self, size: int, inodes: int) -> None:
        """Pivot into a fresh tmpfs. The old root stays in a hidden folder until ``leave_host``."""
        mounts.make_private()
        self._host = os.open("/", os.O_PATH | os.O_CLOEXEC)
        staging = next(place for place in STAGING if os.path.isdir(place))
        mounts.tmpfs(staging, size, inodes, 0o755)
        os.chdir(staging)
        os.mkdir("." + _OLD)
        mounts.pivot("." + _OLD)
        os.chdir("/")
        self._root = os.open("/", os.O_PATH | os.O_CLOEXEC)

    def do_bind(self, source: str, target: str, attributes: Sequence[str]) -> None:
        """Attach the host's ``source`` at ``target``; both are resolved inside their own root.

        Symbolic links to the source are followed only if ``follow`` is among the attributes. A guest may have planted
        one in a folder that an earlier run could write to.
        """
        flags = 0
        for name in attributes:
            flags |= _ATTRIBUTES.get(name, 0)
        origin = mounts.open_beneath(self._host, source, follow="follow" in attributes)
        try:
            place = self._place(target, directory=mounts.is_directory(origin))
            try:
                mounts.bind(origin, place, target, flags)
            finally:
                os.close(place)
        finally:
            os.close(origin)

    def do_longer_file(self, path: str, more: bytes) -> None:
        """Write a copy of the host's file at ``path``, with ``more`` on lines of its own, unless the path is shown."""
        if os.path.lexists(path):
            return
        found = mounts.open_beneath(self._host, path, follow=True)
        content = files.read(f"/proc/self/fd/{found}")
        os.close(found)
        lines = content if content.endswith("\n") or not content else f"{content}\n"
        self.do_file(path, lines.encode("utf-8", "surrogateescape") + more, 0o644, owned=False)

    def do_scratch(self, size: int, inodes: int, mount_targets: Sequence[tuple[str, int]]) -> None:
        """Mount one tmpfs, and show a folder of it at each of ``mount_targets``: one size bounds them together.

        The first target covers the tmpfs itself. The tmpfs stays hidden for good, which saves an expensive unmount.
        """
        base = mount_targets[0][0]
        os.close(self._place(base, directory=True))
        mounts.tmpfs(base, size, inodes, 0o755)
        self._scratch = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for number, (target, mode) in reversed(list(enumerate(mount_targets))):
            folder = f"{base}/{number}"
            os.mkdir(folder)
            self._set_owner(folder, mode, owned=True)
            origin = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            place = self._place(target, directory=True)
            mounts.bind(origin, place, target, 0)
            os.close(origin)
            os.close(place)

    def do_proc(self) -> None:
        """Mount a fresh /proc, read-only for the guest. Ids are mapped through the writable mount below it.

        This step also makes the guest the first process that the kernel kills when memory runs out, in its group and on
        the host. In a living instance, the init takes the step, and it raises the score of each exec at its fork.
        """
        os.mkdir("/proc")
        mounts.proc("/proc")
        self._proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        if not self._lives:
            write_below(self._proc, "self/oom_score_adj", b"1000")
        place = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        mounts.bind(self._proc, place, "/proc", mounts.ATTR_RDONLY)
        os.close(place)

    def do_terminals(self, path: str, most: int) -> None:
        """Mount pseudo-terminals of the instance at ``path``: at most ``most`` pairs, and none of the host."""
        mounts.pts(path, most)
        if self._lives and self._hand_terminals is not None and os.path.exists(f"{path}/ptmx"):
            folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self._hand_terminals(folder)
            os.close(folder)

    def do_own_terminal(self) -> None:
        """Make the terminal behind standard input the controlling one of this session (ioctl_tty(2))."""
        fcntl.ioctl(0, _TIOCSCTTY, 0)

    def do_leave_host(self) -> None:
        """Detach the old root. No later step can show anything of the host."""
        mounts.detach(_OLD)
        os.rmdir(_OLD)
        os.close(self._host)
        self._host = -1

    def do_seal_root(self, read_only: bool) -> None:
        """Make the new root read-only, or give it to the guest."""
        if read_only:
            mounts.restrict(self._root, "/", mounts.ATTR_RDONLY)
        else:
            self._set_owner("/", 0o755, owned=True)

    def do_hostname(self, name: str) -> None:
        """Set the host name that the guest sees."""
        socket.sethostname(name)

    def do_loopback(self) -> None:
        """Bring up the loopback interface of the guest's own network."""
        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        fcntl.ioctl(control.fileno(), _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))
        control.close()

    def do_proxy_listener(self, port: int) -> None:
        """Listen on the loopback of the guest's own network, and hand the socket to the warden.

        The guest never holds the socket. It is the network's only connection to anything outside.
        """
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        listener.bind(("127.0.0.1", port))
        listener.listen(_WAITING)
        if self._offer is not None:
            self._offer(listener.fileno())
        listener.close()

    def do_low_ports(self) -> None:
        """Allow ports below 1024 to every process in the guest's own network (ip-sysctl.rst).

        A capability cannot replace this setting: the guest's would not apply to this network. Only the owner of the
        network may write the setting.
        """
        write_below(self._proc, "sys/net/ipv4/ip_unprivileged_port_start", b"0")

    def do_cgroup_namespace(self) -> None:
        """Enter a cgroup namespace whose root is the run's own control groups (cgroup_namespaces(7))."""
        libc.unshare(processes.NEW_CGROUP)

    def do_users(self, uid: int, gid: int) -> None:
        """Make the user namespace that all execs of a living instance will enter by ``identity``.

        It owns nothing. A process that has the uid of its maker needs no capability to enter it.
        """
        self.oom_score = OomScore(self._proc)  # before Landlock, which allows no writing there
        self._users = users.empty_user_namespace(self._proc, (uid, gid), self._uid if self._privileged else 0)

    def _enter_users(self, uid: int, gid: int) -> None:
        """Become the guest in the namespace that ``users`` made.

        The process stays undumpable until it executes its program. So no other exec can trace it before its filter.

        The exec gets a UTS namespace of its own, which no process can leave without a capability. So the namespace is
        the mark of all its processes, wherever they are in the tree.
        """
        libc.setns(self._users, processes.NEW_USER)
        os.close(self._users)
        libc.unshare(processes.NEW_UTS)
        self.mark = os.stat("self/ns/uts", dir_fd=self._proc).st_ino
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)

    def do_identity(self, uid: int, gid: int) -> None:
        """Become the guest: an ordinary uid in a user namespace that owns nothing, without any capability."""
        os.setsid()
        os.umask(0o022)
        processes.new_session_keyring()
        if self._users >= 0:
            self._enter_users(uid, gid)
        else:
            self._enter_new_users(uid, gid)
        processes.no_new_privileges()
        processes.empty_bounding_set()
        processes.drop_capabilities()
        self._is_guest = True  # files made from now on belong to the guest

    def _enter_new_users(self, uid: int, gid: int) -> None:
        if self._privileged:
            processes.become(self._uid, self._gid)
            processes.set_dumpable(True)  # otherwise /proc/self belongs to root, and no id can be mapped
        libc.unshare(processes.NEW_USER)
        users.map_identity(self._proc, uid, self._uid, gid, self._gid)
        users.bound_namespace(self._proc)
