"""The steps between fork and exec: a launch's list is carried out here, in its order, in one small loop.

The order matters, and this is why it is what it is:

 1. ``cgroup_namespace``  the groups it was born in become the root of what it sees of them;
 2. ``root``      the new root is mounted and pivoted into, so that the host's ``/tmp`` is not hidden as a source;
 3. ``bind``, ``link``, ``file``, ``folder``, ``scratch``, ``hostname``, ``loopback``   while capabilities are there;
 4. ``proc``      a writable mount below a read-only one: ids are mapped through the lower, the guest sees the upper;
    ``low_ports`` is written through the lower as well;
 5. ``leave_host``  the old root is detached when no source is needed any more, and ``seal_root``;
 6. ``identity``  a uid that is not root's, then a user namespace that owns nothing, then no capability at all;
 7. ``landlock``   when nothing is mounted any more, since a restricted process cannot; then one of the filters;
 8. ``job_file``   what differs from job to job can come this late, through a descriptor kept for it;
 9. ``limits``    last: under a limit of one process or few bytes, nothing else could be done.

In a cell without namespaces: ``session``; ``place``, ``folder`` and ``file`` while they can still be given to the
guest; ``become``; then as from 7 on. What an engine is handed (``data``, ``status``) comes before ``become``.
"""

from __future__ import annotations

import _socket as socket  # the ``socket`` module imports ``selectors`` and ``enum``
import fcntl
import os
import struct

from stockade.linux import copying, files, landlock, libc, mounts, overlay, processes
from stockade.linux import limits as rlimits
from stockade.linux.seccomp import install as seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_OLD = "/.old"
_STAGING = ("/tmp", "/run", "/mnt", "/dev/shm")
_ATTRIBUTES = {
    "ro": mounts.ATTR_RDONLY,
    "nosuid": mounts.ATTR_NOSUID,
    "nodev": mounts.ATTR_NODEV,
    "noexec": mounts.ATTR_NOEXEC,
}
_ROOM_FOR_NAMES, _ROOM_FOR_NOTES, _NOTES = 1 << 16, 1 << 24, 4096
_SIOCSIFFLAGS = 0x8914  # netdevice(7)
_IFF_UP_RUNNING = 0x41


