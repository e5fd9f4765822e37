"""State that all steps share, and functions that write files and folders."""

from __future__ import annotations

import os

from stockade.linux import mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STAGING = ("/tmp", "/run", "/mnt", "/dev/shm")
"""Folders for a short-lived mount: every host has at least one of them."""


class Steps:
    """The state of one run that its launch does not contain, and results that one step leaves for the next."""

    def __init__(
        self,
        *,
        uid: int,
        gid: int,
        privileged: bool,
        supervise: Callable[[int], None] | None = None,
        hand_out: Callable[[Sequence[int]], None] | None = None,
        offer: Callable[[int], None] | None = None,
        hand_terminals: Callable[[int], None] | None = None,
        place: int = -1,
        status: int = -1,
        lives: bool = False,
    ) -> None:
        """``uid`` and ``gid`` are the guest's ids on the host; ``privileged`` means that a step must switch to them.

        ``supervise`` passes a filter's listener to the warden. ``hand_out`` passes descriptors of the folder to collect
        from. ``offer`` passes a listening socket of the guest's network, and ``hand_terminals`` the folder of
        pseudo-terminals. All of this happens before the guest starts, so no path that the guest has made leads there.

        ``place`` and ``status`` are descriptors to the reaper of an instance without namespaces. One carries the name
        of the folder made for the run, the other carries an engine's status.

        ``lives`` means that the caller is the init of a living instance, and not the process that becomes the guest.
        """
        self._supervise = supervise
        self._hand_out = hand_out
        self._offer = offer
        self._hand_terminals = hand_terminals
        self._place_note = place
        self._status = status
        self._lives = lives
        self._users = -1
        self.mark = 0
        """The number of the namespace that marks the processes of one exec; 0 outside of a living instance."""
        self._uid = uid
        self._gid = gid
        self._privileged = privileged
        self._host = -1
        self._root = -1
        self._proc = -1
        self._scratch = -1
        self._limits: list[tuple[int, int, int]] = []
        self._ceilings: dict[int, int] | None = None
        self._job = -1
        self._source_file = "", -1
        self._is_guest = False

    def do_folder(self, path: str, mode: int, owned: bool) -> None:
        """Make a folder and its parents; ``owned`` gives the folder to the guest."""
        make_parents(path)
        os.mkdir(path)
        self._set_owner(path, mode, owned)

    def do_link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        make_parents(path)
        os.symlink(target, path)

    def do_file(self, path: str, content: bytes, mode: int, owned: bool) -> None:
        """Write a file; ``owned`` gives it to the guest."""
        make_parents(path)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        write_all(fd, content)
        self._set_owner(path, mode, owned)

    def _place(self, target: str, *, directory: bool) -> int:
        if not os.path.lexists(target):
            make_parents(target)
            if directory:
                os.mkdir(target)
            else:
                os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        return mounts.open_beneath(self._root, target, follow=False)

    def _set_owner(self, path: str, mode: int, owned: bool) -> None:
        os.chmod(path, mode)
        if owned and self._privileged and not self._is_guest:
            os.chown(path, self._uid, self._gid)


def write_all(fd: int, content: bytes) -> None:
    """Write all of ``content`` to ``fd``, and close ``fd``."""
    try:
        write_on(fd, content)
    finally:
        os.close(fd)


def write_on(fd: int, content: bytes) -> None:
    """Write all of ``content`` to ``fd``."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def write_below(folder: int, name: str, content: bytes) -> None:
    """Write to the file ``name`` of the folder, a descriptor, in one call."""
    fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


def make_parents(path: str) -> None:
    """Make the missing parent folders of ``path``."""
    parent = os.path.dirname(path)
    if parent not in ("", "/") and not os.path.isdir(parent):
        make_parents(parent)
        os.mkdir(parent, 0o755)
