"""Finds variables whose values need no test of their own: elements of a range, arithmetic with them, and texts.

If one loop alone binds a name in its function, then in the body of that loop the name stands for an element of the
loop's source. Woven code looks at the source once. A flag then says whether it is a range of small integers.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import NamedTuple

from stockade.embedded.weave.build import number

MOST_BITS = 256
"""Arithmetic with integers of this size has no price, and no guard looks at its results."""


class Small(NamedTuple):
    """An expression is an integer of at most ``bits`` bits if all ``flags`` are true."""

    flags: frozenset[str]
    bits: int


def is_range(node: ast.expr) -> bool:
    """Return whether ``node`` is a call of the name ``range``, which need not be the built-in type."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def bindings(node: ast.AST) -> Counter[str]:
    """Return how many places can bind each name, in ``node`` and all functions inside it.

    Every text of a node counts, except those that are read. So a new kind of statement cannot bind a name unseen.
    """
    found: Counter[str] = Counter()
    for each in ast.walk(node):
        is_read = isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
        if is_read or isinstance(each, ast.Attribute | ast.keyword | ast.Constant):
            continue
        for _, value in ast.iter_fields(each):
            found.update(text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))
    return found


def bindings_to_text(node: ast.AST) -> Counter[str]:
    """Return how many statements in ``node`` bind each name to a literal text, or extend it by one."""
    found: Counter[str] = Counter()
    for each in ast.walk(node):
        if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add):
            target: ast.expr = each.target
        elif isinstance(each, ast.Assign) and len(each.targets) == 1:
            target = each.targets[0]
        else:
            continue
        if isinstance(target, ast.Name) and is_text(each.value):
            found[target.id] += 1
    return found


def is_text(node: ast.expr) -> bool:
    """Return whether ``node`` is a literal text, with fields or without."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def small(node: ast.expr, known: dict[str, Small]) -> Small | None:
    """Return what is known of the size of an expression, or None."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    value = number(node)
    if value is not None:
        return Small(frozenset(), value.bit_length())
    if not known or not isinstance(node, ast.BinOp) or not isinstance(node.op, _KNOWN):
        return None
    left, right = small(node.left, known), small(node.right, known)
    if left is None or right is None:
        return None
    bits = left.bits + right.bits if isinstance(node.op, ast.Mult) else max(left.bits, right.bits) + 1
    return Small(left.flags | right.flags, bits) if bits <= MOST_BITS else None


_KNOWN = (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.FloorDiv)
