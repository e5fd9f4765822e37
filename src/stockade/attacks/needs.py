"""Facilities of the host that attacks need. Each is found by trying; a check returns ``None`` or what is missing."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from stockade.attacks import build, outside
from stockade.attacks.stages import memory
from stockade.client import warden_process

GUEST_PATH = "/usr/local/bin:/usr/bin:/bin"
"""The folders in which a guest finds programs."""
_X32 = "#include <unistd.h>\nint main(void) { return syscall(0x40000000 | 39) > 0 ? 0 : 1; }"
_IOPERM = "#include <sys/io.h>\nint main(void) { return ioperm(0x80, 1, 0) ? 1 : 0; }"
_LDT = """#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) { char room[16]; return syscall(SYS_modify_ldt, 0, room, sizeof room) < 0 && errno == ENOSYS; }"""
BY_NATURE: dict[str, Callable[[], bool]] = {
    "root": lambda: os.geteuid() == 0,
    "unprivileged": lambda: os.geteuid() != 0,
}
"""Needs that no installation can change."""


def why_not(names: Iterable[str]) -> str:
    """Return why an attack that needs ``names`` cannot be tried here, or an empty text."""
    found = {name: missing(name) for name in names}
    return "; ".join(reason for reason in found.values() if reason)


@lru_cache
def missing(name: str) -> str | None:
    """Return why ``name`` is missing here, or ``None``; raise ``ValueError`` if the name is unknown."""
    if name in BY_NATURE:
        return None if BY_NATURE[name]() else f"not started by {'root' if name == 'root' else 'an ordinary user'}"
    if name not in CHECKS:
        raise ValueError(f"unknown facility {name!r}; known are: {', '.join((*BY_NATURE, *CHECKS))}")
    return CHECKS[name]()


def _controller(name: str) -> Callable[[], str | None]:
    def check() -> str | None:
        facts = warden_process.host_facts()
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
    facts = warden_process.host_facts()
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


def _setting(name: str) -> str:
    return outside.read(f"/proc/sys/{name}").strip()


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


def _answers(source: str, what: str) -> Callable[[], str | None]:
    """Return a check that compiles and runs ``source``; exit status 0 means that the kernel has the facility."""

    def check() -> str | None:
        try:
            with tempfile.TemporaryDirectory(prefix=outside.prefix()) as folder:
                program = Path(folder, "program")
                program.write_bytes(build.program(source))
                program.chmod(0o700)
                known = subprocess.run([program], check=False, capture_output=True).returncode == 0
        except (build.BuildError, OSError) as error:
            return str(error)
        return None if known else what

    return check


def _in_a_group() -> str | None:
    paths = {line.split(":", 2)[2] for line in outside.read("/proc/self/cgroup").splitlines()}
    return None if paths - {"/"} else "this process is in the root of every control group"


def _core_files() -> str | None:
    pattern = _setting("kernel/core_pattern")
    return f"the kernel leaves its cores elsewhere: {pattern}" if pattern.startswith(("|", "@", "/")) else None


def _raised_limits() -> str | None:
    before = resource.getrlimit(resource.RLIMIT_RTPRIO)
    if before[1] == resource.RLIM_INFINITY:
        return None
    try:
        resource.setrlimit(resource.RLIMIT_RTPRIO, (before[0], before[1] + 1))
    except (ValueError, OSError):
        return "the limit on real time cannot be raised without CAP_SYS_RESOURCE"
    resource.setrlimit(resource.RLIMIT_RTPRIO, before)
    return None


def _unlimited_processes() -> str | None:
    if resource.getrlimit(resource.RLIMIT_NPROC)[1] == resource.RLIM_INFINITY:
        return None
    return "the account has a limit on processes of its own"


def _typing() -> str | None:
    """Check for TIOCSTI. If the setting of Linux 6.2 is off, only administrators can use it."""
    allowed = os.geteuid() == 0 or _setting("dev/tty/legacy_tiocsti") != "0"
    return None if allowed else "the kernel lets only root type into a terminal"


def _huge_pages() -> str | None:
    if not Path("/proc/sys/vm/nr_hugepages").exists():
        return "the kernel has no pool of huge pages"
    if os.geteuid() == 0 or memory.free_huge_pages():
        return None
    return "the host has reserved no huge pages, and only root can"


def _large_pages() -> str | None:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not setting.exists() or "[never]" in setting.read_text():
        return "the kernel gives no transparent huge pages"
    return None


def _signed_tcp() -> str | None:
    key = struct.pack("=HH4B120xBBHI80s", socket.AF_INET, 0, 127, 0, 0, 1, 0, 0, 1, 0, b"k")
    try:
        with socket.socket() as sock:
            sock.setsockopt(socket.IPPROTO_TCP, 14, key)  # TCP_MD5SIG
    except OSError as error:
        return f"the kernel signs no TCP segments: {error}"
    return None


def _vsock() -> str | None:
    try:
        with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as sock:
            sock.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY))
    except (OSError, AttributeError) as error:
        return f"no VM sockets: {error}"
    return None


def _small_internet() -> str | None:
    found = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    lacking = [each for each in ("ip", "openssl", "nsenter", "unshare") if not shutil.which(each, path=found)]
    if lacking:
        return f"{', '.join(lacking)} is not installed"
    facts = warden_process.host_facts()
    return None if facts.namespaces else "no namespaces for a small internet"


CHECKS: dict[str, Callable[[], str | None]] = {
    "cgroup-memory": _controller("memory"),
    "cgroup-pids": _controller("pids"),
    "cgroup-io": _controller("io"),
    "cgroup-cpu": _controller("cpu"),
    "cgroup-v1": _cgroup_v1,
    "in-a-group": _in_a_group,
    "user-namespaces": _user_namespaces,
    "seccomp": lambda: None if warden_process.host_facts().seccomp else "the kernel has no seccomp",
    "landlock": lambda: None if warden_process.host_facts().landlock else "the kernel has no Landlock",
    "keyrings": _file("/proc/keys"),
    "shadow": _file("/etc/shadow"),
    "ipv6": _file("/proc/net/if_inet6"),
    "crypto-sockets": _crypto_sockets,
    "ia32": _ia32,
    "disk-device": _disk_device,
    "huge-pages": _huge_pages,
    "large-pages": _large_pages,
    "signed-tcp": _signed_tcp,
    "vsock": _vsock,
    "x86_64": lambda: None if os.uname().machine == "x86_64" else f"the machine is {os.uname().machine}",
    "x32": _answers(_X32, "the kernel has no x32 entry"),
    "ldt": _answers(_LDT, "the kernel has no modify_ldt"),
    "ioperm": _answers(_IOPERM, "the kernel has no ioperm"),
    "core-files": _core_files,
    "raised-limits": _raised_limits,
    "unlimited-processes": _unlimited_processes,
    "typing": _typing,
    "numa": _file("/proc/self/numa_maps"),
    "modules": _file("/proc/modules"),
    "kexec": lambda: None if _setting("kernel/kexec_load_disabled") == "0" else "the kernel loads no other",
    "small-internet": _small_internet,
    "cc": _compiler,
    "ruby": _guests_program("ruby"),
    "node": _guests_program("node"),
}
