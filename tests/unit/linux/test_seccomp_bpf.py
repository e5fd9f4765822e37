"""The bytes of a filter agree with its table, checked by an interpreter and against libseccomp."""

import ctypes
import ctypes.util
import os
import random
import struct
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from stockade.linux.seccomp import bpf
from stockade.linux.seccomp.filters import table_of
from stockade.linux.seccomp.groups import Filter
from stockade.linux.seccomp.syscalls import Arch
from stockade.linux.seccomp.table import (
    ALL_BITS,
    ALLOW,
    KILL_PROCESS,
    UNIMPLEMENTED,
    Clause,
    Condition,
    Op,
    Rule,
    Table,
    always,
    answer,
)
from stockade.linux.seccomp.tree import compile_table

I386, ARM = 0x40000003, 0x40000028
X32 = 0x40000000


class Machine:
    """A small seccomp interpreter that accepts only what the kernel's checker accepts."""

    def __init__(self, program: bytes) -> None:
        self.code = list(struct.iter_unpack("<HBBI", program))
        self.longest = 0

    def run(self, nr: int, args: Sequence[int], audit: int) -> int:
        data = struct.pack("<IIQ6Q", nr, audit, 0, *args)
        word = at = steps = 0
        while True:
            opcode, yes, no, k = self.code[at]
            at, steps = at + 1, steps + 1
            if opcode == bpf.RETURN:
                self.longest = max(self.longest, steps)
                return int(k)
            if opcode == bpf.LOAD:
                assert k % 4 == 0 and k < 64
                word = int.from_bytes(data[k : k + 4], "little")
            elif opcode == bpf.AND:
                word &= k
            elif opcode == bpf.JUMP:
                at += k
            else:
                compare = {bpf.IF_EQ: word == k, bpf.IF_GT: word > k, bpf.IF_GE: word >= k}
                at += yes if compare[opcode] else no


def telling_args(rule: Rule) -> Iterator[tuple[int, ...]]:
    """Yield arguments on both sides of every comparison of a rule, and with each half changed."""
    yield (0,) * 6
    yield (ALL_BITS,) * 6
    for clause in rule.clauses:
        base = [0] * 6
        for condition in clause.conditions:
            base[condition.arg] = condition.value or (condition.mask if condition.op is Op.NE else 0)
        yield tuple(base)
        for condition in clause.conditions:
            for changed in (1, -1, 1 << 32, 1 << 63, condition.mask, condition.value):
                args = list(base)
                args[condition.arg] = args[condition.arg] + changed & ALL_BITS
                yield tuple(args)


def numbers_to_try() -> list[int]:
    chance = random.Random(5)
    x32 = [X32, X32 + 1, X32 + 59, *range(X32 + 512, X32 + 548)]
    edges = [2**31 - 1, 2**31, 2**32 - 1]
    return [*range(601), *x32, *edges, *(chance.randrange(2**32) for _ in range(500))]


def assert_agree(table: Table) -> Machine:
    machine = Machine(compile_table(table))
    for nr in numbers_to_try():
        for args in telling_args(table.rules.get(nr, always(0))):
            assert machine.run(nr, args, table.arch.audit) == table.decide(nr, args), (nr, args)
            for audit in {I386, ARM, 0, *(arch.audit for arch in Arch)} - {table.arch.audit}:
                assert machine.run(nr, args, audit) == KILL_PROCESS
    return machine


@pytest.mark.parametrize("refuse_shared_memory", [False, True])
@pytest.mark.parametrize("which", Filter)
def test_x86_64_filters_agree_with_their_tables(which: Filter, refuse_shared_memory: bool) -> None:
    table = table_of(which, Arch.X86_64, refuse_shared_memory=refuse_shared_memory)
    assert_agree(table)
    assert_agree(table.with_notify())


@pytest.mark.parametrize("refuse_shared_memory", [False, True])
@pytest.mark.parametrize("which", Filter)
def test_aarch64_filters_agree_when_interpreted(which: Filter, refuse_shared_memory: bool) -> None:
    table = table_of(which, Arch.AARCH64, refuse_shared_memory=refuse_shared_memory)
    assert_agree(table)
    assert_agree(table.with_notify())


@pytest.mark.parametrize("which", Filter)
def test_compiled_tree_is_shallow(which: Filter) -> None:
    machine = assert_agree(table_of(which, Arch.X86_64))
    assert machine.longest < 40
    assert len(machine.code) < 250


def test_program_x32_call_is_unimplemented() -> None:
    machine = Machine(compile_table(table_of(Filter.PERMISSIVE, Arch.X86_64)))
    for nr in range(X32, X32 + 600):
        assert machine.run(nr, (0,) * 6, Arch.X86_64.audit) == UNIMPLEMENTED


def test_compile_ignores_the_order_of_rules() -> None:
    table = table_of(Filter.STANDARD, Arch.X86_64)
    backwards = Table(table.arch, dict(reversed(list(table.rules.items()))))
    assert compile_table(table) == compile_table(backwards)


def test_compile_long_jump_reaches_target() -> None:
    def busy(nr: int) -> Rule:
        conditions = tuple(Condition(arg, Op.EQ, nr << 33 | arg) for arg in range(6))
        return Rule((Clause(conditions, answer(nr)), Clause(conditions[:1], ALLOW)), answer(4000))

    table = Table(Arch.X86_64, {nr: busy(nr) for nr in range(1, 120)})
    machine = assert_agree(table)
    assert len(machine.code) > 5 * 255


