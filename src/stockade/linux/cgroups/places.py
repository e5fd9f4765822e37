"""Find the places for new control groups: the caller's own group in each hierarchy, and its usable controllers."""

from __future__ import annotations

import errno
import os

from stockade.core.record import Record
from stockade.linux import descendants, files
from stockade.linux.cgroups import disks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "stockade-"
SOCKETS_V1 = "memory.kmem.tcp.limit_in_bytes"
"""The file that limits buffers of TCP and UDP, which version 1 counts separately from all other memory."""
_KERNEL_V1 = "memory.kmem.usage_in_bytes"
_SWAP = {1: "memory.memsw.limit_in_bytes", 2: "memory.swap.max"}
_OPTION = "cgroup.memory="


class Hierarchy(Record):
    """A mounted hierarchy: the caller's own group, and the controllers that can be used there."""

    version: int
    path: str
    controllers: tuple[str, ...]


def find() -> list[Hierarchy]:
    """Return the caller's own group in each mounted hierarchy (cgroups(7))."""
    own = {}
    for line in files.read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        own[names] = path
    found = []
    for line in files.read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split()[:3]
        root, mountpoint = files.unescape(fields[3]), files.unescape(fields[4])
        if kind == "cgroup2" and "" in own:
            path = _inside(mountpoint, root, own[""])
            if path:
                controllers = tuple(files.read(f"{path}/cgroup.controllers").split())
                found.append(Hierarchy(version=2, path=path, controllers=controllers))
        elif kind == "cgroup":
            for names, group in own.items():
                path = _inside(mountpoint, root, group)
                if names and path and set(names.split(",")) <= set(options.split(",")):
                    found.append(Hierarchy(version=1, path=path, controllers=tuple(names.split(","))))
    return found


def try_controllers(hierarchies: list[Hierarchy], caller: int) -> tuple[list[Hierarchy], dict[str, str]]:
    """Return the usable hierarchies, and for each lost controller the reason.

    ``caller`` is the process that needs the groups. Under v2, it may have to be moved (see ``_find_parent``).
    """
    usable: list[Hierarchy] = []
    lost: dict[str, str] = {}
    for hierarchy in hierarchies:
        wanted = _wanted(hierarchy)
        if not wanted or any(_is_same(hierarchy, other) for other in usable):
            continue
        try:
            way = _try_v2(hierarchy, wanted, caller) if hierarchy.version == 2 else _try_v1(hierarchy, wanted)
        except OSError as error:
            reason = f"cgroup v{hierarchy.version} at {hierarchy.path}: {error.strerror or error}"
            lost.update(dict.fromkeys(wanted, reason))
            continue
        found, slow = way
        usable.append(found)
        for name in set(wanted) - set(found.controllers):
            why = slow if name == "io" and slow else f"the {name} controller is not handed down to this group"
            lost[name] = f"cgroup v{found.version} at {found.path}: {why}"
    for name in {name for hierarchy in usable for name in hierarchy.controllers}:
        lost.pop(name, None)
    return usable, lost


_WANTED = ("memory", "pids", "cpu", "cpuacct", "io")
_WANTED_V2 = ("memory", "pids", "cpu", "io")
_NAMES_V1 = {"blkio": "io"}
_CALLERS = "callers.stockade"
"""The leaf that callers are moved into. Its name lacks ``PREFIX``, because trees with the prefix are removed."""
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
    """Return the controllers that may be usable. A v2 group may have none yet, and still get some from above."""
    if hierarchy.version == 1:
        names = (_NAMES_V1.get(name, name) for name in hierarchy.controllers)
        return [name for name in names if name in _WANTED]
    top = hierarchy.path
    while not _is_top(top):
        top = os.path.dirname(top)
    return [name for name in files.read(f"{top}/cgroup.controllers").split() if name in _WANTED_V2]


def _is_same(one: Hierarchy, other: Hierarchy) -> bool:
    """Return whether two mounts show the same hierarchy."""
    return os.stat(one.path).st_dev == os.stat(other.path).st_dev


def _try_v1(hierarchy: Hierarchy, wanted: list[str]) -> tuple[Hierarchy, str]:
    files_there, slow = _try_folder(hierarchy.path, (_SWAP[1], SOCKETS_V1, _KERNEL_V1), wanted, version=1)
    return Hierarchy(version=1, path=hierarchy.path, controllers=_kept(wanted, files_there, slow, version=1)), slow


def _try_v2(hierarchy: Hierarchy, wanted: list[str], caller: int) -> tuple[Hierarchy, str]:
    path = _find_parent(hierarchy.path, wanted, caller)
    have = files.read(f"{path}/cgroup.subtree_control").split()
    there = [name for name in wanted if name in have]
    files_there, slow = _try_folder(path, (_SWAP[2],), there, version=2)
    kept = (*_kept(there, files_there, slow, version=2), "cpuacct")  # any group counts CPU time (cpu.stat)
    return Hierarchy(version=2, path=path, controllers=kept), slow


def _kept(names: list[str], files_there: set[str], slow: str, *, version: int) -> tuple[str, ...]:
    """Return the usable controllers, and the kinds of memory that the memory controller counts here."""
    kept = tuple(name for name in names if name != "io" or not slow)
    if "memory" not in names:
        return kept
    switched_off = boot_options()
    counted = {
        "swap": _SWAP[version] in files_there,
        "sockets": SOCKETS_V1 in files_there if version == 1 else "nosocket" not in switched_off,
        "kernel": "nokmem" not in switched_off and (version == 2 or _KERNEL_V1 in files_there),
    }
    return (*kept, *(name for name, there in counted.items() if there))


