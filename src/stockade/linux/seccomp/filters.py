"""Build the three filters: tables from the groups and the rules, and their bytes."""

import errno
from collections.abc import Iterator, Mapping
from functools import cache

from stockade.linux.seccomp import ids, syscalls
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
_NO_LISTENER = refuse_if((any_bit(1, _NEW_LISTENER),), action=answer(errno.EBUSY))  # as if ours still existed
GROUP_OF = {name: group for group in GROUPS for name in group.names}


@cache
def build(which: Filter, arch: Arch, *, notify: bool = False, refuse_shared_memory: bool = False) -> bytes:
    """Return the seccomp program of a filter, ready for `install`.

    With `notify`, a refused call goes to the supervisor that holds the listener, so that it can name the call. With
    `refuse_shared_memory`, the program refuses memory that is shared without a file.
    """
    rules = table_of(which, arch, refuse_shared_memory=refuse_shared_memory)
    return compile_table(listening(rules) if notify else rules)


def listening(table: Table) -> Table:
    """Return the same decisions, but ask a supervisor about refusals, and allow the guest no listener of its own.

    Of two filters that ask, the kernel lets the newest answer, and its supervisor may say "continue". After our
    supervisor has closed its listener, a guest could otherwise load such a filter and allow itself every refused call.
    """
    return closing(table.arch, {"seccomp": _NO_LISTENER}).narrowed_by(table.with_notify())


def closing(arch: Arch, closed: Mapping[str, Rule]) -> Table:
    """Return a table that allows everything except what the rules of `closed` refuse; another table is `narrowed_by`
    it.
    """
    numbers = syscalls.numbers(arch)
    rules = {number: closed.get(name, always(ALLOW)) for name, number in numbers.items()}
    return Table(arch, rules, unknown=ALLOW)


@cache
def table_of(which: Filter, arch: Arch, *, refuse_shared_memory: bool = False) -> Table:
    """Return the decisions of a filter about every known system call of `arch`.

    `refuse_shared_memory` is for hosts without a memory cgroup. A filter cannot see through descriptors: a shared
    mapping of a writable ``/dev/zero`` creates the same memory, so leave the device out there.
    """
    table = Table(Arch(arch), dict(_rules(Filter(which), Arch(arch))))
    return without_shared_memory(table) if refuse_shared_memory else table


def without_shared_memory(table: Table) -> Table:
    """Return the same table, but refuse memory that is shared without a file."""
    return closing(table.arch, SHARED_MEMORY).narrowed_by(table)


def without_watching(table: Table) -> Table:
    """Return the same table, but refuse inotify: the kernel counts its instances and watches for the whole account."""
    return closing(table.arch, WATCHING).narrowed_by(table)


def without_uncounted_memory(table: Table) -> Table:
    """Return the same table, but refuse memory that no limit counts."""
    return closing(table.arch, UNCOUNTED).narrowed_by(table)


def with_one_id(table: Table, own: int) -> Table:
    """Return the same table, but answer EPERM where a call names an id other than ``own``, the only one mapped."""
    return closing(table.arch, ids.only(own)).narrowed_by(table)


def for_profile(table: Table) -> Table:
    """Return the same table, but let a guest change its own priorities only.

    "All but" for two arguments at once takes a thousand entries of a profile, and the kernel a program of 4,096 steps.
    """
    return closing(table.arch, {name: SHARED_HOST[name] for name in ("setpriority", "ioprio_set")}).narrowed_by(table)


def on_shared_host(table: Table, *, network: bool, own_uid: bool, scoped_signals: bool) -> Table:
    """Return the same table for a guest without namespaces.

    `network` allows the host's network. `own_uid` means that no other process has the guest's uid. `scoped_signals`
    means that a Landlock domain confines its signals.
    """
    closed = dict(SHARED_HOST)
    closed |= {} if network else NO_NETWORK
    closed |= {} if own_uid or scoped_signals else NO_SIGNALS
    return closing(table.arch, closed).narrowed_by(table)


def without_unix_sockets(table: Table) -> Table:
    """Return the same table, but refuse every Unix socket except connected pairs."""
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
