"""Landlock: a thread permanently gives up every right that its ruleset does not name.

A ``Ruleset`` is data and can travel as JSON. ``restrict`` applies it with the newest ABI that both these tables and the
kernel know. A right that an older ABI lacks is left out, never emulated. ``left_open`` describes what remains allowed
then, and what no ABI here covers.

A rule is tied to the file that its path names when the ruleset is built; symbolic links are followed. It stays with
that file wherever the file is moved. Rules bind later opens only: a descriptor that was open before, or is received
from outside, keeps its rights. A restricted thread can no longer mount.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from struct import pack

TYPE_CHECKING = False  # importing typing or dataclasses takes 10 to 30 times as long as this module
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar

    Rights: TypeAlias = Mapping[str, tuple[int, int]]
    T = TypeVar("T")
    Ports: TypeAlias = tuple[int, ...] | Literal["all"]

# Each right by name: the ABI that introduced it, and its bit.
FILESYSTEM: Rights = {
    "execute": (1, 1 << 0),
    "write_file": (1, 1 << 1),
    "read_file": (1, 1 << 2),
    "read_dir": (1, 1 << 3),
    "remove_dir": (1, 1 << 4),
    "remove_file": (1, 1 << 5),
    "make_char": (1, 1 << 6),
    "make_dir": (1, 1 << 7),
    "make_reg": (1, 1 << 8),
    "make_sock": (1, 1 << 9),
    "make_fifo": (1, 1 << 10),
    "make_block": (1, 1 << 11),
    "make_sym": (1, 1 << 12),
    "refer": (2, 1 << 13),  # before ABI 2 the kernel refuses every move or link across directories
    "truncate": (3, 1 << 14),
    "ioctl_dev": (5, 1 << 15),
}
TCP: Rights = {"bind": (4, 1 << 0), "connect": (4, 1 << 1)}
SCOPES: Rights = {"abstract_unix_socket": (6, 1 << 0), "signal": (6, 1 << 1)}
SCOPED_SINCE: Final = 6  # Linux 6.12: can confine abstract sockets and signals
LOGGING: Rights = {"same_exec_off": (7, 1 << 0), "new_exec_on": (7, 1 << 1), "subdomains_off": (7, 1 << 2)}
QUIET: Final = ("same_exec_off", "subdomains_off")  # otherwise a guest could flood the host's audit log
NEWEST_ABI: Final = 7  # the newest whose every right is in the tables above

# The rights that each list of a ruleset grants. No list grants make_char or make_block; one grants ioctl_dev.
READ: Final = ("read_file", "read_dir")
READ_WRITE: Final = (
    *READ, "write_file", "truncate", "remove_dir", "remove_file", "refer",
    "make_dir", "make_reg", "make_sock", "make_fifo", "make_sym",
)  # fmt: skip
EXECUTE: Final = ("execute",)
TERMINALS: Final = ("read_file", "read_dir", "write_file", "ioctl_dev")
ON_FILES: Final = ("execute", "write_file", "read_file", "truncate", "ioctl_dev")

# Gaps that an ABI closes, by that ABI, and gaps that no ABI closes.
_OPEN_BEFORE: Final = (
    (3, "any file that the user may write can be emptied with truncate()"),
    (4, "TCP connections and TCP listening ports are not filtered"),
    (5, "ioctl() on device files is not filtered"),
    (6, "abstract unix sockets of processes outside can be connected to"),
    (6, "signals can be sent to processes outside"),
)
_ALWAYS_OPEN: Final = (
    "mode, owner, times and extended attributes of any file the user owns can be changed",
    "names and metadata of any file can be looked up (stat, access, readlink, chdir)",
    "UDP, raw and other sockets that are not TCP are not filtered",
    "the TCP filter does not see MPTCP, sending with MSG_FASTOPEN, or listen() without bind()",
    "named unix sockets can be connected to wherever file permissions allow",
    "System V IPC and POSIX message queues are not filtered",
    "priority and resource limits of other processes of the user can be changed",
    "descriptors opened before, or received from outside, keep their rights",
    "programs can be run from memory (memfd_create), or loaded from any file that can be read",
)

_CREATE_VERSION: Final = 1 << 0
_RULE_PATH, _RULE_PORT = 1, 2
_PR_SET_NO_NEW_PRIVS: Final = 38
# The numbers are the same on every architecture but Alpha and MIPS, which shift them.
_NUMBERS: Final = {"landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446}
_REASONS: Final = {  # for errnos whose usual text misleads
    errno.EBADFD: "Landlock cannot name this kind of file (pipe, socket or memfd)",
    errno.E2BIG: "this thread already has as many rulesets as Landlock allows",
}

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.argtypes = (ctypes.c_long, *[ctypes.c_void_p] * 4)  # c_void_p takes integers and bytes
_syscall.restype = ctypes.c_long
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


class Ruleset:
    """Rights that remain allowed; everything else is refused. Frozen, and compared by value."""

    __slots__ = ("execute", "read", "read_write", "scopes", "tcp_bind", "tcp_connect", "terminals")

    read: tuple[str, ...]
    """Files that may be read, and directories that may be read and listed with all below them."""
    read_write: tuple[str, ...]
    """Files and directories that may also be written, created, moved and removed; device nodes excepted."""
    execute: tuple[str, ...]
    """Programs that may be executed. Execution does not include reading: name the path in both lists."""
    tcp_bind: Ports
    tcp_connect: Ports
    """Ports, or "all" to leave this side unfiltered. Binding port 0 lets the kernel pick one."""
    scopes: tuple[str, ...]
    """Ways to processes outside that are refused (see ``SCOPES``). By default, all of them."""
    terminals: tuple[str, ...]
    """Folders of pseudo-terminals, which may be opened and controlled."""

    def __init__(
        self,
        *,
        read: Iterable[str] = (),
        read_write: Iterable[str] = (),
        execute: Iterable[str] = (),
        tcp_bind: Iterable[int] | Literal["all"] = (),
        tcp_connect: Iterable[int] | Literal["all"] = (),
        scopes: Iterable[str] = tuple(SCOPES),
        terminals: Iterable[str] = (),
    ) -> None:
        """Check every field; raise ``ValueError`` with the field's name."""
        store = object.__setattr__
        lists = {"read": read, "read_write": read_write, "execute": execute, "terminals": terminals}
        for name, paths in lists.items():
            store(self, name, _validated(name, paths, "an absolute path", _is_path))
        for name, ports in (("tcp_bind", tcp_bind), ("tcp_connect", tcp_connect)):
            store(self, name, "all" if ports == "all" else _validated(name, ports, "a TCP port", _is_port))
        store(self, "scopes", _validated("scopes", scopes, "a Landlock scope", tuple(SCOPES).__contains__))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ruleset:
        """Rebuild a ruleset from ``to_json``. A missing key allows nothing; an unknown key is an error."""
        unknown = sorted(set(data) - set(cls.__slots__))
        if unknown:
            raise ValueError(f"a Landlock ruleset has no field {', '.join(unknown)}")
        return cls(**data)

    def to_json(self) -> dict[str, list[str] | list[int] | str]:
        """Return the fields as lists and strings, for JSON."""
        values = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}

    def _refuse(self, name: str, *_value: object) -> NoReturn:
        raise AttributeError(f"a Ruleset is frozen: {name}")

    __setattr__ = __delattr__ = _refuse

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        return self.to_json() == other.to_json() if isinstance(other, Ruleset) else NotImplemented

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(repr(self))

    def __repr__(self) -> str:
        """Name every field."""
        return f"Ruleset({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy as a constructor call, because a frozen object refuses to have its fields set."""
        return Ruleset.from_json, (self.to_json(),)