def boot_options() -> set[str]:
    """Return the values of the kernel's boot option ``cgroup.memory=`` (kernel-parameters.txt)."""
    words = files.read("/proc/cmdline").split()
    return {value for word in words if word.startswith(_OPTION) for value in word.removeprefix(_OPTION).split(",")}


def _try_folder(path: str, names_of_files: Sequence[str], names: list[str], *, version: int) -> tuple[set[str], str]:
    """Create a group and remove it; return which of the files it has, and why it cannot slow down reads."""
    probe = f"{path}/{PREFIX}probe-{os.getpid()}"
    os.mkdir(probe)
    try:
        files.write(f"{probe}/cgroup.procs", "")  # opens for writing; moves nothing
        slow = disks.try_all(probe, version) if "io" in names else ""
        return {name for name in names_of_files if os.path.exists(f"{probe}/{name}")}, slow
    finally:
        os.rmdir(probe)


def _find_parent(own: str, wanted: list[str], caller: int) -> str:
    """Return the v2 group that can be the parent of new groups, with the controllers enabled for them.

    A group that hands controllers down cannot hold processes, except the root (cgroup-v2.rst, "No Internal Process
    Constraint"). So a process cannot simply create limited groups below its own group. The order is:

    1. The caller's own group, if it is the root, or hands controllers down already.
    2. Its parent group, if that one was delegated to us and the caller's own group sets no limit. Then no process
       moves, and a run escapes no limit by lying beside the caller instead of below it.
    3. The caller's own group, after moving all its processes into a leaf below it. It must hold only the caller, its
       children and us, or have been delegated to us as a whole.
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
    if refused.errno != errno.EBUSY or not files.read(f"{own}/cgroup.controllers").split():
        raise refused
    _move_into_leaf(own, wanted, caller)
    return own


def _switch_on(path: str, wanted: list[str]) -> None:
    """Enable the ``wanted`` controllers that exist for groups below ``path``; raise ``OSError`` if none works."""
    there = [name for name in files.read(f"{path}/cgroup.controllers").split() if name in wanted]
    missing = [name for name in there if name not in files.read(f"{path}/cgroup.subtree_control").split()]
    if not there:
        raise OSError(errno.ENOENT, "no controllers are handed down to this group")
    if missing and os.path.exists(f"{path}/cgroup.type") and _processes(path):
        # The kernel would grant "pids" and "cpu" alone here, and turn every group below into one that no process can
        # enter (cgroup-v2.rst, "Threads").
        files.write(
            f"{path}/cgroup.subtree_control", ""
        )  # opens for writing, so a lack of permission is reported first
        raise OSError(errno.EBUSY, "there are processes in this group")
    refused = None
    for name in missing:
        try:
            files.write(f"{path}/cgroup.subtree_control", f"+{name}")
        except OSError as error:
            refused = error
    if refused is not None and not set(files.read(f"{path}/cgroup.subtree_control").split()) & set(wanted):
        raise refused


def _move_into_leaf(own: str, wanted: list[str], caller: int) -> None:
    family = {caller, *descendants.below(caller)}
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
        for _ in range(10):  # a process may fork meanwhile
            _move(pids, leaf)
            pids = _processes(own)
            if not pids:
                break
        _switch_on(own, wanted)
    except OSError:
        _move(_processes(leaf), own)
        files.remove_folder(leaf)
        raise


def _move(pids: list[int], group: str) -> None:
    for pid in pids:
        try:
            files.write(f"{group}/cgroup.procs", str(pid))
        except ProcessLookupError:
            pass  # it has ended


def _processes(group: str) -> list[int]:
    """Return the processes of a group; 0 stands for a process that our PID namespace does not show."""
    return [int(line) for line in files.read(f"{group}/cgroup.procs").split()]


def _names(pids: list[int]) -> str:
    shown = ", ".join(f"{files.read(f'/proc/{pid}/comm').strip() or '?'} {pid}" for pid in pids[:3])
    return shown if len(pids) <= 3 else f"{shown} and {len(pids) - 3} more"


def _is_handed_over(path: str) -> bool:
    """Return whether ``path`` is exactly the group that was delegated to us, not one above or below it.

    systemd marks groups that it delegates. A cgroup namespace ends at the group that its creator delegates
    (cgroup-v2.rst, "Model of Delegation"). An ordinary user gets a group by becoming its owner.
    """
    for mark in _DELEGATION_MARKS:
        try:
            if os.getxattr(path, mark) == b"1":
                return True
        except OSError:
            continue
    if _is_top(path):
        return os.path.exists(f"{path}/cgroup.type")  # only the root of the whole hierarchy lacks this file
    user = os.geteuid()
    return user != 0 and os.stat(path).st_uid == user != os.stat(os.path.dirname(path)).st_uid


def _is_top(path: str) -> bool:
    """Return whether its hierarchy is mounted at ``path``."""
    return os.stat(path).st_dev != os.stat(os.path.dirname(path)).st_dev


def _is_unlimited(path: str) -> bool:
    for name, without in _UNLIMITED.items():
        value = files.read(f"{path}/{name}").split()
        if value and value[0] != without:
            return False
    return True


def hand_down(path: str, controllers: Sequence[str]) -> None:
    """Enable the controllers of a v2 group for the groups below it."""
    for name in controllers:
        if name in _WANTED_V2:
            files.write(f"{path}/cgroup.subtree_control", f"+{name}")


def _inside(mountpoint: str, root: str, group: str) -> str:
    """Return the path of ``group`` in a mount that shows only groups below ``root``, or an empty text."""
    if root == "/":
        relative = group
    elif group == root or group.startswith(root + "/"):
        relative = group[len(root) :]
    else:
        return ""
    path = (mountpoint + relative).rstrip("/")
    return path if os.path.isdir(path) else ""
