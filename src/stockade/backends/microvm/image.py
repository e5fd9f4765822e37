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

from stockade.core import own_files
from stockade.planning.facts import HostFacts

PACKAGES = ("core", "linux", "warden")
"""The packages of stockade that a machine holds."""
SOURCE = Path(__file__).parents[2]
_OWN_MEMORY = 320 << 20
"""Bytes for QEMU, its translated code and the program that starts it, beyond the machine's memory."""
_STATE, _ABOUT = "state", "about.json"
_OWN = ("machine.py", "inside.py", "ramdisk.py", "build.py", "clock.py", "launching.py")
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

    @property
    def most_memory(self) -> int:
        """Bytes of the host that QEMU may use, with all that is in the machine."""
        return (self.memory << 20) + _OWN_MEMORY


def folder() -> Path:
    """Return where this user's images are, without links in the path."""
    return Path(os.path.realpath(own_files.cache("microvm")))


def trouble(path: Path, *, is_folder: bool = True) -> str:
    """Return why somebody else could change ``path``; an empty text if nobody but this user and root can."""
    kind = stat.S_IFDIR if is_folder else stat.S_IFREG
    found = own_files.trouble(path, kind, (os.geteuid(), 0))
    return f"{path}: {found}" if found else ""


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
    """Return the image for this stockade, if somebody has built it. Every look checks who could have changed it."""
    top = folder()
    missing = f"no machine is built for this version of stockade in {top}"
    try:
        if not top.is_dir():
            return Image(trouble=missing)  # at the cost of one system call, and not of a digest
        place = top / digest()
        checked = [trouble(path, is_folder=False) for path in (state(place), about(place))]
        checked += [trouble(path) for path in (place, *place.parents)]
        for found in filter(None, checked):
            return Image(trouble=found)
        return _image(place, json.loads(about(place).read_bytes()[:_MOST]))
    except (FileNotFoundError, PermissionError):
        return Image(trouble=missing)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Image(trouble=f"{about(place)} cannot be used: {error}")


def about(place: Path) -> Path:
    """Return the path of the description in the image's folder ``place``."""
    return place / _ABOUT


def state(place: Path) -> Path:
    """Return the path of the machine's saved state in the image's folder ``place``."""
    return place / _STATE


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