def abi() -> int:
    """Return the kernel's Landlock ABI; 0 if Landlock is not built in, is switched off, or is blocked by a filter."""
    return max(0, int(_syscall(_NUMBERS["landlock_create_ruleset"], None, 0, _CREATE_VERSION, None)))


def restrict(ruleset: Ruleset, *, at_most: int = NEWEST_ABI, opened: Mapping[str, int] | None = None) -> None:
    """Restrict the calling thread, and everything that it starts, permanently to ``ruleset``.

    ``opened`` maps paths to open descriptors; these paths are not looked up again. Raises
    ``OSError`` that names the path or call. No restriction holds then.
    """
    descriptor = build(ruleset, at_most=at_most, opened=opened)
    try:
        enforce(descriptor)
    finally:
        os.close(descriptor)


def build(ruleset: Ruleset, *, at_most: int = NEWEST_ABI, opened: Mapping[str, int] | None = None) -> int:
    """Return a close-on-exec descriptor of the ruleset, without rights newer than ABI ``at_most``, for any process."""
    level = min(abi(), at_most)
    if level < 1:
        raise OSError(errno.ENOSYS, "landlock_create_ruleset: this kernel has no usable Landlock")
    handled = pack("=QQQ", *handled_rights(ruleset, level))  # older kernels accept trailing zeros
    descriptor = _call("landlock_create_ruleset", handled, len(handled))
    try:
        for path, rights in path_rights(ruleset, level).items():
            _allow_path(descriptor, path, rights, (opened or {}).get(path))
        for port, rights in port_rights(ruleset, level).items():
            _call("landlock_add_rule", descriptor, _RULE_PORT, pack("=QQ", rights, port))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def enforce(descriptor: int) -> None:
    """Restrict the calling thread by a built ruleset; other running threads keep their rights.

    This function sets no_new_privs itself.
    """
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    _call("landlock_restrict_self", descriptor, mask(LOGGING, abi(), QUIET))


