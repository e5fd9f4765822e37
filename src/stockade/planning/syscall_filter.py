"""Choose the system-call filter of a policy on this host: its program, and explanations of its refusals."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from stockade.core.dataclass import dataclass
from stockade.core.errors import FieldProblem, PolicyError, SetupError
from stockade.linux import faults, landlock
from stockade.planning.denial import Denial
from stockade.policy.guarantees import Guarantee, Isolation

if TYPE_CHECKING:
    from stockade.linux.seccomp import Table
    from stockade.planning.facts import HostFacts
    from stockade.planning.plan import Plan
    from stockade.policy.model import Policy

_MOST = 1 << 20
_FIELD = "security.syscalls_file"


@dataclass(frozen=True)
class _Rules:
    """All inputs of a filter, as the key of a cache."""

    machine: str
    kernel: tuple[int, int]
    which: str
    bounds_memory: bool
    """Whether the policy limits memory. The filter then refuses memory that no limit counts."""
    refuse_shared_memory: bool
    shared_host: tuple[bool, bool, bool] | None
    """For a guest without namespaces: may it use the network, is its uid its own, are its signals scoped."""
    own: bytes | None
    replaces: bool
    closes_sockets: bool
    """Whether Unix sockets are refused, because one of the host may lie in a shown folder."""
    refuse_watching: bool = False
    own_id: int | None = None
    """The only id in the guest's user namespace; ``None`` without such a namespace."""


def read(policy: Policy, facts: HostFacts, isolation: Isolation) -> bytes | None:
    """Return the content of the policy's own filter, read once for each plan; ``PolicyError`` if it is invalid."""
    path = policy.security.syscalls_file
    if path is None:
        return None
    try:
        _check_place(path, policy.filesystem.writable)
        content = _content(path)
        _check(_rules(policy, facts, isolation, content, closes_sockets=True))
    except OSError as error:
        raise _problem(path, f"cannot be read: {error.strerror}") from None
    except RecursionError:
        raise _problem(path, "is nested too deeply") from None
    except ValueError as error:
        raise _problem(path, str(error)) from None
    return content


def program(plan: Plan, *, engine: bool = False) -> bytes:
    """Return the program to load. Raise ``SetupError`` if no descriptor is free to read the modules that compile it.

    ``engine`` means that an engine makes the user namespace, so nothing limits the guest's inotify watches. If the
    guest shares an account with other processes, the filter then refuses inotify.
    """
    rules = _of(plan)
    if engine and (plan.facts.uid != 0 or plan.policy.security.host_uid is not None):
        rules = replace(rules, refuse_watching=True)
    try:
        return _program(rules, plan.policy.security.explain_denials)
    except OSError as error:  # modules are imported at their first use
        raise SetupError(faults.explain("make the system-call filter", error)) from error


def profile(plan: Plan) -> str:
    """Return the filter as a profile in Docker's format, for an engine that loads it.

    Guests of one uid share the kernel's count of inotify watches with all containers, so the filter refuses inotify.
    """
    return _profile(replace(_of(plan), refuse_watching=True))


def of_proxy(machine: str) -> bytes:
    """Return the program for the proxy of a run on ``machine``."""
    from stockade.linux.seccomp import Arch, compile_table
    from stockade.linux.seccomp.proxy import proxy_table

    try:
        return compile_table(proxy_table(Arch(machine)))
    except OSError as error:  # modules are imported at their first use
        raise SetupError(faults.explain("make the proxy's system-call filter", error)) from error


def errnos(plan: Plan) -> dict[int, int]:
    """Return the errno of each call that the warden refuses, by number, if the policy asks for explanations."""
    if not plan.policy.security.explain_denials:
        return {}
    return _table(_of(plan)).refusals()


def allows(plan: Plan, call: str, args: tuple[int, ...] = ()) -> bool:
    """Return whether the filter of ``plan`` lets a call with these arguments pass."""
    from stockade.linux.seccomp.syscalls import numbers

    rules = _of(plan)
    return _passes(rules, numbers(_table(rules).arch)[call], (*args, 0, 0, 0, 0, 0, 0)[:6])


