"""A table written as a profile, and read back, allows the same calls."""

import json
import random

import pytest

from stockade.linux.seccomp import Arch, Filter, filters, load_profile
from stockade.linux.seccomp.docker_profile import allowed, dump_profile
from stockade.linux.seccomp.table import ALLOW, PASSING, REFUSE, Clause, Condition, Op, Rule, bits, low, refuse_if

# Values at which some rule changes its answer, and the same with a high bit that the kernel ignores.
EDGES = (0, 1, 2, 3, 4, 5, 10, 16, 37, 38, 0x20, 0o100, 0o2000, 0o4000, 8192, 21522, 21532, 24576, 0x4_0000, 0x1_0000)
VALUES = (*EDGES, 0xFFFF_FFFF, 0x7E02_0000, 1 << 32, (1 << 32) | 1, (1 << 32) | 21522, (1 << 64) - 1)
SAMPLES = 200


def standard(which: Filter, arch: Arch):
    return filters.for_profile(
        filters.without_uncounted_memory(filters.without_unix_sockets(filters.table_of(which, arch)))
    )


@pytest.mark.parametrize("which", Filter)
@pytest.mark.parametrize("arch", Arch)
def test_profile_allows_what_its_table_allows(which: Filter, arch: Arch) -> None:
    table = standard(which, arch)
    back = load_profile(dump_profile(table), arch, added_to=None, kernel=(6, 18))
    chosen = random.Random(7)
    for number, rule in table.rules.items():
        for _ in range(SAMPLES if rule.clauses else 1):
            args = tuple(chosen.choice(VALUES) for _ in range(6))
            assert (rule.decide(args) in PASSING) == (back.decide(number, args) in PASSING), (number, args)


def test_all_but_one_value_is_a_box_for_each_bit() -> None:
    boxes = allowed(refuse_if((bits(0, 0b11, 0b10),)))
    assert boxes == [{0: (0b10, 0b00)}, {0: (0b11, 0b11)}]


def test_clause_after_a_refusal_keeps_it() -> None:
    rule = Rule((Clause((low(0, 1), low(1, 2)), REFUSE), Clause((low(0, 1),), ALLOW)), REFUSE)
    assert all(box[0] == (0xFFFF_FFFF, 1) for box in allowed(rule))
    assert len(allowed(rule)) == 32


@pytest.mark.parametrize("op", [Op.LT, Op.LE, Op.GT, Op.GE])
def test_order_of_values_is_exact(op: Op) -> None:
    for value in (0, 5, 1024, (1 << 32) + 7, (1 << 64) - 1):
        rule = Rule((Clause((Condition(0, op, value),), ALLOW),), REFUSE)
        for number in {max(0, value - 1), value, min(value + 1, (1 << 64) - 1), 0, 1 << 63}:
            inside = any(
                number & mask == wanted for ((mask, wanted),) in (tuple(box.values()) for box in allowed(rule))
            )
            assert inside == (rule.decide((number, 0, 0, 0, 0, 0)) == ALLOW), (op, value, number)


def test_profile_stays_small_enough_for_the_kernel() -> None:
    profile = json.loads(dump_profile(standard(Filter.STANDARD, Arch.X86_64)))
    assert len(profile["syscalls"]) < 450  # about eight steps each, of 4,096
