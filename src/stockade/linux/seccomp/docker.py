"""Read a seccomp profile in Docker's JSON format.

Supported: ``defaultAction``, ``defaultErrnoRet``, ``archMap`` and ``architectures`` (which must name ours),
and in ``syscalls``: ``names`` (or the older ``name``), ``action``, ``errnoRet``, ``args``, ``comment``, and
``includes``/``excludes`` by ``arches``, ``caps`` and ``minKernel``. Anything else raises `ValueError` with
the field and its value: a field that is not understood may be the one that refuses.

As in runc, arguments of one entry must all match, unless two of them test the same argument: then each is
an alternative. Entries for one call are tried in the order of the profile.
"""

import errno
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stockade.core.dataclass import dataclass
from stockade.linux.seccomp import syscalls, table
from stockade.linux.seccomp.syscalls import Arch
from stockade.linux.seccomp.table import ALLOW, Clause, Condition, Op, Rule, Table, always

_ACTIONS = {
    "SCMP_ACT_ALLOW": table.ALLOW,
    "SCMP_ACT_KILL": table.KILL_THREAD,
    "SCMP_ACT_KILL_THREAD": table.KILL_THREAD,
    "SCMP_ACT_KILL_PROCESS": table.KILL_PROCESS,
    "SCMP_ACT_TRAP": table.TRAP,
    "SCMP_ACT_LOG": table.LOG,
}
_OPS = {f"SCMP_CMP_{op.name}": op for op in Op}
_ARCHES = {Arch.X86_64: ("amd64", "SCMP_ARCH_X86_64"), Arch.AARCH64: ("arm64", "SCMP_ARCH_AARCH64")}

_Json = Mapping[str, Any]


@dataclass(frozen=True)
class _Host:
    """The host properties that a profile's conditions test."""

    arch: Arch
    kernel: tuple[int, int]
    capabilities: frozenset[str]


def load_profile(
    profile: str | bytes,
    arch: Arch,
    *,
    added_to: Table | None,
    kernel: tuple[int, int],
    capabilities: frozenset[str] = frozenset(),
) -> Table:
    """Return the table of a profile for a guest on `kernel` (major, minor) that holds `capabilities`.

    `added_to` is one of stockade's tables, which the profile then narrows: both must allow a call. With None, the
    profile replaces it, and may allow calls that stockade's tables never allow. In either case, unknown system calls
    get ENOSYS, and calls of another architecture kill the process.
    """
    document = _object("profile", json.loads(profile))
    own = _read(document, _Host(Arch(arch), kernel, capabilities))
    return own if added_to is None else added_to.narrowed_by(own)


def _read(document: _Json, host: _Host) -> Table:
    fields = ("defaultAction", "defaultErrnoRet", "archMap", "architectures", "syscalls")
    _only("profile", document, fields)
    _check_arch(document, host.arch)
    default = _action(document, "defaultAction", document.get("defaultErrnoRet"))
    clauses: dict[int, list[Clause]] = {}
    for index, raw in enumerate(_list("syscalls", document.get("syscalls"))):
        where = f"syscalls[{index}]"
        for number, clause in _entry(where, _object(where, raw), host, default):
            _append(where, clauses.setdefault(number, []), clause)
    known = syscalls.names(host.arch)
    rules = {nr: Rule(tuple(clauses[nr]), default) if nr in clauses else always(default) for nr in known}
    return Table(host.arch, rules)


def _entry(where: str, entry: _Json, host: _Host, default: int) -> Iterator[tuple[int, Clause]]:
    _only(where, entry, ("names", "name", "action", "errnoRet", "args", "comment", "includes", "excludes"))
    action = _action(entry, "action", entry.get("errnoRet"), where + ".")
    alternatives = _alternatives(where + ".args", entry.get("args"))
    applies = _applies(where, entry, host)
    for name in _names(where, entry):
        number = syscalls.numbers(host.arch).get(name)
        if number is None and default == ALLOW and not any(name in syscalls.numbers(a) for a in Arch):
            raise ValueError(f"{where}.names: unknown system call {name!r} would stay allowed")
        if number is not None and applies:
            yield from ((number, Clause(conditions, action)) for conditions in alternatives)


def _append(where: str, clauses: list[Clause], clause: Clause) -> None:
    """Add a clause, unless an unconditional clause before it makes it redundant or contradicts it."""
    final = clauses[-1] if clauses and not clauses[-1].conditions else None
    if final is None:
        clauses.append(clause)
    elif final.action != clause.action:
        raise ValueError(f"{where}: an earlier entry decides the same call differently for all arguments")


