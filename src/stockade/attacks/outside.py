"""Observes the host from outside the sandboxes: its processes, and what a run left behind."""

from __future__ import annotations

import ctypes
import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stockade.client import warden_process
from stockade.linux import cgroups, places

MADE = ("stockade-attack-", "stockade-test-")
"""Prefixes of the temporary files of attacks and tests. The library makes none; guests' files show by their owner."""
CAMPAIGN = "ATTACK_CAMPAIGN"
"""The environment variable that names the campaign to its worker processes."""
_PR_SET_CHILD_SUBREAPER = 36
_DYING_SECONDS = 5.0


def prefix(campaign: str | None = None) -> str:
    """Return the name prefix of the temporary folders of ``campaign``, by default of this process's own."""
    mark = campaign or os.environ.get(CAMPAIGN, "")
    return f"{MADE[0]}{mark}-" if mark else MADE[0]


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process, so that no process leaves the tree unseen."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int | None = None) -> list[int]:
    """Return the living processes below ``pid``, by default this process. Zombies do not count."""
    found: list[int] = []
    waiting = [pid or os.getpid()]
    while waiting:
        for task in _list(f"/proc/{waiting.pop()}/task"):
            children = [int(word) for word in read(f"{task}/children").split()]
            waiting += children
            found += [child for child in children if state(child) not in {"", "Z", "X"}]
    return found


def state(pid: int) -> str:
    """Return the state letter of a process (proc(5)), or an empty text if the process is gone."""
    return read(f"/proc/{pid}/stat").rpartition(") ")[2][:1]


def name(pid: int) -> str:
    """Return the name of a process."""
    return read(f"/proc/{pid}/comm").strip()


def named(word: str) -> list[int]:
    """Return every living process of the host whose name or command line contains ``word``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            text = read(f"{entry}/comm") + read(f"{entry}/cmdline")
            if word in text and state(int(entry.name)) not in {"", "Z", "X"}:
                found.append(int(entry.name))
    return found


def descriptors(pid: int | None = None) -> dict[str, str]:
    """Return the open descriptors of a process, without the one that lists them."""
    found = {}
    for entry in _list(f"/proc/{pid or os.getpid()}/fd"):
        try:
            found[entry.rpartition("/")[2]] = str(Path(entry).readlink())
        except OSError:
            continue
    return found


def abandoned_groups() -> set[str]:
    """Return the control groups of dead wardens: a living warden holds a lock on its tree."""
    found = set()
    for hierarchy in cgroups.find():
        for entry in _list(hierarchy.path):
            if not entry.rpartition("/")[2].startswith(cgroups.PREFIX):
                continue
            try:
                fd = os.open(entry, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.add(entry)
            except OSError:
                pass
            finally:
                os.close(fd)
    return found


@dataclass(frozen=True)
class Snapshot:
    """Everything on the host that a run can change and that is distinguishable from other users' changes."""

    processes: frozenset[int]
    mounts: tuple[str, ...]
    groups: frozenset[str]
    networks: frozenset[str]
    temporary: frozenset[str]
    shared_memory: frozenset[str]
    descriptors: tuple[tuple[str, str], ...]

    @classmethod
    def take(cls) -> Snapshot:
        """Take a snapshot of the present state."""
        pids = descendants()
        return cls(
            processes=frozenset(pids),
            mounts=tuple(line.split(" ", 2)[2] for line in read("/proc/self/mountinfo").splitlines()),
            groups=frozenset(abandoned_groups()),
            networks=frozenset(filter(None, (_link(f"/proc/{pid}/ns/net") for pid in [os.getpid(), *pids]))),
            temporary=frozenset(_ours("/tmp") + _ours(os.environ.get("TMPDIR", "/tmp"))),
            shared_memory=frozenset(_ours("/dev/shm") + _segments()),
            descriptors=tuple(sorted(descriptors().items())),
        )

    def more_than(self, before: Snapshot) -> dict[str, list[str]]:
        """Return, for each kind, the items that are new since ``before``."""
        found = {}
        for kind in self.__dataclass_fields__:
            new = set(getattr(self, kind)) - set(getattr(before, kind))
            if kind == "shared_memory":  # counters of a segment change while others use it
                known = {line.split()[1] for line in before.shared_memory if len(line.split()) > 8}
                new = {line for line in new if len(line.split()) <= 8 or line.split()[1] not in known}
            if new:
                found[kind] = sorted(map(str, new))
        return found


def left_behind(before: Snapshot, campaign: str) -> list[str]:
    """Return processes, mounts and temporary folders that a campaign left. Wait until dying processes are gone."""

    def found() -> list[str]:
        new = Snapshot.take().more_than(before)
        processes = [f"process {pid} ({name(int(pid))})" for pid in new.get("processes", ())]
        mounts = [f"mount {line}" for line in new.get("mounts", ())]
        return [*processes, *mounts, *map(str, Path(tempfile.gettempdir()).glob(f"{prefix(campaign)}*"))]

    eventually(lambda: not found(), seconds=_DYING_SECONDS)
    return found()


def clear_up(campaign: str) -> None:
    """Remove the temporary folders of a campaign's worker process that was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix(campaign)}*"):
        places.remove(str(folder))


def stop_warden() -> None:
    """End this process's warden, so that everything that remains is a leak."""
    if warden_process._current is not None:
        warden_process._current.stop()


def eventually(check: Callable[[], object], seconds: float = 1.0) -> bool:
    """Return whether ``check`` becomes true within ``seconds``."""
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def read(path: str | os.PathLike[str]) -> str:
    """Return the text of a file, or an empty text if the file cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _ours(folder: str) -> list[str]:
    return [path for path in _list(folder) if _is_ours(path, Path(path).name.startswith(MADE))]


def _segments() -> list[str]:
    """Return the System V segments of this user and its guests (proc(5): the eighth field is the owner)."""
    lines = read("/proc/sysvipc/shm").splitlines()[1:]
    return [line for line in lines if int(line.split()[7]) == os.geteuid() or _is_guest(int(line.split()[7]))]


def _is_guest(owner: int) -> bool:
    """Return whether a guest of this user can have this uid: each run of root has a uid of its own."""
    return os.geteuid() == 0 and 2_000_000_000 <= owner < 2_000_065_536


def _is_ours(path: str, named: bool) -> bool:
    """Return whether this user or one of its guests made ``path``.

    A path with our prefix (``named``) can belong to another user who runs attacks at the same time.
    """
    try:
        owner = Path(path).lstat().st_uid
    except OSError:
        return False
    return _is_guest(owner) or (named and os.geteuid() in (0, owner))


def _list(folder: str) -> list[str]:
    try:
        return [f"{folder}/{entry.name}" for entry in Path(folder).iterdir()]
    except OSError:
        return []


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