def test_compile_too_long_program_is_refused() -> None:
    conditions = tuple(Condition(arg, Op.EQ, 1) for arg in range(6))
    rules = {nr: Rule((Clause(conditions, answer(nr)),), ALLOW) for nr in range(600)}
    with pytest.raises(ValueError, match=r"needs \d+ instructions, the limit is 4096"):
        compile_table(Table(Arch.X86_64, rules))


words = st.sampled_from([0, 1, 2, 5, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63, ALL_BITS])
plain = st.builds(Condition, st.integers(0, 5), st.sampled_from(Op), words)
masked = st.builds(Condition, st.integers(0, 5), st.sampled_from([Op.EQ, Op.NE]), words, words)
actions = st.sampled_from([ALLOW, KILL_PROCESS, UNIMPLEMENTED, answer(1), answer(4000)])
clauses = st.builds(Clause, st.lists(plain | masked, max_size=4).map(tuple), actions)
rules = st.builds(Rule, st.lists(clauses, max_size=4).map(tuple), actions)
tables = st.builds(
    Table, st.sampled_from(Arch), st.dictionaries(st.integers(0, 40), rules, max_size=25), actions, actions
)


@settings(max_examples=examples(150), deadline=None)
@given(tables, st.lists(st.tuples(*[words] * 6), max_size=5))
def test_compile_any_table_agrees_with_program(table: Table, extra: list[tuple[int, ...]]) -> None:
    machine = Machine(compile_table(table))
    for nr in (*range(43), X32, 2**32 - 1):
        for args in (*telling_args(table.rules.get(nr, always(0))), *extra):
            assert machine.run(nr, args, table.arch.audit) == table.decide(nr, args)
    assert machine.run(1, (0,) * 6, I386) == table.foreign


class ScmpArg(ctypes.Structure):
    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


SCMP_OPS = {Op.NE: 1, Op.LT: 2, Op.LE: 3, Op.EQ: 4, Op.GE: 5, Op.GT: 6}
SCMP_MASKED_EQ = 7


def libseccomp_program(table: Table) -> bytes:
    """Return libseccomp's program for a table in which every clause of a call has the same action."""
    lib = ctypes.CDLL(LIBSECCOMP)
    lib.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(lib.seccomp_init(ctypes.c_uint32(table.unknown)))
    for nr, rule in table.rules.items():
        for clause in (*rule.clauses, *([] if rule.clauses else [Clause((), rule.otherwise)])):
            cases = [scmp_arg(condition) for condition in clause.conditions]
            array = (ScmpArg * len(cases))(*cases)
            assert lib.seccomp_rule_add_array(context, ctypes.c_uint32(clause.action), nr, len(cases), array) == 0
    file = os.memfd_create("bpf")
    try:
        assert lib.seccomp_export_bpf(context, file) == 0
        return os.pread(file, 1 << 20, 0)
    finally:
        os.close(file)
        lib.seccomp_release(context)


def scmp_arg(condition: Condition) -> ScmpArg:
    if condition.mask != ALL_BITS:
        return ScmpArg(condition.arg, SCMP_MASKED_EQ, condition.mask, condition.value)
    return ScmpArg(condition.arg, SCMP_OPS[condition.op], condition.value, 0)


LIBSECCOMP = ctypes.util.find_library("seccomp") or ""


def random_table(chance: random.Random) -> Table:
    """Return a table whose default is ENOSYS. A call is unconditional, tests up to three arguments, or lists values of
    one.

    Alternatives that test different arguments are left out, because libseccomp 2.5.4 never returns for some of them.
    """

    def condition(arg: int) -> Condition:
        value = chance.choice([0, 1, 7, 2**32 - 1, 2**32, 2**32 + 5, 2**63, chance.getrandbits(64)])
        if chance.random() < 0.4:
            mask = chance.choice([1, 0xFF, 2**32 - 1, 2**32 + 1, 0x7E020000])
            return Condition(arg, Op.EQ, value & mask, mask)
        return Condition(arg, chance.choice([Op.EQ, Op.GT, Op.GE]), value)

    def rule() -> Rule:
        action = chance.choice([ALLOW, answer(1), answer(13)])
        if chance.random() < 0.5:
            return always(action)
        arg, args = chance.randrange(6), chance.sample(range(6), chance.randint(1, 3))
        some = [args] if chance.random() < 0.5 else [[arg]] * chance.randint(2, 4)
        return Rule(tuple(Clause(tuple(map(condition, args)), action) for args in some), UNIMPLEMENTED)

    return Table(Arch.X86_64, {nr: rule() for nr in chance.sample(range(330), chance.randint(5, 60))})


@pytest.mark.skipif(not LIBSECCOMP, reason="libseccomp is not installed")
@pytest.mark.parametrize("seed", range(40))
def test_compile_agrees_with_libseccomp(seed: int) -> None:
    chance = random.Random(seed)
    table = random_table(chance)
    ours, theirs = Machine(compile_table(table)), Machine(libseccomp_program(table))
    for nr in range(480):
        rule = table.rules.get(nr, always(0))
        noise = tuple(tuple(chance.getrandbits(64) for _ in range(6)) for _ in range(2))
        for args in (*telling_args(rule), *noise):
            found = ours.run(nr, args, Arch.X86_64.audit), theirs.run(nr, args, Arch.X86_64.audit)
            assert found[0] == found[1], (nr, args, rule)
    assert theirs.run(1, (0,) * 6, I386) == 0, "libseccomp kills the thread where stockade kills the process"
