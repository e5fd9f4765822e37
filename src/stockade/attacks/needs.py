"""What an attack may need of the host, each found by trying. ``None`` means that it is there, else the reason."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from stockade.attacks import build
from stockade.client import wardens

GUEST_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where a guest finds programs."""
BY_NATURE: dict[str, Callable[[], bool]] = {
    "root": lambda: os.geteuid() == 0,
    "unprivileged": lambda: os.geteuid() != 0,
}
"""What a host is or is not: nothing that could be installed."""


def why_not(names: Iterable[str]) -> str:
    """Return why an attack that needs ``names`` cannot be tried here; an empty text where it can."""
    found = {name: missing(name) for name in names}
    return "; ".join(reason for reason in found.values() if reason)


@lru_cache
def missing(name: str) -> str | None:
    """Return why ``name`` is missing here, or ``None``; raise ``ValueError`` if nothing is called that."""
    if name in BY_NATURE:
        return None if BY_NATURE[name]() else f"not started by {'root' if name == 'root' else 'an ordinary user'}"
    if name not in CHECKS:
        raise ValueError(f"no such facility: {name}; there are: {', '.join((*BY_NATURE, *CHECKS))}")
    return CHECKS[name]()


def _controller(name: str) -> Callable[[], str | None]:
    def check() -> str | None:
        facts = wardens.host_facts()
        return None if name in facts.cgroups else facts.cgroup_lost.get(name, f"no cgroup {name} controller was found")

    return check


def _guests_program(name: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(name, path=GUEST_PATH) else f"{name} is not installed in {GUEST_PATH}"


def _file(path: str) -> Callable[[], str | None]:
    return lambda: None if Path(path).exists() else f"{path} is not there"


def _compiler() -> str | None:
    try:
        build.program("int main(void) { return 0; }")
    except build.BuildError as error:
        return str(error)
    return None


def _user_namespaces() -> str | None:
    facts = wardens.host_facts()
    if os.geteuid() == 0:
        return None
    return f"no user namespace: {facts.namespace_reasons['user']}" if "user" in facts.namespace_reasons else None


def _crypto_sockets() -> str | None:
    try:
        socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close()
    except OSError as error:
        return f"no crypto sockets: {error}"
    return None


def _ia32() -> str | None:
    return None if Path("/proc/sys/abi/vsyscall32").exists() else "the kernel has no 32-bit entry"


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


CHECKS: dict[str, Callable[[], str | None]] = {
    "cgroup-memory": _controller("memory"),
    "cgroup-pids": _controller("pids"),
    "cgroup-io": _controller("io"),
    "cgroup-cpu": _controller("cpu"),
    "cgroup-v1": _cgroup_v1,
    "user-namespaces": _user_namespaces,
    "seccomp": lambda: None if wardens.host_facts().seccomp else "the kernel has no seccomp",
    "landlock": lambda: None if wardens.host_facts().landlock else "the kernel has no Landlock",
    "keyrings": _file("/proc/keys"),
    "shadow": _file("/etc/shadow"),
    "ipv6": _file("/proc/net/if_inet6"),
    "crypto-sockets": _crypto_sockets,
    "ia32": _ia32,
    "disk-device": _disk_device,
    "vsock": _vsock,
    "x86_64": lambda: None if os.uname().machine == "x86_64" else f"the machine is {os.uname().machine}",
    "cc": _compiler,
    "ruby": _guests_program("ruby"),
    "node": _guests_program("node"),
}
