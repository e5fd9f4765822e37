"""Control groups, v1 and v2, below the caller's own group and nowhere else.

Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,pids}.rst of the kernel.
A tree of groups belongs to one warden: it holds a lock on the folder, so that whoever comes later can tell an
abandoned tree from a living one, in whatever PID namespace either of them runs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

from stockade._record import Record
from stockade.linux import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "stockade-"
_END_SECONDS = 2.0
_TOKEN_LENGTH = 16
_RENEWABLE = 8 << 20
_FEW_TASKS = 16
_CPU_PERIOD = 100_000  # microseconds, the kernel's default period for bandwidth control


class Hierarchy(Record):
    """One mounted hierarchy: where the caller's own group lies, and what may be controlled there."""

    version: int
    path: str
    controllers: tuple[str, ...]


class Counters(Record):
    """What the groups of one run have counted; ``None`` where nothing counts it."""

    cpu_seconds: float | None = None
    peak_memory: int | None = None
    oom_kills: int | None = None
    forks_refused: int | None = None
    peak_processes: int | None = None


def find() -> list[Hierarchy]:
    """Return the caller's own group in each hierarchy that is mounted here (cgroups(7))."""
    own = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        own[names] = path
    found = []
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split()[:3]
        root, mountpoint = _unescape(fields[3]), _unescape(fields[4])
        if kind == "cgroup2" and "" in own:
            path = _inside(mountpoint, root, own[""])
            if path:
                controllers = tuple(_read(f"{path}/cgroup.controllers").split())
                found.append(Hierarchy(version=2, path=path, controllers=controllers))
        elif kind == "cgroup":
            for names, group in own.items():
                path = _inside(mountpoint, root, group)
                if names and path and set(names.split(",")) <= set(options.split(",")):
                    found.append(Hierarchy(version=1, path=path, controllers=tuple(names.split(","))))
    return found


def try_controllers(hierarchies: list[Hierarchy], caller: int) -> tuple[list[Hierarchy], dict[str, str]]:
    """Return the hierarchies in which groups can be made and set, and for each controller lost the reason.

    ``caller`` is the process that the groups are made for: under v2 it may have to be moved (see ``_find_room``).
    """
    usable: list[Hierarchy] = []
    lost: dict[str, str] = {}
    for hierarchy in hierarchies:
        wanted = _wanted(hierarchy)
        if not wanted or any(_is_same(hierarchy, other) for other in usable):
            continue
        try:
            found = _try_v2(hierarchy, wanted, caller) if hierarchy.version == 2 else _try_v1(hierarchy, wanted)
        except OSError as error:
            reason = f"cgroup v{hierarchy.version} at {hierarchy.path}: {error.strerror or error}"
            lost.update(dict.fromkeys(wanted, reason))
            continue
        usable.append(found)
        for name in set(wanted) - set(found.controllers):
            lost[name] = (
                f"cgroup v{found.version} at {found.path}: the {name} controller is not handed down to this group"
            )
    for name in {name for hierarchy in usable for name in hierarchy.controllers}:
        lost.pop(name, None)
    return usable, lost


_WANTED = ("memory", "pids", "cpu", "cpuacct")
_WANTED_V2 = ("memory", "pids", "cpu")
_CALLERS = "callers.stockade"
"""The leaf that callers are moved into. Not our prefix: trees of that are swept."""
_DELEGATION_MARKS = ("user.delegate", "trusted.delegate")
_UNLIMITED = {
    "memory.max": "max",
    "memory.high": "max",
    "memory.swap.max": "max",
    "pids.max": "max",
    "cpu.max": "max",
    "io.max": "",
    "cpuset.cpus": "",
    "cpuset.mems": "",
}


def _wanted(hierarchy: Hierarchy) -> list[str]:
    """Return what could be had here. A v2 group may have no controller yet, and still be given some from above."""
    if hierarchy.version == 1:
        return [name for name in hierarchy.controllers if name in _WANTED]
    top = hierarchy.path
    while not _is_top(top):
        top = os.path.dirname(top)
    return [name for name in _read(f"{top}/cgroup.controllers").split() if name in _WANTED_V2]


def _is_same(one: Hierarchy, other: Hierarchy) -> bool:
    """Return whether two mounts show the same hierarchy."""
    return os.stat(one.path).st_dev == os.stat(other.path).st_dev


