"""The three filters: tables made from the groups and the rules, and their bytes."""

import errno
from collections.abc import Iterator, Mapping
from functools import cache

from stockade.linux.seccomp import syscalls
from stockade.linux.seccomp.groups import ALLOWED_FROM_STANDARD, ALLOWED_FROM_TIGHT, Filter
from stockade.linux.seccomp.refusals import REFUSED_BY_ALL, REFUSED_BY_STANDARD
from stockade.linux.seccomp.rules import (
    ARGUMENT_RULES,
    NO_NETWORK,
    NO_SIGNALS,
    NO_UNIX_SOCKETS,
    SHARED_HOST,
    SHARED_MEMORY,
    UNCOUNTED,
    WATCHING,
)
from stockade.linux.seccomp.syscalls import Arch
from stockade.linux.seccomp.table import ALLOW, Rule, Table, always, answer, any_bit, refuse_if
from stockade.linux.seccomp.tree import compile_table

GROUPS = (*ALLOWED_FROM_TIGHT, *ALLOWED_FROM_STANDARD, *REFUSED_BY_STANDARD, *REFUSED_BY_ALL)
_NEW_LISTENER = 1 << 3  # SECCOMP_FILTER_FLAG_NEW_LISTENER
_NO_LISTENER = refuse_if((any_bit(1, _NEW_LISTENER),), action=answer(errno.EBUSY))  # as if ours were there still
GROUP_OF = {name: group for group in GROUPS for name in group.names}


@cache
def build(which: Filter, arch: Arch, *, notify: bool = False, refuse_shared_memory: bool = False) -> bytes:
    """The seccomp program of a filter, ready for `install`.

    With `notify`, a refusal asks the supervisor that holds the listener instead, so that it can name the call.
    With `refuse_shared_memory`, memory shared without a file is refused.
    """
    rules = table_of(which, arch, refuse_shared_memory=refuse_shared_memory)
    return compile_table(listening(rules) if notify else rules)


def listening(table: Table) -> Table:
    """The same decisions, with a supervisor asked about refusals; the guest can have no listener of its own.

    The kernel lets the newest of two filters that ask answer, and its supervisor may say "continue": once
    ours had closed its listener, a guest could load such a filter over it and allow itself every refused call.
    """
    return closing(table.arch, {"seccomp": _NO_LISTENER}).narrowed_by(table.with_notify())


def closing(arch: Arch, closed: Mapping[str, Rule]) -> Table:
    """A table that allows all but what the rules of `closed` refuse: to be `narrowed_by` what decides the rest."""
    numbers = syscalls.numbers(arch)
    rules = {number: closed.get(name, always(ALLOW)) for name, number in numbers.items()}
    return Table(arch, rules, unknown=ALLOW)


def table_of(which: Filter, arch: Arch, *, refuse_shared_memory: bool = False) -> Table:
    """What a filter decides about every known system call of `arch`.

    `refuse_shared_memory` is for hosts without a memory cgroup. It cannot see through descriptors: where
    ``/dev/zero`` can be opened for writing, mapping it shared makes the same memory, so leave it out there.
    """
    table = Table(Arch(arch), dict(_rules(Filter(which), Arch(arch))))
    return without_shared_memory(table) if refuse_shared_memory else table


def without_shared_memory(table: Table) -> Table:
    """The same table, with memory refused that is shared without a file."""
    return closing(table.arch, SHARED_MEMORY).narrowed_by(table)


def without_watching(table: Table) -> Table:
    """The same table, with inotify refused: the kernel counts its instances and watches for the whole account."""
    return closing(table.arch, WATCHING).narrowed_by(table)


def without_uncounted_memory(table: Table) -> Table:
    """The same table, which refuses memory that no limit counts."""
    return closing(table.arch, UNCOUNTED).narrowed_by(table)


def on_shared_host(table: Table, *, network: bool, own_uid: bool, scoped_signals: bool) -> Table:
    """The same table for a guest without namespaces.

    `network` tells that it may use the host's; `own_uid` that nobody else has its uid; `scoped_signals` that a
    Landlock domain holds back its signals.
    """
    closed = dict(SHARED_HOST)
    closed |= {} if network else NO_NETWORK
    closed |= {} if own_uid or scoped_signals else NO_SIGNALS
    return closing(table.arch, closed).narrowed_by(table)


def without_unix_sockets(table: Table) -> Table:
    """The same table, with every Unix socket refused but pairs that are connected from the start."""
    return closing(table.arch, NO_UNIX_SOCKETS).narrowed_by(table)


def _rules(which: Filter, arch: Arch) -> Iterator[tuple[int, Rule]]:
    for name, number in syscalls.numbers(arch).items():
        group = GROUP_OF[name]
        if not which.includes(group.since):
            yield number, always(group.refusal)
        elif name in ARGUMENT_RULES:
            yield number, ARGUMENT_RULES[name].rules.get(which, always(ALLOW))
        else:
            yield number, always(ALLOW)
