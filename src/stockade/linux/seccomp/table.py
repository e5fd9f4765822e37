"""A filter as data: the answer to each system call with its arguments.

A `Table` defines the meaning of a filter. The BPF bytes built from it (`tree.py`) must agree with `Table.decide` for
every input, and tests check this.
"""

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum

from stockade.core.dataclass import dataclass
from stockade.linux.seccomp.syscalls import Arch

ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF
LOW_HALF = 0xFFFF_FFFF

# An action is the 32-bit value that a seccomp program returns (linux/seccomp.h).
KILL_PROCESS = 0x8000_0000
KILL_THREAD = 0x0000_0000
TRAP = 0x0003_0000
ERRNO = 0x0005_0000
NOTIFY = 0x7FC0_0000
LOG = 0x7FFC_0000
ALLOW = 0x7FFF_0000
PASSING = (ALLOW, LOG)

MAX_ERRNO = 4095


def answer(code: int) -> int:
    """Return the action that makes a system call fail with errno `code`, without running it."""
    if not 0 <= code <= MAX_ERRNO:
        raise ValueError(f"errno {code} is outside 0..{MAX_ERRNO}")
    return ERRNO | code


REFUSE = answer(errno.EPERM)
UNIMPLEMENTED = answer(errno.ENOSYS)