def _names(where: str, entry: _Json) -> list[str]:
    names = _list(f"{where}.names", entry.get("names")) or [entry.get("name")]
    return [_text(f"{where}.names", name) for name in names]


def _action(source: _Json, field: str, errno_ret: object, prefix: str = "") -> int:
    name = source.get(field)
    if name == "SCMP_ACT_ERRNO":
        code = errno.EPERM if errno_ret is None else errno_ret
        return table.answer(_number(f"{prefix}errnoRet", code, table.MAX_ERRNO))
    if not isinstance(name, str) or name not in _ACTIONS:
        raise ValueError(f"{prefix}{field}: {name!r} is not supported")
    return _ACTIONS[name]


def _alternatives(where: str, raw: object) -> list[tuple[Condition, ...]]:
    conditions = [_condition(where, _object(where, each)) for each in _list(where, raw)]
    if len({condition.arg for condition in conditions}) < len(conditions):
        return [(condition,) for condition in conditions]
    return [tuple(conditions)]


def _condition(where: str, raw: _Json) -> Condition:
    _only(where, raw, ("index", "value", "valueTwo", "op"))
    arg = _number(f"{where}.index", raw.get("index"), 5)
    value, second = (_number(f"{where}.{key}", raw.get(key, 0)) for key in ("value", "valueTwo"))
    op = raw.get("op")
    if op == "SCMP_CMP_MASKED_EQ":
        return Condition(arg, Op.EQ, second & value, value)
    if not isinstance(op, str) or op not in _OPS:
        raise ValueError(f"{where}.op: {op!r} is not supported")
    return Condition(arg, _OPS[op], value)


def _applies(where: str, entry: _Json, host: _Host) -> bool:
    includes = _met(f"{where}.includes", entry.get("includes"), host)
    excludes = _met(f"{where}.excludes", entry.get("excludes"), host)
    return all(includes) and not any(excludes)


def _met(where: str, raw: object, host: _Host) -> list[bool]:
    """Return whether each condition holds; an entry needs all of its ``includes`` and none of its ``excludes``."""
    conditions = _object(where, {} if raw is None else raw)
    _only(where, conditions, ("arches", "caps", "minKernel"))
    arches = [_text(where + ".arches", each) for each in _list(where + ".arches", conditions.get("arches"))]
    caps = [_text(where + ".caps", each) for each in _list(where + ".caps", conditions.get("caps"))]
    met = [any(arch in _ARCHES[host.arch] for arch in arches)] if arches else []
    met += [cap in host.capabilities for cap in caps]
    if minimum := conditions.get("minKernel"):
        met.append(host.kernel >= _version(where + ".minKernel", minimum))
    return met


def _version(where: str, raw: object) -> tuple[int, int]:
    major, dot, minor = _text(where, raw).partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"{where}: {raw!r} is not a kernel version like 4.8")
    return int(major), int(minor)


def _check_arch(document: _Json, arch: Arch) -> None:
    maps = _list("archMap", document.get("archMap"))
    mapped = [_object("archMap", each).get("architecture") for each in maps]
    named = mapped + _list("architectures", document.get("architectures"))
    if named and not set(_ARCHES[arch]) & set(map(str, named)):
        raise ValueError(f"the profile is for {named}, not for {arch}")


def _only(where: str, raw: _Json, supported: tuple[str, ...]) -> None:
    for key, value in raw.items():
        if key not in supported and value not in (None, "", [], {}):
            raise ValueError(f"{where}: field {key!r} with value {value!r} is not supported")


def _typed(kind: type, article: str) -> Callable[[str, object], Any]:
    def check(where: str, raw: object) -> Any:
        if type(raw) is not kind:
            raise ValueError(f"{where}: {raw!r} is not {article}")
        return raw

    return check


_object = _typed(dict, "an object")
_text = _typed(str, "a string")
_integer = _typed(int, "a number")


def _number(where: str, raw: object, most: int = table.ALL_BITS) -> int:
    number: int = _integer(where, raw)
    if not 0 <= number <= most:
        raise ValueError(f"{where}: {number} is outside 0..{most}")
    return number


def _list(where: str, raw: object) -> list[Any]:
    if raw is not None and not isinstance(raw, list):
        raise ValueError(f"{where}: {raw!r} is not a list")
    return raw or []
