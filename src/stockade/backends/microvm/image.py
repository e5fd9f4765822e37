"""The image of a machine: where it is kept, what it was built of, and whether it fits this host and this stockade."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from stockade.planning.facts import HostFacts

PACKAGES = ("core", "linux", "warden")
"""The packages of stockade that a machine holds."""
SOURCE = Path(__file__).parents[2]
BUILD = "stockade images build microvm"
_STATE, _ABOUT = "state", "about.json"
_OWN = ("machine.py", "inside.py", "ramdisk.py", "build.py", "launching.py")
_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MOST = 1 << 20


@dataclass(frozen=True)
class Image:
    """A built image, or the reason why it is missing."""

    state: str = ""
    """The path of the machine's saved state."""
    memory: int = 0
    """MiB of memory of the machine."""
    free: int = 0
    """Bytes of it that a guest can use."""
    qemu: str = ""
    version: str = ""
    kernel: str = ""
    facts: HostFacts | None = None
    """What the warden found in the machine."""
    trouble: str = ""


def folder() -> Path:
    """Return where this user's images are: below XDG_CACHE_HOME, ``/var/cache`` (root) or ``~/.cache``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named.startswith("/"):
        return Path(named, "stockade/microvm")
    return Path("/var/cache/stockade/microvm" if os.geteuid() == 0 else "~/.cache/stockade/microvm").expanduser()


@lru_cache(maxsize=1)
def digest() -> str:
    """Return the name of the image for this stockade and this processor, whose clock the machine relies on."""
    found = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            found.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes())
    for name in _OWN:
        found.update(Path(__file__).with_name(name).read_bytes())
    found.update(_processor().encode())
    return found.hexdigest()[:16]


def look() -> Image:
    """Return the image for this stockade, if somebody has built it."""
    place = folder() / digest()
    try:
        changed = (place / _ABOUT).stat().st_mtime_ns
    except OSError:
        return Image(trouble=f"no machine is built for this version of stockade ({place})")
    return _read(place, changed)


def about(place: Path) -> Path:
    """Return the path of the description in the image's folder ``place``."""
    return place / _ABOUT


def state(place: Path) -> Path:
    """Return the path of the machine's saved state in the image's folder ``place``."""
    return place / _STATE


@lru_cache(maxsize=4)
def _read(place: Path, _changed: int) -> Image:
    for path in (place, state(place), about(place), *place.parents):
        status = path.stat() if path in place.parents else path.lstat()
        others = status.st_mode & _OF_OTHERS and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in (os.geteuid(), 0) or others or stat.S_ISLNK(status.st_mode):
            return Image(trouble=f"{path} belongs to another user, or others may write to it")
    try:
        data = json.loads(about(place).read_bytes()[:_MOST])
        return _image(place, data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Image(trouble=f"{about(place)} cannot be used: {error}")


def _image(place: Path, data: Mapping[str, Any]) -> Image:
    qemu = str(data["qemu"])
    if not Path(qemu).exists():
        return Image(trouble=f"{qemu} is not installed any more")
    if Path(qemu).stat().st_mtime_ns != data["changed"]:
        return Image(trouble=f"{qemu} has changed since the machine was saved")
    return Image(
        state=str(state(place)),
        memory=int(data["memory"]),
        free=int(data["free"]),
        qemu=qemu,
        version=str(data["version"]),
        kernel=str(data["facts"]["kernel"]),
        facts=HostFacts.from_probe(data["facts"]),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith("model name")), "")
