"""Weaves arithmetic: an inline test lets small numbers through at full speed, and everything else goes to a guard.

The tests are sound because of two facts. ``$int`` is ``int`` only while no integer above ``prices.SMALL_BITS`` exists
in the runtime; afterwards every test fails. And a sum or product passes its test only if its operands are below
``SMALL``, so a number cannot grow past that size without a guard that prices it and notices.
"""

from __future__ import annotations

import ast
from typing import Any

from stockade.embedded.weave.build import (
    again,
    both,
    call,
    choose,
    either,
    is_atom,
    is_scalar,
    kind_of,
    load,
    number,
    same,
    within,
)
from stockade.embedded.weave.scope import Scopes

GUARDS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow:
    "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.MatMult: "matmul",
}  # fmt: skip
_SHRINKING = (ast.Mod, ast.FloorDiv, ast.Div, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor)


class Arithmetic:
    """Weaves the operators of one source."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes

    def binary(self, operator: ast.operator, left: Any, right: Any, *, in_place: bool = False) -> ast.expr:
        """Return ``left operator right``, of woven operands."""
        constants = number(left) is not None and number(right) is not None
        if constants and isinstance(operator, ast.Add | ast.Sub | ast.Mult):
            return ast.BinOp(left, operator, right)
        if not in_place and self._is_free(operator, left, right):
            return ast.BinOp(left, operator, right)
        guard = ("$i" if in_place else "$") + GUARDS[type(operator)]
        atoms = is_atom(left) and is_atom(right)
        is_repeat = isinstance(operator, ast.Mult) and isinstance(right, ast.Constant) and not _is_real(right)
        if (
            is_repeat
            or isinstance(operator, ast.Pow | ast.LShift | ast.MatMult)
            or not (atoms or self._scopes.holds_temporaries)
        ):
            return call(guard, left, right)
        return self._tested(operator, left, right, guard)

    @staticmethod
    def _is_free(operator: ast.operator, left: Any, right: Any) -> bool:
        """Return whether a constant makes the operation harmless for every type of the other operand."""
        is_float = isinstance(right, ast.Constant) and isinstance(right.value, float)
        if is_float and isinstance(operator, ast.Add | ast.Sub | ast.Mult | ast.Div):
            return True
        return is_float and isinstance(operator, ast.Pow) and not isinstance(left, ast.Constant)

    def _tested(self, operator: ast.operator, left: Any, right: Any, guard: str) -> ast.expr:
        first, left_value = self.pinned(left, right)
        if is_atom(right) or number(right) is not None:
            second, right_value = right, right
        else:
            second, right_value = self._scopes.kept(right)
        plain = ast.BinOp(again(left_value), operator, again(right_value))
        fallback = call(guard, again(left_value), again(right_value))
        test = self._test(operator, first, left_value, second, right_value)
        return choose(test, plain, fallback)

    def pinned(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Keep ``left`` if the evaluation of ``right`` could rebind its name."""
        if isinstance(left, ast.Name) and not is_atom(right) and number(right) is None:
            name = self._scopes.temporary()
            return ast.NamedExpr(ast.Name(name, ast.Store()), left), load(name)
        return self._scopes.kept(left)

    def _test(self, operator: ast.operator, first: Any, left: Any, second: Any, right: Any) -> ast.expr:
        amount = number(right)
        is_square = isinstance(left, ast.Name) and isinstance(right, ast.Name) and left.id == right.id
        kinds: ast.expr
        if second is not right:
            kinds = same(kind_of(first), kind_of(second), load("$int"))
        elif isinstance(operator, ast.Mult) and isinstance(right, ast.Name) and not is_square:
            kinds = both(same(kind_of(first), load("$int")), same(kind_of(again(right)), load("$int")))
        else:
            kinds = same(kind_of(first), load("$int"))
        if isinstance(operator, _SHRINKING) or (isinstance(operator, ast.Add | ast.Sub) and amount is not None):
            whole: ast.expr = kinds
        elif isinstance(operator, ast.Mult):
            others = [] if is_square or amount is not None else [within(again(right))]
            whole = both(kinds, within(again(left)), *others)
        else:
            whole = both(kinds, either(*self._scopes.flags(right), within(again(left))))
        if isinstance(operator, ast.RShift | ast.BitAnd | ast.BitOr | ast.BitXor):
            return whole
        return either(whole, same(kind_of(again(left)), load("$float")))

    def unary(self, node: ast.UnaryOp, operand: Any) -> ast.expr:
        """Return a prefix operator with a woven operand."""
        if isinstance(node.op, ast.Not) or is_scalar(operand):
            return ast.UnaryOp(node.op, operand)
        guard = {ast.USub: "$neg", ast.UAdd: "$pos", ast.Invert: "$inv"}[type(node.op)]
        if not is_atom(operand) and not self._scopes.holds_temporaries:
            return call(guard, operand)
        first, value = self._scopes.kept(operand)
        test = either(same(kind_of(first), load("$int")), same(kind_of(again(value)), load("$float")))
        return choose(test, ast.UnaryOp(node.op, again(value)), call(guard, again(value)))


def _is_real(node: ast.Constant) -> bool:
    return isinstance(node.value, int | float)