class Op(StrEnum):
    """The comparison of an argument, always as an unsigned 64-bit number."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


_COMPARE: Mapping[Op, Callable[[int, int], bool]] = {
    Op.EQ: lambda a, b: a == b,
    Op.NE: lambda a, b: a != b,
    Op.LT: lambda a, b: a < b,
    Op.LE: lambda a, b: a <= b,
    Op.GT: lambda a, b: a > b,
    Op.GE: lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Condition:
    """True if ``(argument & mask) op value``; only EQ and NE take a mask."""

    arg: int
    op: Op
    value: int
    mask: int = ALL_BITS

    def __post_init__(self) -> None:
        """Reject values that no program can compare."""
        if not 0 <= self.arg <= 5:
            raise ValueError(f"a system call has arguments 0 to 5, not {self.arg}")
        if not (0 <= self.value <= ALL_BITS and 0 <= self.mask <= ALL_BITS):
            raise ValueError(f"value and mask must be unsigned 64-bit numbers: {self}")
        if self.mask != ALL_BITS and self.op not in (Op.EQ, Op.NE):
            raise ValueError(f"only == and != take a mask: {self}")

    def holds(self, args: Sequence[int]) -> bool:
        """Return whether the condition holds for these six arguments."""
        return _COMPARE[self.op](args[self.arg] & self.mask, self.value)


def low(arg: int, value: int) -> Condition:
    """Return a condition: the low 32 bits, which are all that the kernel sees of an ``int`` argument, equal `value`."""
    return Condition(arg, Op.EQ, value, LOW_HALF)


def bits(arg: int, mask: int, value: int) -> Condition:
    """Return a condition: the bits under `mask` equal `value`."""
    return Condition(arg, Op.EQ, value, mask)


def any_bit(arg: int, mask: int) -> Condition:
    """Return a condition: at least one of the bits under `mask` is set."""
    return Condition(arg, Op.NE, 0, mask)


@dataclass(frozen=True)
class Clause:
    """Conditions and an action: the action is taken if every condition holds."""

    conditions: tuple[Condition, ...]
    action: int


@dataclass(frozen=True)
class Rule:
    """Clauses in order. The first clause that holds decides; `otherwise` applies if none holds."""

    clauses: tuple[Clause, ...]
    otherwise: int

    def decide(self, args: Sequence[int]) -> int:
        """Return the action for these six arguments."""
        for clause in self.clauses:
            if all(condition.holds(args) for condition in clause.conditions):
                return clause.action
        return self.otherwise

    def map(self, change: Callable[[int], int]) -> "Rule":
        """Return the same rule with every action changed."""
        clauses = tuple(replace(c, action=change(c.action)) for c in self.clauses)
        return Rule(clauses, change(self.otherwise))

    def narrowed_by(self, other: "Rule") -> "Rule":
        """Return a rule that asks this rule first and, if it allows the call, lets `other` decide."""
        whole = (*self.clauses, Clause((), self.otherwise))
        clauses = tuple(part for clause in whole for part in _narrow(clause, other))
        return Rule(clauses[:-1], clauses[-1].action)

    def widened_by(self, other: "Rule") -> "Rule":
        """Return a rule that asks this rule first and, if it refuses the call, allows what `other` allows."""
        whole = (*self.clauses, Clause((), self.otherwise))
        clauses = tuple(part for clause in whole for part in _widen(clause, other))
        return Rule(clauses[:-1], clauses[-1].action)

    @property
    def actions(self) -> frozenset[int]:
        """Return every action that the rule may take. A clause without a condition hides all later ones."""
        found = []
        for clause in (*self.clauses, Clause((), self.otherwise)):
            found.append(clause.action)
            if not clause.conditions:
                break
        return frozenset(found)


def _narrow(clause: Clause, other: Rule) -> tuple[Clause, ...]:
    if clause.action != ALLOW:
        return (clause,)
    inner = (*other.clauses, Clause((), other.otherwise))
    return tuple(Clause(clause.conditions + c.conditions, c.action) for c in inner)


def _widen(clause: Clause, other: Rule) -> tuple[Clause, ...]:
    if clause.action in PASSING or not other.actions & set(PASSING):
        return (clause,)
    inner = (*other.clauses, Clause((), other.otherwise))
    return tuple(
        Clause(clause.conditions + c.conditions, c.action if c.action in PASSING else clause.action) for c in inner
    )


def always(action: int) -> Rule:
    """Return a rule that ignores the arguments."""
    return Rule((), action)


def allow_if(*alternatives: tuple[Condition, ...], otherwise: int = REFUSE) -> Rule:
    """Return a rule that allows a call if every condition of one alternative holds."""
    return Rule(tuple(Clause(conditions, ALLOW) for conditions in alternatives), otherwise)


def refuse_if(*alternatives: tuple[Condition, ...], action: int = REFUSE) -> Rule:
    """Return a rule that refuses a call if every condition of one alternative holds."""
    return Rule(tuple(Clause(conditions, action) for conditions in alternatives), ALLOW)


@dataclass(frozen=True)
class Table:
    """All decisions of one filter on one architecture.

    `rules` has the numbers with an explicit decision. Any other number gets `unknown`, which covers new system calls
    and the x32 range. A call through another architecture's entry (``int 0x80`` on x86_64) gets `foreign`, because its
    numbers mean different calls.
    """

    arch: Arch
    rules: Mapping[int, Rule] = field(hash=False)
    unknown: int = UNIMPLEMENTED
    foreign: int = KILL_PROCESS

    def decide(self, nr: int, args: Sequence[int] = (0,) * 6, audit: int | None = None) -> int:
        """Return the action for one call: `nr` as unsigned 32 bits, six unsigned 64-bit arguments."""
        if audit is not None and audit != self.arch.audit:
            return self.foreign
        rule = self.rules.get(nr)
        return self.unknown if rule is None else rule.decide(args)

    def map(self, change: Callable[[int], int]) -> "Table":
        """Return the same table with every action changed, including those of unknown and foreign calls."""
        rules = {nr: rule.map(change) for nr, rule in self.rules.items()}
        return Table(self.arch, rules, change(self.unknown), change(self.foreign))

    def refusals(self) -> dict[int, int]:
        """Return the errno of each refused call, by number. If it depends on the arguments, the lowest one counts.

        ENOSYS does not count as a refusal: programs assume that the call is missing, and use another.
        """
        found = {nr: [a - ERRNO for a in rule.actions if _refuses(a)] for nr, rule in self.rules.items()}
        return {nr: min(codes) for nr, codes in found.items() if codes}

    def with_notify(self) -> "Table":
        """Return a table that asks a supervisor about each call of `refusals`, so that the supervisor can name and
        refuse it.
        """
        codes = self.refusals()
        rules = {nr: rule.map(_asking(codes[nr])) if nr in codes else rule for nr, rule in self.rules.items()}
        return replace(self, rules=rules)

    def widened_by(self, other: "Table") -> "Table":
        """Return a table that allows what either table allows. If both refuse, this table's answer stands."""
        rules = {nr: rule.widened_by(other.rules.get(nr, always(other.unknown))) for nr, rule in self.rules.items()}
        return replace(self, rules=rules)

    def narrowed_by(self, other: "Table") -> "Table":
        """Return a table that allows only what both tables allow. If this table refuses, its answer stands."""
        if other.arch != self.arch:
            raise ValueError(f"cannot combine a table for {self.arch} with one for {other.arch}")
        rules = {nr: rule.narrowed_by(other.rules.get(nr, always(other.unknown))) for nr, rule in self.rules.items()}
        unknown = other.unknown if self.unknown == ALLOW else self.unknown
        return replace(self, rules=rules, unknown=unknown)


def _refuses(action: int) -> bool:
    return ERRNO < action <= ERRNO | MAX_ERRNO and action != UNIMPLEMENTED


def _asking(code: int) -> Callable[[int], int]:
    return lambda action: NOTIFY if action == answer(code) else action
