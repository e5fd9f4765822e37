"""The three filters: tables made from the groups and the rules, and their bytes."""

from collections.abc import Iterator
from functools import cache

from stockade.linux.seccomp import syscalls
from stockade.linux.seccomp.groups import ALLOWED_FROM_STANDARD, ALLOWED_FROM_TIGHT, Filter
from stockade.linux.seccomp.refusals import REFUSED_BY_ALL, REFUSED_BY_STANDARD
from stockade.linux.seccomp.rules import ARGUMENT_RULES, SHARED_MEMORY
from stockade.linux.seccomp.syscalls import Arch
from stockade.linux.seccomp.table import ALLOW, Rule, Table, always
from stockade.linux.seccomp.tree import compile_table

GROUPS = (*ALLOWED_FROM_TIGHT, *ALLOWED_FROM_STANDARD, *REFUSED_BY_STANDARD, *REFUSED_BY_ALL)
GROUP_OF = {name: group for group in GROUPS for name in group.names}


@cache
def build(which: Filter, arch: Arch, *, notify: bool = False, refuse_shared_memory: bool = False) -> bytes:
    """The seccomp program of a filter, ready for `install`.

    With `notify`, a refusal with EPERM asks the supervisor that holds the listener instead, so that it can
    name the call. With `refuse_shared_memory`, memory shared without a file is refused.
    """
    rules = table_of(which, arch, refuse_shared_memory=refuse_shared_memory)
    return compile_table(rules.with_notify() if notify else rules)


def table_of(which: Filter, arch: Arch, *, refuse_shared_memory: bool = False) -> Table:
    """What a filter decides about every known system call of `arch`.

    `refuse_shared_memory` is for hosts without a memory cgroup. It cannot see through descriptors: where
    ``/dev/zero`` can be opened for writing, mapping it shared makes the same memory, so leave it out there.
    """
    rules = dict(_rules(Filter(which), Arch(arch)))
    if refuse_shared_memory:
        numbers = syscalls.numbers(arch)
        for name, rule in SHARED_MEMORY.items():
            rules[numbers[name]] = rules[numbers[name]].narrowed_by(rule)
    return Table(Arch(arch), rules)


def _rules(which: Filter, arch: Arch) -> Iterator[tuple[int, Rule]]:
    for name, number in syscalls.numbers(arch).items():
        group = GROUP_OF[name]
        if not which.includes(group.since):
            yield number, always(group.refusal)
        elif name in ARGUMENT_RULES:
            yield number, ARGUMENT_RULES[name].rules.get(which, always(ALLOW))
        else:
            yield number, always(ALLOW)