def denials(plan: Plan, refused: Iterable[tuple[int, int, Sequence[int]]]) -> tuple[Denial, ...]:
    """Return explanations of the calls that the warden has refused: number, count and first arguments of each."""
    rules = _of(plan)
    path = plan.policy.security.syscalls_file
    return tuple(_denial(rules, path, number, count, tuple(args)) for number, count, args in refused)


def _problem(path: str, reason: str) -> PolicyError:
    return PolicyError([FieldProblem(_FIELD, repr(path), reason)])


def _check_place(path: str, writable: Sequence[str]) -> None:
    real = os.path.realpath(path)
    for folder in map(os.path.realpath, writable):
        if os.path.commonpath((folder, real)) == folder:
            raise ValueError(f"lies in {folder}, where the guest may write: an earlier guest may have changed it")


def _content(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # opening a pipe must not block
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("is not a regular file")
        with os.fdopen(fd, "rb", closefd=False) as file:
            content = file.read(_MOST + 1)
    finally:
        os.close(fd)
    if len(content) > _MOST:
        raise ValueError("is larger than 1 MiB")
    return content


def _of(plan: Plan) -> _Rules:
    rules = _rules(plan.policy, plan.facts, plan.isolation, plan.own_filter, closes_sockets=plan.closes_sockets)
    return replace(rules, own_id=plan.policy.security.uid) if plan.maps_one_id else rules


def _rules(
    policy: Policy, facts: HostFacts, isolation: Isolation, own: bytes | None, *, closes_sockets: bool
) -> _Rules:
    shared = (policy.network == "host", facts.uid == 0, facts.landlock >= landlock.SCOPED_SINCE)
    return _Rules(
        machine=facts.machine,
        kernel=facts.version,
        which=policy.security.syscalls,
        bounds_memory=policy.asks(Guarantee.MEMORY),
        refuse_shared_memory=policy.asks(Guarantee.MEMORY) and "memory" not in facts.cgroups,
        shared_host=shared if isolation is Isolation.PROCESS else None,
        own=own,
        replaces=policy.security.syscalls_mode == "replace",
        closes_sockets=closes_sockets,
    )


def _check(rules: _Rules) -> None:
    from stockade.linux.seccomp import own

    if rules.machine not in ("x86_64", "aarch64"):
        return  # stockade has no filter for this machine, and the plan reports that
    lacking = own.lacking(_table(rules))
    if lacking:
        raise ValueError(f"no program could start: the file must allow {', '.join(lacking)}")
    _program(rules, explain=True)


@lru_cache(maxsize=16)
def _program(rules: _Rules, explain: bool) -> bytes:
    from stockade.linux.seccomp import compile_table, filters

    table = _table(rules)
    table = filters.listening(table) if explain else table
    if rules.own_id is not None:  # after ``listening``: only the errno is ours, so the warden has nothing to explain
        table = filters.with_one_id(table, rules.own_id)
    return compile_table(table)


@lru_cache(maxsize=16)
def _profile(rules: _Rules) -> str:
    from stockade.linux.seccomp import filters
    from stockade.linux.seccomp.docker_profile import dump_profile

    return dump_profile(filters.for_profile(_table(rules)))


@lru_cache(maxsize=16)
def _table(rules: _Rules) -> Table:
    from stockade.linux.seccomp import Arch, Filter, filters, load_profile, own

    arch = Arch(rules.machine)
    ours = filters.table_of(Filter(rules.which), arch)
    table = ours
    if rules.own is not None:
        theirs = load_profile(rules.own, arch, added_to=None, kernel=rules.kernel)
        table = theirs if rules.replaces else own.added(ours, theirs)
    if rules.shared_host is not None:
        network, own_uid, scoped_signals = rules.shared_host
        table = filters.on_shared_host(table, network=network, own_uid=own_uid, scoped_signals=scoped_signals)
    if rules.closes_sockets:
        table = filters.without_unix_sockets(table)
    if rules.refuse_watching:
        table = filters.without_watching(table)
    if rules.bounds_memory:
        table = filters.without_uncounted_memory(table)
    return filters.without_shared_memory(table) if rules.refuse_shared_memory else table


def _denial(rules: _Rules, path: str | None, number: int, count: int, args: tuple[int, ...]) -> Denial:
    from stockade.linux.seccomp import words

    name, does = words.describe(number, _table(rules).arch)
    return Denial(
        call=name,
        count=count,
        explanation=f"{does}; {_why(rules, path, number, args)}",
        allowed_by=_allowed_by(rules, path, number, args),
    )


def _without_limit(rules: _Rules) -> _Rules:
    return _Rules(**{**vars(rules), "bounds_memory": False, "refuse_shared_memory": False})


def _reaches_the_host(rules: _Rules, number: int, args: tuple[int, ...]) -> bool:
    """Return whether the call is refused only because the guest has no namespaces of its own."""
    if rules.shared_host is None:
        return False
    return _passes(_Rules(**{**vars(rules), "shared_host": None}), number, args)


def _reaches_sockets(rules: _Rules, number: int, args: tuple[int, ...]) -> bool:
    """Return whether the call is refused only because folders of the host are shown."""
    return rules.closes_sockets and _passes(_Rules(**{**vars(rules), "closes_sockets": False}), number, args)


def _uncounted(rules: _Rules, number: int, args: tuple[int, ...]) -> bool:
    """Return whether the call is refused only because nothing here counts its memory."""
    return rules.bounds_memory and _passes(_without_limit(rules), number, args)


def _takes_uncounted(rules: _Rules, number: int, args: tuple[int, ...]) -> bool:
    """Return whether the call takes memory that no limit counts on any host."""
    from stockade.linux.seccomp import filters
    from stockade.linux.seccomp.rules import UNCOUNTED
    from stockade.linux.seccomp.table import PASSING

    return filters.closing(_table(rules).arch, UNCOUNTED).decide(number, args) not in PASSING


def _passes(rules: _Rules, number: int, args: tuple[int, ...]) -> bool:
    from stockade.linux.seccomp.table import PASSING

    return _table(rules).decide(number, args) in PASSING


_BY_CIRCUMSTANCE = (
    (_uncounted, "limits.memory='unlimited'"),
    (_reaches_sockets, "filesystem.sockets='open', or the folder as a workspace with access='overlay' or 'copy'"),
    (_reaches_the_host, "a backend with namespaces, such as 'native'"),
)
"""Reasons outside of the filter itself: the isolation, the limits and the shown folders; with the setting to allow it.
"""


def _why(rules: _Rules, path: str | None, number: int, args: tuple[int, ...]) -> str:
    from stockade.linux.seccomp import words
    from stockade.linux.seccomp.rules import SHARED_MEMORY_WHY, UNCOUNTED_WHY

    if _uncounted(rules, number, args):
        if _takes_uncounted(rules, number, args):
            return f"refused because {UNCOUNTED_WHY}"
        return f"refused because {SHARED_MEMORY_WHY}, and no control group counts it here"
    if _reaches_sockets(rules, number, args):
        return "refused because files of the host are shown, and one of them may be a socket"
    if _reaches_the_host(rules, number, args):
        return "refused because the guest has no namespaces, so the call would affect the host"
    if rules.own is not None and rules.replaces:
        return f"the filter in {path} refuses it"
    too = f", and {path} does not allow it" if rules.own is not None else ""
    return words.why_refused(number, _table(rules).arch, rules.which) + too


def _allowed_by(rules: _Rules, path: str | None, number: int, args: tuple[int, ...]) -> str:
    from stockade.linux.seccomp import Filter, own

    for asks, answer in _BY_CIRCUMSTANCE:
        if asks(rules, number, args):
            return answer
    if rules.own is not None and rules.replaces:
        return f"{_FIELD}: an entry for it in {path}"
    for which in Filter:
        if Filter(rules.which) != which and which.includes(Filter(rules.which)):
            wider = _Rules(**{**vars(rules), "which": which.value})
            if _passes(wider, number, args):
                return f"security.syscalls={which.value!r}"
    if own.stays_closed(_table(rules), number, args):
        return f"{_FIELD} with security.syscalls_mode='replace'"
    return f"{_FIELD}: a custom filter that allows it"