class Stage:
    """Carries out steps. What differs from run to run and is no business of the launch is given here."""

    def __init__(
        self,
        *,
        uid: int,
        gid: int,
        privileged: bool,
        supervise: Callable[[int], None] | None = None,
        hand_out: Callable[[Sequence[int]], None] | None = None,
        place: int = -1,
        status: int = -1,
    ) -> None:
        """``uid`` and ``gid`` are the host's, as seen here; ``privileged`` tells that they must be taken on.

        ``supervise`` hands a filter's listener to who answers there, ``hand_out`` the folder to collect from to who
        collects, by descriptor: before the guest starts, so that no path of its making leads there. ``place`` and
        ``status`` are descriptors to the keeper of a bare cell: for the name of the folder made for the run, and for
        what an engine says of itself.
        """
        self._supervise = supervise
        self._hand_out = hand_out
        self._place_note = place
        self._status = status
        self._uid = uid
        self._gid = gid
        self._privileged = privileged
        self._host = -1
        self._root = -1
        self._proc = -1
        self._scratch = -1
        self._limits: list[tuple[int, int, int]] = []
        self._job = -1
        self._settled = False

    def apply(self, steps: Sequence[Sequence[Any]]) -> None:
        """Carry out ``steps``; an ``OSError`` names the step that failed."""
        for name, *arguments in steps:
            step: Callable[..., None] = getattr(self, f"do_{name}")
            try:
                step(*arguments)
            except OSError as error:
                reason = error.strerror or str(error)
                raise OSError(error.errno, f"step {name} {arguments[:2]!r}: {reason}") from None

    def seal(self) -> None:
        """Set the limits that were worked out; only execve may come after."""
        rlimits.apply(self._limits)

    def do_root(self, size: int, inodes: int) -> None:
        """Pivot into a fresh tmpfs; the old root waits in a hidden folder of it."""
        mounts.make_private()
        self._host = os.open("/", os.O_PATH | os.O_CLOEXEC)
        staging = next(place for place in _STAGING if os.path.isdir(place))
        mounts.tmpfs(staging, size, inodes, 0o755)
        os.chdir(staging)
        os.mkdir("." + _OLD)
        mounts.pivot("." + _OLD)
        os.chdir("/")
        self._root = os.open("/", os.O_PATH | os.O_CLOEXEC)

    def do_folder(self, path: str, mode: int, owned: bool) -> None:
        """Make a folder, with its parents; the guest's own if ``owned``."""
        _make_parents(path)
        os.mkdir(path)
        self._settle(path, mode, owned)

    def do_link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        _make_parents(path)
        os.symlink(target, path)

    def do_file(self, path: str, content: bytes, mode: int, owned: bool) -> None:
        """Write a file; the guest's own if ``owned``."""
        _make_parents(path)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        _write_all(fd, content)
        self._settle(path, mode, owned)

    def do_bind(self, source: str, target: str, attributes: Sequence[str]) -> None:
        """Attach the host's ``source`` at ``target``; both are resolved inside their own root.

        No symbolic link is followed to the source unless ``follow`` is among the attributes: a guest may have
        planted one in a folder that an earlier run could write.
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

    def do_scratch(self, size: int, inodes: int, faces: Sequence[tuple[str, int]]) -> None:
        """Mount one tmpfs and show a folder of it at each of ``faces``: one size bounds them together.

        The first face is laid over the tmpfs itself: hidden for good, it need not be unmounted, which is dear.
        """
        base = faces[0][0]
        os.close(self._place(base, directory=True))
        mounts.tmpfs(base, size, inodes, 0o755)
        self._scratch = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for number, (target, mode) in reversed(list(enumerate(faces))):
            folder = f"{base}/{number}"
            os.mkdir(folder)
            self._settle(folder, mode, owned=True)
            origin = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            place = self._place(target, directory=True)
            mounts.bind(origin, place, target, 0)
            os.close(origin)
            os.close(place)

    def do_overlay(self, source: str) -> None:
        """Show the host's folder ``source`` at its own place, with writes going to the scratch space."""
        origin = mounts.open_beneath(self._host, source, follow=False)
        place = self._place(source, directory=True)
        guest = overlay.Guest(self._uid, self._gid, self._proc) if self._privileged else None
        upper = overlay.mount(origin, self._scratch, place, guest)
        if self._hand_out is not None:
            self._hand_out([upper])
        for fd in (origin, place, upper):
            os.close(fd)

    def do_copy(self, source: str, target: str, hidden: Sequence[str], most_bytes: int | None) -> None:
        """Copy the host's folder ``source``, but for what is ``hidden``: into the scratch space, shown at ``target``,
        or to ``target`` itself in a cell that has no root of its own."""
        top = self._host if self._host >= 0 else os.open("/", os.O_PATH | os.O_CLOEXEC)
        found = mounts.open_beneath(top, source, follow=False)
        origin = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        folder = self._fresh_folder(target)
        manifest = os.memfd_create("stockade", os.MFD_CLOEXEC)
        copier = copying.Copier(frozenset(hidden), most_bytes, own=self._give)
        _write_all(os.dup(manifest), copier.copy(origin, folder))
        os.fchmod(folder, os.fstat(found).st_mode & 0o777 | 0o700)
        self._give(folder)
        if self._hand_out is not None:
            self._hand_out([folder, manifest])
        for fd in (found, origin, folder, manifest):
            os.close(fd)

    def _fresh_folder(self, target: str) -> int:
        if self._scratch < 0:
            os.mkdir(target, 0o700)
            return os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.mkdir("copy", 0o700, dir_fd=self._scratch)
        folder = os.open("copy", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._scratch)
        place = self._place(target, directory=True)
        mounts.bind(folder, place, target, mounts.ATTR_NOSUID | mounts.ATTR_NODEV)
        os.close(place)
        return folder

    def _give(self, fd: int) -> None:
        if self._privileged:
            os.fchown(fd, self._uid, self._gid)

    def do_hide(self, folder: str, names: Sequence[tuple[str, bool]]) -> None:
        """Lay something empty over each of ``names`` (and whether it is a folder) in ``folder``."""
        place = "/" if self._scratch < 0 else f"/proc/self/fd/{self._scratch}"
        os.close(os.open(f"{place}/.file", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
        os.mkdir(f"{place}/.folder", 0o555)
        covers = [os.open(f"{place}/{name}", os.O_PATH | os.O_CLOEXEC) for name in (".file", ".folder")]
        for name, is_folder in names:
            try:
                target = mounts.open_beneath(self._root, f"{folder}/{name}", follow=False)
            except FileNotFoundError:
                continue  # gone since it was found
            mounts.bind(covers[is_folder], target, f"{folder}/{name}", mounts.ATTR_RDONLY)
            os.close(target)
        for fd in covers:
            os.close(fd)

    def do_protect(self, folder: str, names: Sequence[str]) -> None:
        """Make each of ``names`` in ``folder`` read-only. The folders on the way become mounts as well: what is none
        could be renamed, and another one made in its place."""
        on_the_way = {part for name in names for part in _parents(name)}
        for name in (*sorted(on_the_way), *names):
            path = f"{folder}/{name}" if name else folder
            origin = mounts.open_beneath(self._root, path, follow=False)
            mounts.bind(origin, origin, path, 0 if name in on_the_way else mounts.ATTR_RDONLY)
            os.close(origin)

    def do_proc(self) -> None:
        """Mount a fresh /proc, read-only for the guest; ids are mapped through the writable mount below it.

        The guest is also made the first to go when memory runs out: in its group, and on the host.
        """
        os.mkdir("/proc")
        mounts.proc("/proc")
        self._proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        _write_below(self._proc, "self/oom_score_adj", b"1000")
        place = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        mounts.bind(self._proc, place, "/proc", mounts.ATTR_RDONLY)
        os.close(place)

    def do_leave_host(self) -> None:
        """Let go of the old root: nothing of the host can be shown after this."""
        mounts.detach(_OLD)
        os.rmdir(_OLD)
        os.close(self._host)
        self._host = -1

    def do_seal_root(self, read_only: bool) -> None:
        """Make the new root read-only, or the guest's own."""
        if read_only:
            mounts.restrict(self._root, "/", mounts.ATTR_RDONLY)
        else:
            self._settle("/", 0o755, owned=True)

    def do_hostname(self, name: str) -> None:
        """Name the machine that the guest sees."""
        socket.sethostname(name)

    def do_loopback(self) -> None:
        """Bring up the loopback interface of the guest's own network."""
        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        fcntl.ioctl(control.fileno(), _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))
        control.close()

    def do_low_ports(self) -> None:
        """Let whoever is in the guest's own network use ports below 1024 (ip-sysctl.rst): in place of a capability,
        which could be over another network only. The one who owns the network may write it."""
        _write_below(self._proc, "sys/net/ipv4/ip_unprivileged_port_start", b"0")

    def do_cgroup_namespace(self) -> None:
        """Enter a namespace in which the run's own control groups are the root (cgroup_namespaces(7))."""
        libc.unshare(processes.NEW_CGROUP)

    def do_identity(self, uid: int, gid: int) -> None:
        """Become the guest: nobody's root, in a user namespace that owns nothing, without any capability."""
        os.setsid()
        os.umask(0o022)
        processes.new_session_keyring()
        if self._privileged:
            processes.become(self._uid, self._gid)
            processes.set_dumpable(True)  # or /proc/self belongs to root and ids cannot be mapped
        libc.unshare(processes.NEW_USER)
        processes.map_identity(self._proc, uid, self._uid, gid, self._gid)
        processes.no_user_namespaces(self._proc)
        processes.no_new_privileges()
        processes.empty_bounding_set()
        processes.drop_capabilities()
        self._settled = True  # what is made from now on is the guest's own

    def do_chdir(self, path: str) -> None:
        """Start the guest in ``path``."""
        os.chdir(path)

    def do_job_folder(self, path: str) -> None:
        """Make the folder of the job's own files, and keep a writable mount of it that the guest never sees."""
        os.mkdir(path)
        self._settle(path, 0o755, owned=True)
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self._job = mounts.copy(place)
        os.close(place)

    def do_job_file(self, name: str, content: bytes) -> None:
        """Write a file into the job's folder."""
        folder, _, _ = name.rpartition("/")
        if folder:
            os.mkdir(folder, 0o755, dir_fd=self._job)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=self._job)
        _write_all(fd, content)

    def do_outlet(self, path: str, on_host: bool = False) -> None:
        """Hand out the folder at ``path``: what is in it when the guest is gone is what comes out.

        A folder of the host is taken as it is there: what is laid over parts of it for the guest is not the host's.
        """
        if on_host and self._host >= 0:
            folder = mounts.open_beneath(self._host, path, follow=False)
        else:
            folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if self._hand_out is not None:
            self._hand_out([folder])
        os.close(folder)

    # -- in a cell without namespaces ---------------------------------------------------------------------------

    def do_session(self) -> None:
        """Leave the caller's session and keyring, and be the first to go when memory runs out."""
        os.setsid()
        os.umask(0o022)
        processes.new_session_keyring()
        files.write("/proc/self/oom_score_adj", "1000")

    def do_place(self, path: str) -> None:
        """Make a folder of the host for this run. The keeper, who removes it, is told first."""
        os.write(self._place_note, os.fsencode(path))
        os.mkdir(path, 0o700)
        if self._privileged:  # the guest may go in by its group, and nobody else
            os.chown(path, -1, self._gid)
            os.chmod(path, 0o710)

    def do_become(self) -> None:
        """Take on the run's uid and give up every capability and the way to new ones, for good."""
        if self._privileged:
            processes.empty_bounding_set()
            processes.become(self._uid, self._gid)
        processes.no_new_privileges()
        processes.drop_capabilities()
        self._settled = True

    def do_account(self, notes: str) -> None:
        """Enter a mount namespace in which the run's uid has an account, for an engine that serves nobody else.

        Its home is the root folder, which is always there (passwd(5)). The engine finds its own folder ``notes`` empty:
        what it leaves there when it is killed goes with the namespace.
        """
        libc.unshare(processes.NEW_NS)
        mounts.make_private()
        staging = next(place for place in _STAGING if os.path.isdir(place))
        mounts.tmpfs(staging, _ROOM_FOR_NAMES, 8, 0o755)
        for name, text in (
            ("passwd", f"root:x:0:0:root:/:/bin/sh\nguest:x:{self._uid}:{self._gid}:guest:/:/bin/sh\n"),
            ("group", f"root:x:0:\nguest:x:{self._gid}:\n"),
        ):
            self.do_file(f"{staging}/{name}", text.encode(), 0o644, owned=False)
            made, place = (os.open(f"{folder}/{name}", os.O_PATH | os.O_CLOEXEC) for folder in (staging, "/etc"))
            mounts.bind(made, place, f"/etc/{name}", mounts.ATTR_RDONLY)
            os.close(made)
            os.close(place)
        mounts.detach(staging)
        os.makedirs(notes, 0o755, exist_ok=True)
        mounts.tmpfs(notes, _ROOM_FOR_NOTES, _NOTES, 0o755)

    def do_room(self, path: str, size: int, inodes: int) -> None:
        """Lay a file system of its own over the run's folder: one size bounds all that is written there."""
        mounts.tmpfs(path, size, inodes, 0o710)
        os.chown(path, -1, self._gid)

    def do_lend(self) -> None:
        """Take on the run's uid and leave open the way to new privileges: for a set-user-id engine, which closes it."""
        if self._privileged:
            processes.become(self._uid, self._gid)
        self._settled = True

    def do_data(self, number: int, content: bytes) -> None:
        """Leave ``content`` to be read at the descriptor ``number``."""
        fd = os.memfd_create("stockade", os.MFD_CLOEXEC)
        _write_all(os.dup(fd), content)
        os.lseek(fd, 0, os.SEEK_SET)
        _hand_on(fd, number)

    def do_status(self, number: int) -> None:
        """Leave the engine's way to say how its sandbox fares at the descriptor ``number``."""
        _hand_on(os.dup(self._status), number)

    def do_task_room(self, count: int) -> None:
        """Bound processes where nothing counts those of this run alone: that many beyond what the user has now."""
        room = processes.tasks_of(self._uid) - 1 + count  # this one will be the guest's first
        self._limits += rlimits.prepare({"nproc": (room, room)})

    def do_landlock(self, ruleset: dict[str, Any], exact: Sequence[str] = ()) -> None:
        """Give up every right to files, and every way to processes outside, that the ruleset does not name.

        The ``exact`` paths of it are not reached through any symbolic link: a guest may be planting one right now.
        """
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        opened = {path: mounts.open_beneath(root, path, follow=False) for path in exact}
        landlock.restrict(landlock.Ruleset.from_json(ruleset), opened=opened)
        for fd in (root, *opened.values()):
            os.close(fd)

    def do_filter(self, program: bytes) -> None:
        """Load the system-call filter; it lets through what the last steps need."""
        seccomp.install(program)

    def do_listening_filter(self, program: bytes) -> None:
        """Load a filter that asks about refusals, and hand its listener on at once: until that is done nobody
        would answer, and the guest must never hold it."""
        listener = seccomp.install_with_listener(program)
        if self._supervise is not None:
            self._supervise(listener)
        os.close(listener)

    def do_limits(self, wanted: dict[str, Sequence[int]]) -> None:
        """Work out the limits now; they are set after the last step."""
        self._limits = rlimits.prepare({name: (soft, hard) for name, (soft, hard) in wanted.items()})

    def _place(self, target: str, *, directory: bool) -> int:
        if not os.path.lexists(target):
            _make_parents(target)
            if directory:
                os.mkdir(target)
            else:
                os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        return mounts.open_beneath(self._root, target, follow=False)

    def _settle(self, path: str, mode: int, owned: bool) -> None:
        os.chmod(path, mode)
        if owned and self._privileged and not self._settled:
            os.chown(path, self._uid, self._gid)


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _write_all(fd: int, content: bytes) -> None:
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


def _hand_on(fd: int, number: int) -> None:
    os.dup2(fd, number, inheritable=True)
    os.close(fd)


def _write_below(folder: int, name: str, content: bytes) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


def _make_parents(path: str) -> None:
    parent = os.path.dirname(path)
    if parent not in ("", "/") and not os.path.isdir(parent):
        _make_parents(parent)
        os.mkdir(parent, 0o755)