class Prepared:
    """A ruleset that is built repeatedly, while different mounts lie on some of its paths.

    A rule applies to the inode that its path leads to. It does not apply below a mount that is added there later.
    """

    def __init__(self, ruleset: Ruleset, later: Iterable[str]) -> None:
        """``later`` are paths of folders that every ``build`` looks up again."""
        level = min(abi(), NEWEST_ABI)
        self._handled = pack("=QQQ", *handled_rights(ruleset, level))
        found = path_rights(ruleset, level)
        self._later = [(path, found[path]) for path in found if path in later]
        self._rules = [
            (_RULE_PATH, pack("=Qi", *_for_descriptor(os.open(path, os.O_PATH | os.O_CLOEXEC), found[path])))
            for path in found
            if path not in later
        ]
        self._rules += [(_RULE_PORT, pack("=QQ", rights, port)) for port, rights in port_rights(ruleset, level).items()]

    def build(self) -> int:
        """Return a new descriptor of the ruleset, as ``build`` does."""
        descriptor = _call("landlock_create_ruleset", self._handled, len(self._handled))
        for kind, rule in self._rules:
            _call("landlock_add_rule", descriptor, kind, rule)
        for path, rights in self._later:
            target = os.open(path, os.O_PATH | os.O_CLOEXEC)
            _call("landlock_add_rule", descriptor, _RULE_PATH, pack("=Qi", rights, target), path=path)
            os.close(target)
        return descriptor


def enforcing(descriptor: int) -> tuple[Any, ...]:
    """Return the arguments of an untyped syscall(2) that restricts a process with no_new_privs.

    ``descriptor`` is the number that the built ruleset will have.
    """
    return _NUMBERS["landlock_restrict_self"], descriptor, mask(LOGGING, abi(), QUIET)


def _for_descriptor(target: int, rights: int) -> tuple[int, int]:
    if not stat.S_ISDIR(os.fstat(target).st_mode):
        rights &= mask(FILESYSTEM, NEWEST_ABI, ON_FILES)
    return rights, target


def left_open(abi: int) -> tuple[str, ...]:
    """Describe what Landlock of this ABI does not restrict, whatever the ruleset."""
    if abi < 1:
        return ("this kernel has no Landlock, so it restricts nothing",)
    return (*closed_later(abi), *_ALWAYS_OPEN)


def closed_later(abi: int) -> tuple[str, ...]:
    """Describe the gaps of this ABI that a newer ABI closes."""
    return tuple(gap for closed_by, gap in _OPEN_BEFORE if abi < closed_by)


def mask(rights: Rights, abi: int, names: Iterable[str] | None = None) -> int:
    """Return the bits of ``names`` (all names if ``None``) that ``abi`` knows."""
    chosen = (rights[name] for name in (rights if names is None else names))
    return sum({bit for since, bit in chosen if since <= abi})


def handled_rights(ruleset: Ruleset, abi: int) -> tuple[int, int, int]:
    """Return the rights that are refused unless a rule allows them: file rights, TCP rights, scopes."""
    return mask(FILESYSTEM, abi), mask(TCP, abi, _filtered(ruleset)), mask(SCOPES, abi, ruleset.scopes)


def path_rights(ruleset: Ruleset, abi: int) -> dict[str, int]:
    """Return the rights of each path, combined over the lists that name it."""
    lists = (READ, "read"), (READ_WRITE, "read_write"), (EXECUTE, "execute"), (TERMINALS, "terminals")
    return _summed((mask(FILESYSTEM, abi, names), getattr(ruleset, field)) for names, field in lists)


def port_rights(ruleset: Ruleset, abi: int) -> dict[int, int]:
    """Return the rights of each TCP port; nothing for an unfiltered side, or before ABI 4."""
    return _summed((mask(TCP, abi, (name,)), ports) for name, ports in _filtered(ruleset).items())


def _filtered(ruleset: Ruleset) -> dict[str, tuple[int, ...]]:
    sides = {"bind": ruleset.tcp_bind, "connect": ruleset.tcp_connect}
    return {name: ports for name, ports in sides.items() if ports != "all"}


def _summed(grants: Iterable[tuple[int, tuple[T, ...]]]) -> dict[T, int]:
    total: dict[T, int] = {}
    for rights, targets in grants:
        total |= {target: total.get(target, 0) | rights for target in targets if rights}
    return total


def _allow_path(ruleset: int, path: str, rights: int, opened: int | None) -> None:
    target = os.open(path, os.O_PATH | os.O_CLOEXEC) if opened is None else os.dup(opened)
    try:
        _call("landlock_add_rule", ruleset, _RULE_PATH, pack("=Qi", *_for_descriptor(target, rights)), path=path)
    finally:
        os.close(target)


def _call(name: str, *arguments: int | bytes, path: str | None = None) -> int:
    padding = (None,) * (4 - len(arguments))
    return _check(_syscall(_NUMBERS[name], *arguments, *padding), name, path)


def _check(result: int, call: str, path: str | None = None) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {_REASONS.get(code, os.strerror(code))}", path)
    return result


def _validated(field: str, value: Iterable[Any], noun: str, fits: Callable[[Any], bool]) -> tuple[Any, ...]:
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):  # otherwise "/etc" would be a list of letters
        raise ValueError(f"{field}: not a list: {value!r}")
    items = tuple(value)
    for item in items:
        if not fits(item):
            raise ValueError(f"{field}: not {noun}: {item!r}")
    return items


def _is_path(item: object) -> bool:
    return isinstance(item, str) and item.startswith("/") and "\0" not in item


def _is_port(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= 65535
