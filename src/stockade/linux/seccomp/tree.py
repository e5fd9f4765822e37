"""Compile a table to a program: a balanced binary search over ranges of system-call numbers.

While loading, the kernel runs the program once for every number, to learn which calls are always allowed. A chain of
comparisons would cost its length several hundred times over; a tree costs only its depth.
"""

from stockade.linux.seccomp import bpf
from stockade.linux.seccomp.bpf import Graph, Node
from stockade.linux.seccomp.table import LOW_HALF, Condition, Op, Rule, Table, always

# struct seccomp_data: int nr, u32 arch, u64 instruction_pointer, u64 args[6]; both of our
# architectures are little-endian, so the low half of an argument comes first.
_NR = 0
_ARCH = 4
_ARGS = 16

_Span = tuple[int, Node]  # the first number of a range, and where the range goes


def compile_table(table: Table) -> bytes:
    """Return the seccomp program for `table`; equal tables give equal bytes."""
    graph = Graph()
    spans = _spans(graph, table)
    native = graph.load(_NR, _search(graph, spans))
    foreign = graph.returns(table.foreign)
    check = graph.branch(bpf.IF_EQ, table.arch.audit, native, foreign)
    return graph.assemble(graph.load(_ARCH, check))


def _spans(graph: Graph, table: Table) -> list[_Span]:
    """Return all numbers as ranges with one target each, in order, the first from 0."""
    unknown = always(table.unknown)
    edges = {0} | {edge for nr in table.rules for edge in (nr, nr + 1)}
    spans: list[_Span] = []
    for start in sorted(edges):
        target = _rule(graph, table.rules.get(start, unknown))
        if not spans or spans[-1][1] != target:
            spans.append((start, target))
    return spans


def _search(graph: Graph, spans: list[_Span]) -> Node:
    if len(spans) == 1:
        return spans[0][1]
    if len(spans) == 3 and _is_exception(spans):
        (_, around), (number, inside), _ = spans
        return graph.branch(bpf.IF_EQ, number, inside, around)
    middle = len(spans) // 2
    left = _search(graph, spans[:middle])
    right = _search(graph, spans[middle:])
    return graph.branch(bpf.IF_GE, spans[middle][0], right, left)


def _is_exception(spans: list[_Span]) -> bool:
    """Return whether the spans are a single number between two ranges with the same target."""
    (_, before), (number, _), (end, after) = spans
    return before == after and end == number + 1


def _rule(graph: Graph, rule: Rule) -> Node:
    node = graph.returns(rule.otherwise)
    for clause in reversed(rule.clauses):
        matched = graph.returns(clause.action)
        for condition in reversed(clause.conditions):
            matched = _condition(graph, condition, matched, node)
        node = matched
    return node


def _condition(graph: Graph, condition: Condition, yes: Node, no: Node) -> Node:
    match condition.op:
        case Op.EQ:
            return _equal(graph, condition, yes, no)
        case Op.NE:
            return _equal(graph, condition, no, yes)
        case Op.GT:
            return _ordered(graph, condition, bpf.IF_GT, yes, no)
        case Op.GE:
            return _ordered(graph, condition, bpf.IF_GE, yes, no)
        case Op.LE:
            return _ordered(graph, condition, bpf.IF_GT, no, yes)
        case Op.LT:
            return _ordered(graph, condition, bpf.IF_GE, no, yes)


def _equal(graph: Graph, condition: Condition, yes: Node, no: Node) -> Node:
    if condition.value & ~condition.mask:
        return no
    low = _equal_half(graph, condition, 0, yes, no)
    return _equal_half(graph, condition, 32, low, no)


def _equal_half(graph: Graph, condition: Condition, shift: int, yes: Node, no: Node) -> Node:
    """Compare 32 of the 64 bits; a half that the mask leaves out needs no comparison."""
    mask, value = condition.mask >> shift & LOW_HALF, condition.value >> shift & LOW_HALF
    if mask == 0:
        return yes
    node = graph.branch(bpf.IF_EQ, value, yes, no)
    if mask != LOW_HALF:
        node = graph.mask(mask, node)
    return graph.load(_ARGS + 8 * condition.arg + shift // 8, node)


def _ordered(graph: Graph, condition: Condition, code: int, yes: Node, no: Node) -> Node:
    """Compare the high halves; if they are equal, the low halves decide by `code`."""
    offset = _ARGS + 8 * condition.arg
    high, low = condition.value >> 32, condition.value & LOW_HALF
    equal = graph.load(offset, graph.branch(code, low, yes, no))
    not_above = graph.branch(bpf.IF_EQ, high, equal, no)
    return graph.load(offset + 4, graph.branch(bpf.IF_GT, high, yes, not_above))