def _try_v1(hierarchy: Hierarchy, wanted: list[str]) -> Hierarchy:
    with_swap = _try_folder(hierarchy.path, "memory.memsw.limit_in_bytes")
    return Hierarchy(version=1, path=hierarchy.path, controllers=_with_swap(wanted, with_swap))


def _try_v2(hierarchy: Hierarchy, wanted: list[str], caller: int) -> Hierarchy:
    path = _find_room(hierarchy.path, wanted, caller)
    have = _read(f"{path}/cgroup.subtree_control").split()
    with_swap = _try_folder(path, "memory.swap.max")
    kept = _with_swap([name for name in wanted if name in have], with_swap)
    return Hierarchy(version=2, path=path, controllers=(*kept, "cpuacct"))  # any group counts CPU time (cpu.stat)


def _with_swap(names: list[str], there: bool) -> tuple[str, ...]:
    return (*names, "swap") if there and "memory" in names else tuple(names)


def _try_folder(path: str, swap: str) -> bool:
    """Make a group and remove it; return whether it counts swap."""
    probe = f"{path}/{PREFIX}probe-{os.getpid()}"
    os.mkdir(probe)
    try:
        _write(f"{probe}/cgroup.procs", "")  # opens for writing; moves nothing
        return os.path.exists(f"{probe}/{swap}")
    finally:
        os.rmdir(probe)


def _find_room(own: str, wanted: list[str], caller: int) -> str:
    """Return the v2 group below which groups can be made, with the controllers switched on for them.

    A group that hands controllers down holds no processes of its own, the root apart (cgroup-v2.rst, "No Internal
    Process Constraint"), so nobody who stands in a group can simply make limited groups below it. In this order:

    1. the caller's own group, if it is the root, or hands them down already;
    2. the group around it, if that is the one that was handed to us and the caller's own sets no limit of its own:
       then nothing need be moved, and a run escapes nothing by lying beside the caller instead of below it;
    3. the caller's own group, after moving all that is in it into a leaf below it, if it holds the caller, its
       children and us alone, or was handed to us whole.
    """
    try:
        _switch_on(own, wanted)
        return own
    except OSError as error:
        refused = error
    around = os.path.dirname(own)
    if not _is_top(own) and (os.path.basename(own) == _CALLERS or (_is_handed_over(around) and _is_unlimited(own))):
        try:
            _switch_on(around, wanted)
            return around
        except OSError as error:
            refused = error
    if refused.errno != errno.EBUSY or not _read(f"{own}/cgroup.controllers").split():
        raise refused
    _move_into_leaf(own, wanted, caller)
    return own


def _switch_on(path: str, wanted: list[str]) -> None:
    """Have the groups below ``path`` controlled, by as many of ``wanted`` as there are; raise if by none."""
    there = [name for name in _read(f"{path}/cgroup.controllers").split() if name in wanted]
    missing = [name for name in there if name not in _read(f"{path}/cgroup.subtree_control").split()]
    if not there:
        raise OSError(errno.ENOENT, "no controllers are handed down to this group")
    if missing and os.path.exists(f"{path}/cgroup.type") and _processes(path):
        # Asked for here, "pids" and "cpu" alone would be granted, and make of every group below one that nobody can
        # enter (cgroup-v2.rst, "Threads").
        _write(f"{path}/cgroup.subtree_control", "")  # opens for writing, so that what we may not do is said first
        raise OSError(errno.EBUSY, "there are processes in this group")
    refused = None
    for name in missing:
        try:
            _write(f"{path}/cgroup.subtree_control", f"+{name}")
        except OSError as error:
            refused = error
    if refused is not None and not set(_read(f"{path}/cgroup.subtree_control").split()) & set(wanted):
        raise refused


def _move_into_leaf(own: str, wanted: list[str], caller: int) -> None:
    family = {caller, *tree.descendants(caller)}
    pids = _processes(own)
    strangers = [pid for pid in pids if pid not in family]
    if 0 in strangers or (strangers and not _is_handed_over(own)):
        raise OSError(errno.EBUSY, f"this group holds other processes than the caller's own ({_names(strangers)})")
    leaf = f"{own}/{_CALLERS}"
    try:
        os.mkdir(leaf)
    except FileExistsError:
        pass
    try:
        for _ in range(10):  # somebody may fork meanwhile
            _move(pids, leaf)
            pids = _processes(own)
            if not pids:
                break
        _switch_on(own, wanted)
    except OSError:
        _move(_processes(leaf), own)
        _remove(leaf)
        raise


