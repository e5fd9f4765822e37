"""The kinds of caller: the control group and the user of each. Runs in the guest, as root.

The layouts are those of systemd (``Delegate=`` in systemd.resource-control(5)) and of a container runtime, made by
hand. Controllers are enabled from the root down. A delegated group belongs to the user, with the three files that
cgroup-v2.rst names under "Model of Delegation", and has systemd's mark.
"""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
USER = 1000
_CONTROLLERS = ("memory", "pids", "cpu")
_MARKS = ("trusted.delegate", "user.delegate")
_NEW_NS = 0x00020000
_NEW_CGROUP = 0x02000000
_MS_RDONLY, _MS_REC, _MS_PRIVATE = 0x1, 0x4000, 0x40000
_MNT_DETACH = 2


@dataclass(frozen=True)
class Kind:
    """A kind of caller: its group and its user."""

    group: str
    uid: int = 0
    delegated: str = ""
    """The group that is given to the user, above ``group`` or the same."""
    marked: bool = True
    """Whether it carries the mark that systemd puts on it."""
    neighbour: bool = False
    """Whether somebody else is in the caller's group."""
    container: bool = False
    """Whether the caller's group is the root of a cgroup namespace, mounted afresh."""
    read_only: bool = False
    limits: dict[str, str] = field(default_factory=dict)
    """What is set on the caller's own group."""

    @property
    def top(self) -> Path:
        """The group above all groups that the caller can make."""
        return ROOT / (self.delegated or self.group)


_USER_MANAGER = "user.slice/user-1000.slice/user@1000.service"
KINDS = {
    "root": Kind(group=""),
    "service": Kind(group="system.slice/program.service"),
    "crowded-service": Kind(group="system.slice/program.service", neighbour=True),
    "delegated": Kind(group=f"{_USER_MANAGER}/program", uid=USER, delegated=_USER_MANAGER),
    "delegated-limited": Kind(
        group=f"{_USER_MANAGER}/program", uid=USER, delegated=_USER_MANAGER, limits={"memory.max": str(512 << 20)}
    ),
    "scope": Kind(
        group="user.slice/user-1000.slice/run.scope", uid=USER, delegated="user.slice/user-1000.slice/run.scope"
    ),
    "crowded-scope": Kind(
        group="user.slice/user-1000.slice/run.scope",
        uid=USER,
        delegated="user.slice/user-1000.slice/run.scope",
        neighbour=True,
    ),
    "crowded-below": Kind(
        group=f"{_USER_MANAGER}/app.slice/terminal.scope", uid=USER, delegated=_USER_MANAGER, neighbour=True
    ),
    "none": Kind(group="user.slice/user-1000.slice/session-1.scope", uid=USER),
    "given": Kind(group="given/program", uid=USER, delegated="given", marked=False),
    "container": Kind(group="engine/abc", neighbour=True, container=True),
    "container-read-only": Kind(group="engine/abc", container=True, read_only=True),
}


def prepare(kind: Kind) -> Path:
    """Make the caller's group; return its folder."""
    own = ROOT / kind.group
    own.mkdir(parents=True, exist_ok=True)
    _switch_on(kind)
    if kind.delegated:
        _give(kind)
    for name, value in kind.limits.items():
        (own / name).write_text(value)
    return own


def enter(kind: Kind) -> None:
    """Become the caller, in the child before exec."""
    join(kind)
    if kind.container:
        _enter_container(read_only=kind.read_only)
    if kind.uid:
        os.setgroups([])
        os.setresgid(kind.uid, kind.uid, kind.uid)
        os.setresuid(kind.uid, kind.uid, kind.uid)


def join(kind: Kind) -> None:
    """Enter the caller's group, as the current user."""
    (ROOT / kind.group / "cgroup.procs").write_text("0")


def clear(kind: Kind) -> list[str]:
    """Kill all processes left in the group, remove it, and return the folders and processes found in it."""
    own = ROOT / kind.group
    if own == ROOT:
        return [str(folder) for folder in own.iterdir() if "stockade" in folder.name]
    top = kind.top
    found = [f"process {pid}" for folder in _below(top) for pid in _processes(folder)]
    kill(top)
    # Once a program ends, systemd or its container engine removes these, with the leaf that it was moved into.
    known = {top, own, own.parent, own / "callers.stockade"}
    folders = _below(top)
    found += [str(folder) for folder in folders if folder not in known]
    for folder in reversed(folders):
        with suppress(FileNotFoundError):  # somebody was just clearing up behind himself
            folder.rmdir()
    return found


def kill(group: Path, seconds: float = 20.0) -> None:
    """Kill all processes in a group and below it, and wait for their end."""
    (group / "cgroup.kill").write_text("1")
    end = time.monotonic() + seconds
    while "populated 1" in (group / "cgroup.events").read_text():
        if time.monotonic() > end:
            raise TimeoutError(f"{group}: processes that cannot be killed")
        time.sleep(0.01)


def _switch_on(kind: Kind) -> None:
    """Enable the controllers down to the delegated group, or the caller's own; the user enables them further down."""
    last = ROOT / (kind.delegated or kind.group)
    folders = [folder for folder in reversed(last.parents) if folder.is_relative_to(ROOT)] if last != ROOT else []
    own = ROOT / kind.group
    if kind.delegated and (own.parent != last or kind.limits) and own != last:
        folders += [
            last,
            *(folder for folder in reversed(own.parents) if folder.is_relative_to(last) and folder != last),
        ]
    for folder in folders:
        for name in _CONTROLLERS:
            (folder / "cgroup.subtree_control").write_text(f"+{name}")


def _give(kind: Kind) -> None:
    for folder in _below(ROOT / kind.delegated):
        for name in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(folder / name, kind.uid, kind.uid)
    for mark in _MARKS if kind.marked else ():
        os.setxattr(ROOT / kind.delegated, mark, b"1")


def _enter_container(*, read_only: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    place = os.fsencode(ROOT)
    for result in (
        libc.unshare(_NEW_NS | _NEW_CGROUP),
        libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None),
        libc.umount2(place, _MNT_DETACH),
        libc.mount(b"cgroup2", place, b"cgroup2", _MS_RDONLY if read_only else 0, None),
    ):
        if result != 0:
            raise OSError(ctypes.get_errno(), "container")


def _processes(group: Path) -> list[str]:
    try:
        return (group / "cgroup.procs").read_text().split()
    except OSError:  # the group was just removed
        return []


def _below(top: Path) -> list[Path]:
    return [top, *sorted(folder for folder in top.rglob("*") if folder.is_dir())]
