"""The room of a slot: mounts and folders in which its guests are, one after another. It is used again only if the last
one has left no trace in it; else it is given up as a whole, and made anew.

To make one for each guest was a seventh of what a run costs: the kernel copies all mounts for it, and to take them down
it waits until no processor can be looking at them any more (``namespace_unlock`` in fs/namespace.c).
"""

from __future__ import annotations

import os

from stockade.linux import landlock, libc, mounts, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

_CLOSED = -1


class GuestMounts:
    """The worker makes them in a mount namespace of its own, from which it then forks the guest."""

    def __init__(self, steps: Iterable[Sequence[Any]], *, uid: int, proc: int) -> None:
        """``steps`` tell what is to be in it; ``uid`` is who may write there, 0 for who the keeper is. ``proc`` is a
        descriptor of /proc. The namespace of mounts that this is called in stays as it is."""
        self._steps = tuple(steps)
        self._uid = uid
        self._base_namespace = os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self.scratch = self.job = self.ruleset = _CLOSED
        """Descriptors: of the space that guests may fill, of their job's folder, and of their Landlock ruleset."""
        self.source_name, self.source = "", _CLOSED
        """The file in the job's folder that is there already for each guest's source, and a descriptor of it."""
        self._expected = ""
        self._own: list[str] = []
        self._prepared: landlock.Prepared | None = None
        self._make()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a launch needs of it."""
        open_here = (self.scratch, self.job, self.source)
        return open_here if self.source >= 0 else open_here[:-1]

    def expect(self, name: str) -> None:
        """Have the file ``name`` there for the source of each of the next guests, if it is in no folder of its own."""
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
        libc.mount(path, path, None, mounts.MS_BIND)  # what is below it stays writable, for the sandbox alone
        restricted = mounts.MS_REMOUNT | mounts.MS_BIND | mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV
        libc.mount(None, path, None, restricted)
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
    """Return ``new`` under the number of ``old``, which is closed."""
    if old < 0:
        return new
    os.dup2(new, old, inheritable=False)
    os.close(new)
    return old