def _move(pids: list[int], group: str) -> None:
    for pid in pids:
        try:
            _write(f"{group}/cgroup.procs", str(pid))
        except ProcessLookupError:
            pass  # it has ended


def _processes(group: str) -> list[int]:
    """Return the processes of a group; 0 stands for one that our PID namespace does not show."""
    return [int(line) for line in _read(f"{group}/cgroup.procs").split()]


def _names(pids: list[int]) -> str:
    shown = ", ".join(f"{_read(f'/proc/{pid}/comm').strip() or '?'} {pid}" for pid in pids[:3])
    return shown if len(pids) <= 3 else f"{shown} and {len(pids) - 3} more"


def _is_handed_over(path: str) -> bool:
    """Return whether ``path`` is the very group that was delegated to us, not one above or below it.

    systemd marks what it delegates; a cgroup namespace ends at what its maker delegates (cgroup-v2.rst, "Model of
    Delegation"); and to an ordinary user a group is handed over by making it his.
    """
    for mark in _DELEGATION_MARKS:
        try:
            if os.getxattr(path, mark) == b"1":
                return True
        except OSError:
            continue
    if _is_top(path):
        return os.path.exists(f"{path}/cgroup.type")  # which only the root of all lacks
    user = os.geteuid()
    return user != 0 and os.stat(path).st_uid == user != os.stat(os.path.dirname(path)).st_uid


def _is_top(path: str) -> bool:
    """Return whether ``path`` is where its hierarchy is mounted."""
    return os.stat(path).st_dev != os.stat(os.path.dirname(path)).st_dev


def _is_unlimited(path: str) -> bool:
    for name, without in _UNLIMITED.items():
        value = _read(f"{path}/{name}").split()
        if value and value[0] != without:
            return False
    return True


def _hand_down(path: str, controllers: Sequence[str]) -> None:
    for name in controllers:
        if name in _WANTED_V2:
            _write(f"{path}/cgroup.subtree_control", f"+{name}")


class Tree:
    """The groups of one warden. ``make`` gives each run a group in every hierarchy."""

    def __init__(self, hierarchies: list[Hierarchy], token: str) -> None:
        self._hierarchies = hierarchies
        self._name = PREFIX + token
        self._count = 0
        self._locks: list[int] = []
        self._leftovers: list[str] = []
        try:
            for hierarchy in hierarchies:
                reclaim(hierarchy.path)
                path = f"{hierarchy.path}/{self._name}"
                self._locks.append(_own(path))
                if hierarchy.version == 2:
                    _hand_down(path, hierarchy.controllers)
        except OSError:
            self.close()
            raise

    def make(self) -> Group:
        """Return a new group, without limits and without processes."""
        self._sweep()
        self._count += 1
        places = []
        for hierarchy in self._hierarchies:
            path = f"{hierarchy.path}/{self._name}/{self._count}"
            os.mkdir(path)
            places.append((hierarchy, path))
        return Group(places)

    def remove(self, group: Group) -> None:
        """Remove ``group``; one that is still busy is tried again later."""
        group.close()
        self._leftovers += group.folders
        self._sweep()

    def close(self) -> None:
        """Remove the tree. What was killed a moment ago may still be ending; it is given two seconds."""
        deadline = time.monotonic() + _END_SECONDS
        self._sweep()
        while self._leftovers and time.monotonic() < deadline:
            time.sleep(0.005)
            self._sweep()
        for hierarchy, lock in zip(self._hierarchies, self._locks, strict=False):
            _remove(f"{hierarchy.path}/{self._name}")
            os.close(lock)

    def _sweep(self) -> None:
        self._leftovers = [path for path in self._leftovers if not _remove(path)]


