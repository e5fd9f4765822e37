"""The mounts and folders of one worker's guests. Each guest gets fresh ones; no guest sees those of another (ADR 37).

Fresh mounts have a price. The kernel copies all mounts for a guest. To take them down, it waits until no processor can
be looking at them (``namespace_unlock`` in fs/namespace.c).
"""

from __future__ import annotations

import os
import stat

from stockade.linux import landlock, libc, mounts, processes
from stockade.linux.steps.base import make_parents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

_CLOSED = -1


class GuestMounts:
    """Makes fresh mounts in a mount namespace of the worker; the worker then forks the guest in it."""

    def __init__(self, steps: Iterable[Sequence[Any]], *, uid: int, proc: int) -> None:
        """``steps`` say what to mount. ``uid`` owns the writable folders; 0 means the worker's uid.

        ``proc`` is a descriptor of /proc. The current mount namespace stays unchanged, as the origin of all others.
        """
        self._steps = tuple(steps)
        self._uid = uid
        self._base_namespace = os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self.scratch = self.job = self.ruleset = _CLOSED
        """Descriptors of the guest's writable space, of its job's folder, and of its Landlock ruleset."""
        self.source_name, self.source = "", _CLOSED
        """The file that waits in the job's folder for the source, and a descriptor of it."""
        self._expected = ""
        self._own: list[str] = []
        self._kept: list[tuple[str, int]] = []
        self._prepared: landlock.Prepared | None = None
        self._make()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that a launch needs."""
        open_here = (self.scratch, self.job, self.source)
        return open_here if self.source >= 0 else open_here[:-1]

    def expect(self, name: str) -> None:
        """Create the file ``name`` for the source of each later guest, unless it lies in a folder of its own."""
        self._expected = "" if "/" in name else name

    def renew(self) -> None:
        """Make fresh mounts and folders for the next guest. No guest may be alive."""
        libc.setns(self._base_namespace, processes.NEW_NS)
        self._make()

    def _make(self) -> None:
        libc.unshare(processes.NEW_NS)
        self._own = []
        for name, *arguments in self._steps:
            getattr(self, f"_do_{name}")(*arguments)
        self._write_source()

    def _write_source(self) -> None:
        if self.source >= 0:
            os.close(self.source)
        self.source_name, self.source = self._expected, _CLOSED
        if self.source_name:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self.source = os.open(self.source_name, flags, 0o644, dir_fd=self.job)
            os.fchmod(self.source, 0o644)
            if self._uid:
                os.fchown(self.source, self._uid, self._uid)

    def _do_keep(self, paths: Sequence[str]) -> None:
        """Open host paths that the writable folders are about to cover. No guest has seen this mount namespace yet."""
        self._kept = [(path, os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)) for path in paths]

    def _do_show_kept(self) -> None:
        """Mount the kept paths over the writable folders, as restricted as they were."""
        for path, source in self._kept:
            make_parents(path)
            if stat.S_ISDIR(os.fstat(source).st_mode):
                os.mkdir(path, 0o755)
            else:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
            target = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            mounts.bind(source, target, path, 0)
            os.close(target)
            os.close(source)
        self._kept = []

    def _do_scratch(self, size: int, inodes: int, mount_targets: Sequence[tuple[str, int]]) -> None:
        base = mount_targets[0][0]
        mounts.tmpfs(base, size, inodes, 0o755)
        self.scratch = _replaced(self.scratch, os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        for number, (target, mode) in reversed(list(enumerate(mount_targets))):
            folder = f"{base}/{number}"
            os.mkdir(folder, 0o700)
            self._give(folder, mode)
            libc.mount(folder, target, None, mounts.MS_BIND)
            self._own.append(target)

    def _do_job_mount(self, path: str, size: int, inodes: int) -> None:
        mounts.tmpfs(path, size, inodes, 0o755)
        self._give(path, 0o755)
        self.job = _replaced(self.job, os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        libc.mount(path, path, None, mounts.MS_BIND)  # the tmpfs below stays writable, for the sandbox's set-up only
        restricted = mounts.MS_REMOUNT | mounts.MS_BIND | mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV
        libc.mount(None, path, None, restricted)
        self._own.append(path)

    def _do_terminals(self, path: str, most: int) -> None:
        mounts.pts(path, most)
        self._own.append(path)

    def _do_chdir(self, path: str) -> None:
        os.chdir(path)

    def _do_landlock(self, ruleset: dict[str, Any]) -> None:
        if self._prepared is None:
            self._prepared = landlock.Prepared(landlock.Ruleset.from_json(ruleset), self._own)
        self.ruleset = _replaced(self.ruleset, self._prepared.build())

    def _give(self, path: str, mode: int) -> None:
        os.chmod(path, mode)
        if self._uid:
            os.chown(path, self._uid, self._uid)


def _replaced(old: int, new: int) -> int:
    """Move ``new`` to the number of ``old``, which is closed thereby; return the number."""
    if old < 0:
        return new
    os.dup2(new, old, inheritable=False)
    os.close(new)
    return old
