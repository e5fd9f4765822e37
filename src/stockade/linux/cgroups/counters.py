"""Counters of one run's control groups, and the kernel's files that hold them."""

from __future__ import annotations

import errno
import os

from stockade.core.record import Record
from stockade.linux import files
from stockade.linux.cgroups.places import Hierarchy


class Counters(Record):
    """Counts of one run's groups; ``None`` if no group counts that resource."""

    cpu_seconds: float | None = None
    peak_memory: int | None = None
    peak_sockets: int | None = None
    """Buffers of TCP and UDP that ``peak_memory`` does not include."""
    oom_kills: int | None = None
    """Tasks that the kernel killed at the group's own limit."""
    oom_outside: int | None = None
    """Tasks that the kernel killed at the limit of a parent group, or because the host ran out of memory."""
    oom_kills_above: int | None = None
    """Where the group does not count memory and the sandbox's does: tasks that the kernel killed there, of any exec."""
    forks_refused: int | None = None
    peak_processes: int | None = None


class Files:
    """The files of one run's groups, by controller and version. Files that were read stay open."""

    def __init__(self, places: list[tuple[Hierarchy, str]]) -> None:
        self._paths = {name: path for hierarchy, path in places for name in hierarchy.controllers}
        self._version = {name: hierarchy.version for hierarchy, _ in places for name in hierarchy.controllers}
        self.folders = [path for _, path in places]
        self._versions = [(path, hierarchy.version) for hierarchy, path in places]
        self._readers: dict[str, int] = {}

    def _reset(self, name: str, word: bytes) -> None:
        if name not in self._readers:
            self._readers[name] = os.open(f"{self._paths['memory']}/{name}", os.O_RDWR | os.O_CLOEXEC)
        os.pwrite(self._readers[name], word, 0)

    def close(self) -> None:
        """Close the descriptors. ``Tree.remove`` removes the groups."""
        for fd in self._readers.values():
            os.close(fd)
        self._readers = {}

    def _set(self, controller: str, name: str, value: int | str) -> None:
        files.write(f"{self._paths[controller]}/{name}", str(value))

    def _number(self, controller: str, names: dict[int, str]) -> int | None:
        text = self._text(controller, names)
        return int(text) if text is not None and text.strip().isdigit() else None

    def _field(self, controller: str, names: dict[int, str], field: str) -> int | None:
        for line in (self._text(controller, names) or "").splitlines():
            name, _, value = line.partition(" ")
            if name == field:
                return int(value)
        return None

    def _text(self, controller: str, names: dict[int, str]) -> str | None:
        name = names.get(self._version.get(controller, 0))
        if name is None:
            return None
        try:
            if name not in self._readers:
                self._readers[name] = os.open(f"{self._paths[controller]}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._readers[name], 4096, 0).decode()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
                return None
            raise
