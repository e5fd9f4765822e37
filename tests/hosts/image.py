"""The image that a machine boots, built once and kept in a folder named after a digest of its inputs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
_INPUTS = ("build.sh", "vmlinux.py", "guest/ramdisk-init")
_DEVELOPMENT = ("pytest", "pytest-timeout", "hypothesis")  # what the tests themselves import
_PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mke2fs": "e2fsprogs",
}
_TO_BUILD = {
    "debootstrap": "debootstrap",
    "cpio": "cpio",
    "lz4": "lz4",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}


class Missing(Exception):
    """Raised if this machine cannot build or boot the image; the text says what to install."""


@dataclass(frozen=True)
class Image:
    """The files of one built image."""

    folder: Path

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinux"

    @property
    def ramdisk(self) -> Path:
        return self.folder / "initrd.gz"

    @property
    def root(self) -> Path:
        return self.folder / "root.ext4"

    @property
    def built(self) -> bool:
        return (self.folder / "about").exists()


def wanted() -> Image:
    """Return the image for the current inputs, built or not."""
    return Image(cache() / digest())


def cache() -> Path:
    """Return the folder that holds the images."""
    named = os.environ.get("STOCKADE_HOSTS_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base) / "stockade-hosts"


def digest() -> str:
    """Return the name of the image, which changes with every input."""
    state = hashlib.sha256()
    for name in _INPUTS:
        state.update((HERE / name).read_bytes())
    state.update("\n".join(requirements()).encode())
    return state.hexdigest()[:16]


def requirements() -> list[str]:
    """Return the Python packages that the guest needs, as the project itself asks for them."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    tools = [item for item in project["optional-dependencies"]["dev"] if _name(item) in _DEVELOPMENT]
    return [*project["dependencies"], *tools]


def missing(image: Image) -> str | None:
    """Build ``image`` if it is missing; return the things that this machine lacks to boot it, or ``None``."""
    programs = _PROGRAMS if image.built else _PROGRAMS | _TO_BUILD
    packages = [package for program, package in programs.items() if not _found(program)]
    if packages:
        return f"not installed: {' '.join(packages)} (as root: apt-get install {' '.join(packages)})"
    if not image.built and os.geteuid() != 0:
        return f"the image is not built, and debootstrap needs root: sudo {sys.executable} -m tests.hosts build"
    if os.uname().machine != "x86_64":
        return f"the image is for x86_64, this is {os.uname().machine}"
    return None


def build() -> Image:
    """Return the image, and build it first if it is missing."""
    image = wanted()
    lacking = missing(image)
    if lacking:
        raise Missing(lacking)
    if not image.built:
        image.folder.parent.mkdir(parents=True, exist_ok=True)
        # Built aside and moved: whoever finds the folder finds it whole.
        unfinished = image.folder.with_name(f"{image.folder.name}.{os.getpid()}")
        unfinished.mkdir()
        try:
            subprocess.run([HERE / "build.sh", unfinished, sys.executable, *requirements()], check=True)
            _move(unfinished, image.folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return image


def project_image(target: Path) -> None:
    """Make an ext4 image of the project's current tree, which the guest runs."""
    content = target.with_suffix(".d")
    unwanted = shutil.ignore_patterns("__pycache__", "*.pyc", "node_modules", ".*")
    for name in ("src", "tests"):
        shutil.copytree(PROJECT / name, content / name, ignore=unwanted, symlinks=True)
    shutil.copy(PROJECT / "pyproject.toml", content)
    size = sum(path.stat().st_size for path in content.rglob("*") if path.is_file()) // (1 << 20)
    make = ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-N", "8192", "-E", "root_owner=0:0"]
    make += ["-d", str(content), str(target), f"{2 * size + 32}M"]
    subprocess.run(make, check=True, env=_path(), stdout=subprocess.DEVNULL)
    shutil.rmtree(content)


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError:
        if not Image(target).built:  # otherwise somebody else was faster
            raise


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    return found[0] if found else ""


def _found(program: str) -> str | None:
    return shutil.which(program, path=_path()["PATH"])


def _path() -> dict[str, str]:
    return {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
