"""Weaves expressions. Each node class has one method; a class without one is refused."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from typing import Any

from stockade.embedded.boundary.attributes import CHECKED, GUARDED, KEYED, OWNED
from stockade.embedded.boundary.prices import SMALL_BITS
from stockade.embedded.weave import names
from stockade.embedded.weave.arithmetic import Arithmetic
from stockade.embedded.weave.build import (
    again,
    both,
    call,
    choose,
    constant,
    copied,
    either,
    is_atom,
    is_scalar,
    kind_of,
    load,
    same,
    tick,
    within,
)
from stockade.embedded.weave.scope import CLASS, FUNCTION, Scopes
from stockade.embedded.weave.source import SourceError

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "$eq", ast.NotEq: "$ne", ast.Lt: "$lt", ast.LtE: "$le", ast.Gt: "$gt", ast.GtE: "$ge", ast.In: "$in",
    ast.NotIn: "$notin",
}  # fmt: skip


BUILTIN_TYPES = frozenset({
    "bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "range", "set", "str", "tuple",
})  # fmt: skip


class Expressions:
    """Weaves expressions of one source."""

    def __init__(self) -> None:
        self.scopes = Scopes()
        self.arithmetic = Arithmetic(self.scopes)
        self.symbols: set[str] = set()

    def expr(self, node: ast.expr) -> Any:
        """Return the woven form of an expression."""
        weave = getattr(self, f"_{type(node).__name__}", None)
        if weave is None:
            raise SourceError(f"{_title(node)} is not available in scripts", node.lineno)
        return copied(weave(node), node)

    def optional(self, node: ast.expr | None) -> Any:
        """Return the woven form of an expression that may be missing."""
        return None if node is None else self.expr(node)

    def many(self, nodes: list[Any]) -> list[Any]:
        """Return the woven forms of expressions."""
        return [self.expr(node) for node in nodes]

    def _Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, int) and node.value.bit_length() > SMALL_BITS:
            raise SourceError("an integer this large must be computed", node.lineno)
        return node

    def _Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load):
            names.check_name(node.id, node.lineno)
            if node.id == "super":
                raise SourceError("super must be called where it is named", node.lineno)
        else:
            self.bind(node.id, node.lineno)
        self.symbols.add(node.id)
        return node

    def bind(self, name: str, line: int) -> None:
        """Check a name that is bound here, and note it."""
        names.check_bound(name, line)
        if self.scopes.kind == CLASS:
            names.check_class_name(name, line)
        self.symbols.add(name)
        self.scopes.bound(name)

    def _Attribute(self, node: ast.Attribute) -> ast.expr:
        self.symbols.add(node.attr)
        if not isinstance(node.ctx, ast.Load):
            names.check_stored_attribute(node.attr, node.lineno)
            return ast.Attribute(owner(self.expr(node.value), node.attr), node.attr, node.ctx)
        if names.is_special(node.attr):
            return self._special(node)
        return self.read_attribute(self.receiver(node.value), node.attr)

    @staticmethod
    def read_attribute(value: Any, name: str) -> ast.expr:
        """Return a read of an attribute of a woven value."""
        if name in GUARDED or name in KEYED:
            return call("$bound", value, constant(name))
        if name in CHECKED:
            return call("$attr", value, constant(name))
        return ast.Attribute(value, name, ast.Load())

    def receiver(self, node: ast.expr) -> Any:
        """Return the woven receiver of an attribute; only here can ``super()`` stand."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            if node.keywords or len(node.args) not in (0, 2):
                raise SourceError("super takes no argument, or two", node.lineno)
            return copied(ast.Call(load("super"), self.many(node.args), []), node)
        return self.expr(node)

    def _special(self, node: ast.Attribute) -> ast.expr:
        is_super = (
            isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
        )
        if is_super and node.attr in names.SUPER:
            return call("$super", self.receiver(node.value), constant(node.attr))
        if node.attr == "__class__":
            return call("$class", self.expr(node.value))
        if node.attr in names.READABLE:
            return call("$name", self.expr(node.value), constant(node.attr))
        if node.attr == "__init__":
            return call("$init", self.expr(node.value))
        raise SourceError(f"attribute {node.attr!r} is not available in scripts", node.lineno, "AttributeError")

    def _Call(self, node: ast.Call) -> Any:
        keywords = [self._keyword(each) for each in node.keywords]
        function = node.func
        if isinstance(function, ast.Attribute) and not names.is_special(function.attr):
            self.symbols.add(function.attr)
            value = self.receiver(function.value)
            args = self.many(node.args)
            if function.attr in KEYED and args and not isinstance(args[0], ast.Starred):
                args[0] = self.key(args[0])
            if function.attr in GUARDED and not (function.attr == "pop" and not args and not keywords):
                return ast.Call(load(f"$m_{function.attr}"), [value, *args], keywords)
            if function.attr in CHECKED:
                return ast.Call(call("$attr", value, constant(function.attr)), args, keywords)
            return ast.Call(copied(ast.Attribute(value, function.attr, ast.Load()), function), args, keywords)
        args = self.many(node.args)
        called = ast.Call(self._function(function), args, keywords)
        if isinstance(function, ast.Name) and function.id == "str" and len(args) == 1 and not keywords:
            return self.text_of(args[0], called, same(load("str"), load("$t_str")))
        return called

    def text_of(self, value: Any, guarded: Any, *tests: ast.expr) -> Any:
        """Return the text of ``value``: by CPython for a small integer that has a name, otherwise by ``guarded``."""
        if not isinstance(value, ast.Name):
            return guarded
        is_small = either(*self.scopes.flags(value), both(same(kind_of(value), load("$int")), within(again(value))))
        return choose(both(*tests, is_small), call("$str", again(value)), guarded)

    def _function(self, node: ast.expr) -> Any:
        """Return what is called. A built-in type is called by its guard, without the facade between."""
        woven = self.expr(node)
        if isinstance(woven, ast.Name) and woven.id in BUILTIN_TYPES:
            return choose(same(woven, load(f"$t_{woven.id}")), load(f"$f_{woven.id}"), load(woven.id))
        return woven

    def _keyword(self, node: ast.keyword) -> ast.keyword:
        if node.arg is None:
            return ast.keyword(None, call("$double_star", self.expr(node.value)))
        names.check_bound(node.arg, node.value.lineno)
        self.symbols.add(node.arg)
        return ast.keyword(node.arg, self.expr(node.value))

    def _Starred(self, node: ast.Starred) -> ast.expr:
        if isinstance(node.ctx, ast.Load):
            return ast.Starred(call("$star", self.expr(node.value)), node.ctx)
        return ast.Starred(self.expr(node.value), node.ctx)

    def key(self, woven: Any, guard: str = "$key") -> Any:
        """Return a woven expression whose value is hashed: its hash is paid for, or what ``guard`` pays for."""
        if is_scalar(woven) or isinstance(woven, ast.Compare):
            return woven
        if isinstance(woven, ast.Tuple):
            return (
                ast.Tuple([self.key(each) for each in woven.elts], ast.Load())
                if len(woven.elts) <= 8
                else call("$key", woven)
            )
        if not is_atom(woven) and not self.scopes.holds_temporaries:
            return call(guard, woven)
        first, value = self.scopes.kept(woven)
        tests = same(kind_of(first), load("$int")), same(kind_of(value), load("$str"))
        plain = either(*self.scopes.flags(woven), *tests)
        return choose(plain, again(value), call(guard, again(value)))

    def _BinOp(self, node: ast.BinOp) -> ast.expr:
        flags = self.scopes.flags(node)
        with self.scopes.without_flags() if flags else nullcontext():
            woven = self.arithmetic.binary(node.op, self.expr(node.left), self.expr(node.right))
        return choose(flags[0], node, woven) if flags else woven

    def _UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return self.arithmetic.unary(node, self.expr(node.operand))

    def _BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return ast.BoolOp(node.op, self.many(node.values))

    def _IfExp(self, node: ast.IfExp) -> ast.expr:
        return ast.IfExp(self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def _NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        return ast.NamedExpr(self.expr(node.target), self.expr(node.value))

    def _Compare(self, node: ast.Compare) -> ast.expr:
        parts = [self.expr(node.left), *self.many(node.comparators)]
        plain = sum(not is_scalar(part) for part in parts) <= 1
        is_free = [
            isinstance(op, ast.Is | ast.IsNot) or (plain and not isinstance(op, ast.In | ast.NotIn)) for op in node.ops
        ]
        if all(is_free):
            return ast.Compare(parts[0], node.ops, parts[1:])
        if len(parts) == 2:
            return self._compared(node.ops[0], parts[0], parts[1])
        return self._chained(node.ops, parts, node.lineno)

    def _chained(self, operators: list[ast.cmpop], parts: list[Any], line: int) -> ast.expr:
        """Return a chain of comparisons as a conjunction in which each operand is evaluated once."""
        if not self.scopes.holds_temporaries:
            if self.scopes.kind == CLASS or any(
                isinstance(each, ast.NamedExpr) for part in parts for each in ast.walk(part)
            ):
                raise SourceError("write this chained comparison with 'and'", line)
            left, middle = self.scopes.temporary(), self.scopes.temporary()
            rest = self._linked(operators[1:], [load(middle), *parts[2:]], line)
            body = both(self._compared(operators[0], load(left), load(middle)), rest)
            return ast.Call(ast.Lambda(_parameters(left, middle), body), parts[:2], [])
        return self._linked(operators, parts, line)

    def _linked(self, operators: list[ast.cmpop], parts: list[Any], line: int) -> ast.expr:
        if len(operators) == 1:
            return self._compared(operators[0], parts[0], parts[1])
        if not self.scopes.holds_temporaries:
            return self._chained(operators, parts, line)
        middle = parts[1]
        if is_scalar(middle):
            kept = middle
        else:
            name = self.scopes.temporary()
            middle, kept = ast.NamedExpr(ast.Name(name, ast.Store()), middle), load(name)
        return both(
            self._compared(operators[0], parts[0], middle), self._linked(operators[1:], [kept, *parts[2:]], line)
        )

    def _compared(self, operator: ast.cmpop, left: Any, right: Any) -> ast.expr:
        if isinstance(operator, ast.Is | ast.IsNot):
            return ast.Compare(left, [operator], [right])
        if isinstance(operator, ast.In | ast.NotIn):
            return self._member(operator, left, right)
        if is_scalar(left) or is_scalar(right):
            return ast.Compare(left, [operator], [right])
        guard = _COMPARISONS[type(operator)]
        if not (is_atom(right) and is_atom(left)) and not self.scopes.holds_temporaries:
            return call(guard, left, right)
        first, left_value = self.arithmetic.pinned(left, right)
        if is_atom(right):
            test = either(same(kind_of(first), load("$int")), same(kind_of(again(left_value)), load("$float")))
            return choose(
                test,
                ast.Compare(again(left_value), [operator], [again(right)]),
                call(guard, again(left_value), again(right)),
            )
        second, right_value = self.scopes.kept(right)
        both_kinds = same(kind_of(first), kind_of(second), load("$int"))
        return choose(
            both_kinds,
            ast.Compare(again(left_value), [operator], [again(right_value)]),
            call(guard, again(left_value), again(right_value)),
        )

    def _member(self, operator: ast.cmpop, left: Any, right: Any) -> ast.expr:
        if isinstance(right, ast.Constant) and isinstance(right.value, str | bytes):
            return ast.Compare(left, [operator], [right])
        if isinstance(right, ast.List | ast.Tuple) and all(map(is_scalar, right.elts)):
            return ast.Compare(left, [operator], [right])
        guard = _COMPARISONS[type(operator)]
        if not (is_atom(left) and is_atom(right)):
            return call(guard, left, right)
        hashed = both(
            either(same(kind_of(again(right)), load("$dict")), same(kind_of(again(right)), load("$set"))),
            either(*(same(kind_of(again(left)), load(kind)) for kind in ("$int", "$str")))
            if isinstance(left, ast.Name)
            else constant(True),
        )
        return choose(hashed, ast.Compare(left, [operator], [right]), call(guard, again(left), again(right)))

    def _Lambda(self, node: ast.Lambda) -> ast.expr:
        arguments = self.arguments(node.args)
        self.scopes.enter(FUNCTION)
        body = self.expr(node.body)
        self.scopes.leave()
        return ast.Lambda(arguments, both(tick(), body))

    def arguments(self, node: ast.arguments) -> ast.arguments:
        """Return the parameters of a function: without annotations, with woven defaults."""
        for each in (*node.posonlyargs, *node.args, *node.kwonlyargs, node.vararg, node.kwarg):
            if each is not None:
                names.check_bound(each.arg, each.lineno)
                self.symbols.add(each.arg)
                each.annotation = None
        return ast.arguments(
            posonlyargs=node.posonlyargs, args=node.args, vararg=node.vararg, kwonlyargs=node.kwonlyargs,
            kwarg=node.kwarg,
            kw_defaults=[self.optional(each) for each in node.kw_defaults], defaults=self.many(node.defaults),
        )  # fmt: skip


def owner(value: Any, name: str) -> Any:
    """Return the woven object in which a statement stores an attribute."""
    if name == "args":
        return call("$holder", value)
    return call("$owner", value) if name in OWNED else value


def _parameters(*given: str) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[ast.arg(name) for name in given], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
    )


def _title(node: ast.AST) -> str:
    return {"Await": "'await'", "TemplateStr": "a template string"}.get(type(node).__name__, type(node).__name__)