class Group:
    """One run's groups, a folder in each hierarchy."""

    def __init__(self, places: list[tuple[Hierarchy, str]]) -> None:
        self._paths = {name: path for hierarchy, path in places for name in hierarchy.controllers}
        self._version = {name: hierarchy.version for hierarchy, _ in places for name in hierarchy.controllers}
        self.folders = [path for _, path in places]
        self._readers: dict[str, int] = {}
        self._before: dict[str, float] = {}
        self._most_processes = 0

    def open_entrances(self) -> list[int]:
        """Return a descriptor for each folder; whoever writes ``0`` to it enters the group."""
        return [os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for path in self.folders]

    def limit(self, memory: int | None, swap: int | None, processes: int | None, cores: float | None) -> None:
        """Set the limits of this run; ``None`` leaves a resource without one."""
        if memory is not None:
            self._limit_memory(memory, swap)
        if processes is not None and "pids" in self._paths:
            self._set("pids", "pids.max", processes)
        if cores is not None:
            quota = max(1000, int(cores * _CPU_PERIOD))  # 1 ms is the least quota the kernel takes
            if self._version["cpu"] == 2:
                self._set("cpu", "cpu.max", f"{quota} {_CPU_PERIOD}")
            else:
                self._set("cpu", "cpu.cfs_period_us", _CPU_PERIOD)
                self._set("cpu", "cpu.cfs_quota_us", quota)

    def _limit_memory(self, memory: int, swap: int | None) -> None:
        if "memory" not in self._paths:
            return
        if self._version["memory"] == 2:
            # Not memory.oom.group: the nursery and the cell's init stand in the group too, and would be killed with
            # the guest before either could say what happened.
            self._set("memory", "memory.max", memory)
            if swap is not None and "swap" in self._paths:
                self._set("memory", "memory.swap.max", swap)
        else:
            self._set("memory", "memory.limit_in_bytes", memory)
            if swap is not None and "swap" in self._paths:
                self._set("memory", "memory.memsw.limit_in_bytes", memory + swap)

    def begin(self) -> None:
        """A run begins: readings are differences to now."""
        self._before = {
            "cpu": self._cpu() or 0.0,
            "oom_kills": self._oom_kills() or 0,
            "forks_refused": self._forks_refused() or 0,
            "peak_processes": self._peak_processes() or 0,
        }
        self._most_processes = 0
        self._peak_memory()  # opens what the last reading needs, when no descriptor may be free
        self._forget_peak()

    def read(self) -> Counters:
        """Return what has been counted for this run."""
        return Counters(
            cpu_seconds=self.cpu_seconds(),
            peak_memory=self._peak_memory(),
            oom_kills=self._since("oom_kills", self._oom_kills()),
            forks_refused=self._since("forks_refused", self._forks_refused()),
            peak_processes=self._since_peak(),
        )

    def look(self) -> None:
        """Sample what has no peak that could be begun anew."""
        tasks = self._number("pids", {1: "pids.current", 2: "pids.current"})
        self._most_processes = max(self._most_processes, tasks or 0)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of every task of this run, the dead included."""
        spent = self._cpu()
        return None if spent is None else spent - self._before.get("cpu", 0.0)

    def oom_kills(self) -> int:
        """Return how many tasks the kernel has killed because the group's memory was used up."""
        return self._since("oom_kills", self._oom_kills()) or 0

    def renew(self, residents: set[int]) -> bool:
        """Make the group ready for another run; return whether it can be.

        Nothing but the ``residents`` may be left in it, and little charged: file pages that a run has read stay
        charged, and would count for the next one. Its peak of memory must be one that can be begun anew.
        """
        try:
            for folder in self.folders:
                if set(map(int, _read(f"{folder}/cgroup.procs").split())) != residents:
                    return False
            charged = self._number("memory", {1: "memory.usage_in_bytes", 2: "memory.current"})
            if charged is not None and charged > _RENEWABLE:
                return False
            if (self._peak_processes() or 0) > _FEW_TASKS:
                return False  # its peak would hide the next run's
            self._lift_limits()
        except (OSError, ValueError):
            return False
        return self._forget_peak()

    def _lift_limits(self) -> None:
        if self._version.get("memory") == 2:
            self._set("memory", "memory.max", "max")
            if "swap" in self._paths:
                self._set("memory", "memory.swap.max", "max")
        elif "memory" in self._paths:
            if "swap" in self._paths:
                self._set("memory", "memory.memsw.limit_in_bytes", -1)
            self._set("memory", "memory.limit_in_bytes", -1)
        if "pids" in self._paths:
            self._set("pids", "pids.max", "max")
        if self._version.get("cpu") == 2:
            self._set("cpu", "cpu.max", "max")
        elif "cpu" in self._paths:
            self._set("cpu", "cpu.cfs_quota_us", -1)

    def _since(self, name: str, value: int | None) -> int | None:
        return None if value is None else value - int(self._before.get(name, 0))

    def _oom_kills(self) -> int | None:
        return self._field("memory", {1: "memory.oom_control", 2: "memory.events"}, "oom_kill")

    def _forks_refused(self) -> int | None:
        return self._field("pids", {1: "pids.events", 2: "pids.events"}, "max")

    def _cpu(self) -> float | None:
        if self._version.get("cpuacct") == 1:
            spent = self._number("cpuacct", {1: "cpuacct.usage"})
            return None if spent is None else spent / 1e9
        spent = self._field("cpuacct", {2: "cpu.stat"}, "usage_usec")
        return None if spent is None else spent / 1e6

    def _peak_memory(self) -> int | None:
        return self._number("memory", {1: "memory.max_usage_in_bytes", 2: "memory.peak"})

    def _peak_processes(self) -> int | None:
        return self._number("pids", {1: "pids.peak", 2: "pids.peak"})

    def _since_peak(self) -> int | None:
        """Return the most tasks of this run: the kernel's peak where it rose, else the most that were seen."""
        peak = self._peak_processes()
        if peak is not None and peak > self._before.get("peak_processes", 0):
            return peak
        return self._most_processes or None

    def _forget_peak(self) -> bool:
        """Begin the peak of memory anew, where the kernel lets us: v1 always, v2 since Linux 6.12."""
        if "memory" not in self._paths:
            return True
        try:
            if self._version["memory"] == 1:
                self._set("memory", "memory.max_usage_in_bytes", 0)
            else:  # counts from now on for whoever reads through the same descriptor
                if "memory.peak" not in self._readers:
                    path = f"{self._paths['memory']}/memory.peak"
                    self._readers["memory.peak"] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                os.write(self._readers["memory.peak"], b"reset")
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptors; whoever made the group removes it."""
        for fd in self._readers.values():
            os.close(fd)
        self._readers = {}

    def _set(self, controller: str, name: str, value: int | str) -> None:
        _write(f"{self._paths[controller]}/{name}", str(value))

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


def reclaim(path: str) -> int:
    """Remove the trees below ``path`` whose warden is gone; return how many there were.

    Only empty groups can be removed, and a living warden holds the lock on its tree.
    """
    count = 0
    for entry in os.listdir(path):
        tree = f"{path}/{entry}"
        if not (entry.startswith(PREFIX) and len(entry) == len(PREFIX) + _TOKEN_LENGTH):
            continue
        try:
            fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for group in os.listdir(tree):
                if group.isdigit():
                    _remove(f"{tree}/{group}")
            count += _remove(tree)
        except OSError:
            pass  # its warden lives
        finally:
            os.close(fd)
    return count


def _own(path: str) -> int:
    """Make the folder ``path`` and return a descriptor that holds its lock.

    Somebody's ``reclaim`` may find the folder before it is locked, and take it for an abandoned one.
    """
    for _ in range(100):
        try:
            os.mkdir(path)
        except FileExistsError:
            pass
        lock = -1
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.isdir(path):
                return lock
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError:  # no descriptor is free, say
            _remove(path)
            raise
        if lock >= 0:
            os.close(lock)
    raise OSError(errno.EBUSY, f"{path}: cannot be locked")


def _remove(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _inside(mountpoint: str, root: str, group: str) -> str:
    """Return where ``group`` lies below a mount that shows only what is below ``root``, or an empty text."""
    if root == "/":
        relative = group
    elif group == root or group.startswith(root + "/"):
        relative = group[len(root) :]
    else:
        return ""
    path = (mountpoint + relative).rstrip("/")
    return path if os.path.isdir(path) else ""


def _unescape(field: str) -> str:
    """Undo the octal escapes of mountinfo (proc(5)): space, tab, newline and backslash."""
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        field = field.replace("\\" + code, character)
    return field


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if text:
            os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, f"write {text!r} to {path}: {os.strerror(error.errno or 0)}") from None
    finally:
        os.close(fd)
