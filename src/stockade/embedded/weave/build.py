"""Small constructors of syntax nodes. Guards have names that no source can spell: they begin with ``$``."""

from __future__ import annotations

import ast
from typing import Any

from stockade.embedded.boundary.kinds import INLINE_BITS

SMALL = 1 << INLINE_BITS
"""Woven code multiplies and adds integers below this bound without a guard."""


def load(name: str) -> ast.Name:
    """Return a read of ``name``."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """Return an assignment target."""
    return ast.Name(name, ast.Store())


def constant(value: Any) -> ast.Constant:
    """Return a constant."""
    return ast.Constant(value)


def call(name: str, *args: ast.expr) -> ast.Call:
    """Return a call of the guard ``name``."""
    return ast.Call(load(name), list(args), [])


def kind_of(value: ast.expr) -> ast.Call:
    """Return ``type(value)``."""
    return ast.Call(load("$type"), [value], [])


def same(left: ast.expr, *others: ast.expr) -> ast.Compare:
    """Return ``left is other is ...``."""
    return ast.Compare(left, [ast.Is() for _ in others], list(others))


def within(value: ast.expr) -> ast.expr:
    """Return whether an integer is small. CPython shifts an integer in less time than it needs to compare it twice."""
    is_positive = ast.UnaryOp(ast.Not(), ast.BinOp(value, ast.RShift(), constant(INLINE_BITS)))
    return either(is_positive, ast.Compare(constant(-SMALL), [ast.Lt(), ast.Lt()], [again(value), constant(0)]))


def both(*tests: ast.expr) -> ast.expr:
    """Return the conjunction of ``tests``."""
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), list(tests))


def either(*tests: ast.expr) -> ast.expr:
    """Return the disjunction of ``tests``."""
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), list(tests))


def choose(test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.IfExp:
    """Return ``yes if test else no``."""
    return ast.IfExp(test, yes, no)


def tick() -> ast.Call:
    """Return a call that takes one unit of fuel."""
    return call("$next", load("$units"))


def again(atom: ast.expr) -> ast.expr:
    """Return a second read of a name or a constant."""
    return load(atom.id) if isinstance(atom, ast.Name) else atom


def is_atom(node: ast.expr) -> bool:
    """Return whether reading ``node`` twice is the same as reading it once."""
    return isinstance(node, ast.Name | ast.Constant)


def number(node: ast.expr) -> int | None:
    """Return the value of a constant small integer, with its sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value < 1 << 31:
        return node.value
    return None


def is_scalar(node: ast.expr) -> bool:
    """Return whether ``node`` is a constant: a number, text, or one of the singletons."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return is_scalar(node.operand)
    return isinstance(node, ast.Constant)


def copied(new: Any, old: ast.AST) -> Any:
    """Give ``new`` the place of ``old``. One walk over the whole module gives a place to the nodes below it."""
    return ast.copy_location(new, old)
