"""Write a table as a profile in Docker's JSON format, for an engine that loads it.

Such a profile is a list of what is allowed, and each entry compares an argument with one value under one mask. A table
decides by the first clause that holds, and can say "all but". So each rule is turned into a union of *boxes*: one value
under one mask for each argument. Everything outside of them gets one errno, whatever the table's own answer is.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stockade.linux.seccomp import syscalls
from stockade.linux.seccomp.syscalls import Arch
from stockade.linux.seccomp.table import ALL_BITS, ERRNO, MAX_ERRNO, PASSING, Clause, Condition, Op, Rule, Table

Box = Mapping[int, tuple[int, int]]
"""A mask and a value for each argument that is compared."""
_ARCHES = {Arch.X86_64: "SCMP_ARCH_X86_64", Arch.AARCH64: "SCMP_ARCH_AARCH64"}
_EPERM = 1
_OR_EQUAL = (Op.GE, Op.LE)


def dump_profile(table: Table) -> str:
    """Return the profile as JSON. It allows the calls that ``table`` allows; a refused call may have another errno."""
    names = syscalls.names(table.arch)
    plain: dict[int, list[str]] = {}
    entries: list[dict[str, Any]] = []
    for number, rule in sorted(table.rules.items()):
        actions = rule.actions
        if len(actions) == 1:
            plain.setdefault(next(iter(actions)), []).append(names[number])
            continue
        entries += (
            {"names": [names[number]], "action": "SCMP_ACT_ALLOW", "args": [*map(_argument, sorted(box.items()))]}
            for box in allowed(rule)
        )
    whole = [{"names": found, **_action(action)} for action, found in sorted(plain.items())]
    return json.dumps(
        {"defaultAction": "SCMP_ACT_ERRNO", "architectures": [_ARCHES[table.arch]], "syscalls": [*whole, *entries]},
        separators=(",", ":"),
    )


def allowed(rule: Rule) -> list[Box]:
    """Return boxes without overlap in what they are for: exactly the arguments that ``rule`` allows."""
    found: list[Box] = []
    left: list[Box] = [{}]  # what no clause before has decided
    for clause in (*rule.clauses, Clause((), rule.otherwise)):
        if clause.action in PASSING:
            found += (each for box in left for each in _within(box, clause.conditions))
        left = [each for box in left for each in _outside(box, clause.conditions)]
    return list({tuple(sorted(box.items())): box for box in found}.values())


def _within(box: Box, conditions: tuple[Condition, ...]) -> Iterator[Box]:
    """Yield the part of ``box`` where all conditions hold."""
    if not conditions:
        yield box
        return
    first, *others = conditions
    for part in _parts(first, holds=True):
        both = _both(box, first.arg, part)
        if both is not None:
            yield from _within(both, tuple(others))


def _outside(box: Box, conditions: tuple[Condition, ...]) -> Iterator[Box]:
    """Yield the part of ``box`` where one of the conditions does not hold, each piece once."""
    for place, condition in enumerate(conditions):
        for before in _within(box, conditions[:place]):
            for part in _parts(condition, holds=False):
                both = _both(before, condition.arg, part)
                if both is not None:
                    yield both


def _parts(condition: Condition, *, holds: bool) -> list[tuple[int, int]]:
    """Return masks and values that together say whether the condition holds."""
    mask, value = condition.mask, condition.value
    if condition.op not in (Op.EQ, Op.NE):
        return _ordered(
            value, above=(condition.op in (Op.GT, Op.GE)) == holds, equal=(condition.op in _OR_EQUAL) == holds
        )
    if (condition.op is Op.EQ) == holds:
        return [(mask, value)] if not value & ~mask else []
    parts, above = [], 0
    for bit in (1 << number for number in reversed(range(64))):
        if mask & bit:  # equal above this bit, and different in it
            parts.append((above | bit, (value & above) | (~value & bit)))
            above |= bit
    return parts


def _ordered(value: int, *, above: bool, equal: bool) -> list[tuple[int, int]]:
    """Return masks and values for all numbers above ``value``, or all below it, and ``value`` itself if ``equal``."""
    parts, higher = [(ALL_BITS, value)] if equal else [], 0
    for bit in (1 << number for number in reversed(range(64))):
        if bool(value & bit) is not above:  # equal in all higher bits, and different in this one
            parts.append((higher | bit, (value & higher) | (bit if above else 0)))
        higher |= bit
    return parts


def _both(box: Box, arg: int, part: tuple[int, int]) -> Box | None:
    """Return the part of ``box`` where the argument also has this value under this mask, or ``None``."""
    mask, value = box.get(arg, (0, 0))
    if (value ^ part[1]) & mask & part[0]:
        return None
    return {**box, arg: (mask | part[0], value | part[1])}


def _argument(item: tuple[int, tuple[int, int]]) -> dict[str, Any]:
    arg, (mask, value) = item
    if mask == ALL_BITS:
        return {"index": arg, "value": value, "op": "SCMP_CMP_EQ"}
    return {"index": arg, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _action(action: int) -> dict[str, Any]:
    if action in PASSING:
        return {"action": "SCMP_ACT_ALLOW"}
    code = action - ERRNO if ERRNO < action <= ERRNO | MAX_ERRNO else _EPERM
    return {"action": "SCMP_ACT_ERRNO", "errnoRet": code}
