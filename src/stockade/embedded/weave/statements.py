"""Weaves statements: each node class has one method; a class without one is refused."""

from __future__ import annotations

import ast
from typing import Any

from stockade.embedded.boundary.prices import STATEMENT
from stockade.embedded.weave import names
from stockade.embedded.weave.build import (
    again,
    both,
    call,
    choose,
    constant,
    copied,
    either,
    is_atom,
    kind_of,
    load,
    number,
    same,
    store,
    tick,
    within,
)
from stockade.embedded.weave.definitions import Definitions
from stockade.embedded.weave.expressions import owner
from stockade.embedded.weave.scope import CLASS, FUNCTION, MODULE
from stockade.embedded.weave.small import is_range
from stockade.embedded.weave.source import SourceError

_COUNTED = (
    ast.Call,
    ast.BinOp,
    ast.Compare,
    ast.Subscript,
    ast.Attribute,
    ast.BoolOp,
    ast.Dict,
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Lambda,
    ast.FormattedValue,
)
_PARTS = {ast.Call: "args", ast.Dict: "keys", ast.List: "elts", ast.Tuple: "elts", ast.Set: "elts"}
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Statements(Definitions):
    """Weaves the statements of one source."""

    def block(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """Return the woven forms of statements, with a tick for each run of them that has no other."""
        woven: list[ast.stmt] = []
        owed = 0
        with self.scopes.block():
            for node in nodes:
                owed += 1 + _operations(node)
                if owed > STATEMENT:
                    units = owed // STATEMENT
                    owed %= STATEMENT
                    paid = tick() if units == 1 else call("$charge", constant(units))
                    woven.append(copied(ast.Expr(paid), node))
                woven += self.stmt(node)
                self.scopes.note(node)
        return woven

    def stmt(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the woven form of a statement."""
        weave = getattr(self, f"_{type(node).__name__}", None)
        if weave is None:
            raise SourceError(f"{type(node).__name__} is not available in scripts", node.lineno)
        woven = weave(node)
        return [copied(each, node) for each in (woven if isinstance(woven, list) else [woven])]

    def _Expr(self, node: ast.Expr) -> Any:
        return ast.Expr(self.expr(node.value))

    def _Pass(self, node: ast.Pass) -> Any:
        return node

    _Break = _Continue = _Pass

    def _Return(self, node: ast.Return) -> Any:
        return ast.Return(self.optional(node.value))

    def _Raise(self, node: ast.Raise) -> Any:
        return ast.Raise(self.optional(node.exc), self.optional(node.cause))

    def _Assert(self, node: ast.Assert) -> Any:
        return ast.Assert(self.expr(node.test), self.optional(node.msg))

    def _Global(self, node: ast.Global | ast.Nonlocal) -> Any:
        for name in node.names:
            names.check_bound(name, node.lineno)
            self.symbols.add(name)
        return ast.Pass() if self.scopes.kind == MODULE else node

    _Nonlocal = _Global

    def _Assign(self, node: ast.Assign) -> Any:
        value = self.expr(node.value)
        if len(node.targets) == 1:
            return self.assigned(node.targets[0], value)
        name = self._kept_name(node.lineno)
        following = [each for target in node.targets for each in self.assigned(target, load(name))]
        return [ast.Assign([store(name)], value), *following]

    def _kept_name(self, line: int) -> str:
        if not self.scopes.holds_temporaries:
            raise SourceError("this assignment is not available in a class body", line)
        return self.scopes.temporary()

    def assigned(self, target: ast.expr, value: Any) -> list[ast.stmt]:
        """Return statements that assign a woven ``value`` to ``target``."""
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
            if isinstance(value, ast.Constant):
                return [ast.Expr(call("$setslice", self.expr(target.value), self.expr(target.slice), value))]
            name = self._kept_name(target.lineno)
            stored = call("$setslice", self.expr(target.value), self.expr(target.slice), load(name))
            return [ast.Assign([store(name)], value), ast.Expr(stored)]
        if self.scopes.kind == CLASS:
            self.in_class_body(target, value)
        stars = [each for each in ast.walk(target) if isinstance(each, ast.Starred)]
        if stars:
            if len(stars) > 1 or not isinstance(target, ast.Tuple | ast.List) or stars[0] not in target.elts:
                raise SourceError("a nested starred target is not available in scripts", target.lineno)
            value = call("$star", value)
        return [ast.Assign([self.target(target)], value)]

    def target(self, node: ast.expr) -> Any:
        """Return a woven target: a name, an attribute, a subscript, or several of them."""
        if isinstance(node, ast.Tuple | ast.List):
            return copied(type(node)([self.target(each) for each in node.elts], ast.Store()), node)
        if isinstance(node, ast.Name) and self.scopes.kind == CLASS and node.id in names.ASSIGNED_IN_CLASS:
            return node
        return self.expr(node)

    def _AnnAssign(self, node: ast.AnnAssign) -> Any:
        annotation = constant(ast.unparse(node.annotation))
        if self.scopes.kind == CLASS and isinstance(node.target, ast.Name):
            self.bind(node.target.id, node.lineno)
            return ast.AnnAssign(node.target, annotation, self.optional(node.value), 1)
        if node.value is None:
            return ast.Pass()
        return self.assigned(node.target, self.expr(node.value))

    def _AugAssign(self, node: ast.AugAssign) -> Any:
        target, line = node.target, node.lineno
        if isinstance(target, ast.Name):
            read: ast.expr = ast.Name(target.id, ast.Load())
            names.check_name(target.id, line)
            stored_name = self.expr(target)
            if isinstance(node.op, ast.Add) and self.scopes.kind == FUNCTION:
                return self._appended(node, stored_name)
            return ast.Assign([stored_name], self._augmented(node, read))
        if not self.scopes.holds_temporaries:
            raise SourceError("this assignment is not available in a class body", line)
        if isinstance(target, ast.Attribute):
            names.check_stored_attribute(target.attr, line)
            before, place = self._held(target.value, node.value)
            self.symbols.add(target.attr)
            read = self.read_attribute(load(place), target.attr)
            stored: ast.expr = ast.Attribute(owner(load(place), target.attr), target.attr, ast.Store())
        elif isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
            before, place = self._held(target.value, node.value)
            index = self.scopes.temporary()
            before.append(ast.Assign([store(index)], self.place(target.slice)))
            read = ast.Subscript(load(place), load(index), ast.Load())
            stored = ast.Subscript(load(place), load(index), ast.Store())
        else:
            raise SourceError("an augmented slice is not available in scripts", line)
        return [*before, ast.Assign([stored], self._augmented(node, read))]

    def _appended(self, node: ast.AugAssign, target: ast.Name) -> Any:
        """Return ``name += value`` such that CPython can extend a text in place: nothing else may refer to it.

        The old value is kept while ``value`` is evaluated, because that can bind the name to another.
        """
        value = self.expr(node.value)
        before: list[ast.stmt] = []
        old = target.id
        if self.scopes.is_always_text(old):
            if not is_atom(value):
                item = self.scopes.temporary()
                before, value = [ast.Assign([store(item)], value)], load(item)
            return [
                *before,
                *_grown(old, value, self.scopes.temporary()),
                ast.AugAssign(store(old), ast.Add(), again(value)),
            ]
        if number(value) is not None or (isinstance(value, ast.Constant) and not isinstance(value.value, str)):
            return ast.Assign([target], copied(self.arithmetic.binary(node.op, load(old), value, in_place=True), node))
        unchanged: list[ast.expr] = []
        forget: list[ast.stmt] = []
        if not is_atom(value):
            old, item = self.scopes.temporary(), self.scopes.temporary()
            before = [ast.Assign([store(old)], load(target.id)), ast.Assign([store(item)], value)]
            value, unchanged = load(item), [same(load(old), load(target.id))]
            forget = [ast.Assign([store(old)], constant(None))]
        is_text = both(same(kind_of(load(old)), load("$str")), *unchanged)
        extended = [
            *forget,
            *_grown(target.id, value, self.scopes.temporary()),
            ast.AugAssign(store(target.id), ast.Add(), again(value)),
        ]
        plain = copied(ast.BinOp(load(old), ast.Add(), again(value)), node)
        guarded = copied(call("$iadd", load(old), again(value)), node)
        if isinstance(value, ast.Constant):
            return [*before, ast.If(is_text, extended, [ast.Assign([store(target.id)], guarded)])]
        is_small = either(*self.scopes.flags(node.value), within(load(old)))
        is_integer = both(same(kind_of(load(old)), load("$int")), is_small)
        other = choose(same(kind_of(load(old)), load("$float")), plain, guarded)
        return [
            *before,
            ast.If(
                is_integer,
                [ast.Assign([store(target.id)], plain)],
                [ast.If(is_text, extended, [ast.Assign([store(target.id)], other)])],
            ),
        ]

    def _held(self, owner: ast.expr, value: ast.expr) -> tuple[list[ast.stmt], str]:
        if isinstance(owner, ast.Name) and isinstance(value, ast.Constant):
            self.expr(owner)
            return [], owner.id
        name = self.scopes.temporary()
        return [ast.Assign([store(name)], self.expr(owner))], name

    def _augmented(self, node: ast.AugAssign, read: ast.expr) -> ast.expr:
        woven: ast.expr = copied(self.arithmetic.binary(node.op, read, self.expr(node.value), in_place=True), node)
        return woven

    def _Delete(self, node: ast.Delete) -> Any:
        found: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
                found.append(ast.Expr(call("$delslice", self.expr(target.value), self.expr(target.slice))))
            elif isinstance(target, ast.Tuple | ast.List):
                raise SourceError("delete one target after another", node.lineno)
            else:
                found.append(ast.Delete([self.expr(target)]))
        return found

    def _If(self, node: ast.If) -> Any:
        return ast.If(self.expr(node.test), self.block(node.body), self.block(node.orelse))

    def _For(self, node: ast.For) -> Any:
        source = self.expr(node.iter)
        before: list[ast.stmt] = []
        with self.scopes.block():
            if is_range(node.iter) and self.scopes.is_bound_once(node.target):
                before, source = _looked_at(source, self.scopes.temporary(), self.scopes.flag(node.target))
            body = self.block(node.body)
        if any(isinstance(each, ast.Starred) for each in ast.walk(node.target)):
            name = self._kept_name(node.lineno)
            body = [copied(each, node.target) for each in self.assigned(node.target, load(name))] + body
            target: ast.expr = store(name)
        else:
            target = self.target(node.target)
        metered = copied(call("$compress", source, load("$units")), node.iter)
        orelse = self.block(node.orelse)
        return [*before, ast.For(copied(target, node.target), metered, body, orelse, lineno=node.lineno)]

    def _While(self, node: ast.While) -> Any:
        test, body = self.expr(node.test), self.block(node.body)
        if node.orelse or not self.scopes.holds_temporaries:
            ticked = ast.BoolOp(ast.And(), [tick(), test])
            return ast.While(ticked, body, self.block(node.orelse))
        if not (isinstance(node.test, ast.Constant) and node.test.value is True):
            body = [copied(ast.If(ast.UnaryOp(ast.Not(), test), [ast.Break()], []), node.test), *body]
        return ast.For(store(self.scopes.temporary()), load("$units"), body, [], lineno=node.lineno)

    def _With(self, node: ast.With) -> Any:
        items = []
        for item in node.items:
            target = item.optional_vars
            if target is not None and any(isinstance(each, ast.Starred) for each in ast.walk(target)):
                raise SourceError("a starred target is not available in 'with'", node.lineno)
            entered = call("$context", self.expr(item.context_expr))
            items.append(ast.withitem(entered, None if target is None else self.target(target)))
        return ast.With(items, self.block(node.body))

    def _Try(self, node: ast.Try) -> Any:
        final = [copied(ast.Expr(call("$caught")), node), *self.block(node.finalbody)] if node.finalbody else []
        handlers = [self._handler(each) for each in node.handlers]
        return ast.Try(self.block(node.body), handlers, self.block(node.orelse), final)

    def _handler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        if node.name is not None:
            self.bind(node.name, node.lineno)
        body = [copied(ast.Expr(call("$caught")), node), *self.block(node.body)]
        kinds = None if node.type is None else ast.Call(call("$handling"), [self.expr(node.type)], [])
        woven: ast.ExceptHandler = copied(ast.ExceptHandler(kinds, node.name, body), node)
        return woven


def _grown(text: str, more: ast.expr, total: str) -> list[ast.stmt]:
    """Return statements that account for ``text += more``. They call the guard only if something is due."""
    is_literal = isinstance(more, ast.Constant) and isinstance(more.value, str)
    added = constant(len(more.value)) if is_literal else call("$len", again(more))  # type: ignore[attr-defined]
    owed = ast.Subscript(load("$owed"), constant(0), ast.Load())
    size = ast.BinOp(ast.BinOp(owed, ast.Add(), call("$len", load(text))), ast.Add(), added)
    counted = ast.Assign([store(total), ast.Subscript(load("$owed"), constant(0), ast.Store())], size)
    is_due = ast.Compare(load(total), [ast.Gt()], [load("$due")])
    account = [counted, ast.If(is_due, [ast.Expr(call("$grow", load(text), again(more)))], [])]
    return account if is_literal else [ast.If(same(kind_of(again(more)), load("$str")), account, [])]


def _looked_at(source: ast.expr, name: str, flag: str) -> tuple[list[ast.stmt], ast.expr]:
    """Return statements that set ``flag`` by the source of a loop, and the source. The loop alone keeps it."""
    held = ast.Assign([store(name)], ast.List([source], ast.Load()))
    looked = call("$is_small", ast.Subscript(load(name), constant(0), ast.Load()))
    taken = ast.Call(ast.Attribute(load(name), "pop", ast.Load()), [], [])
    return [held, ast.Assign([store(flag)], looked)], taken


def _operations(node: ast.stmt) -> int:
    """Return the number of operations in a statement, without those of blocks below it.

    Each element of a display and each argument of a call above the first eight counts as one.
    """
    waiting: list[ast.AST] = [
        child
        for field, value in ast.iter_fields(node)
        if field not in _BLOCKS
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, ast.AST)
    ]
    found = 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, _COUNTED):
            parts = getattr(each, _PARTS[type(each)]) if type(each) in _PARTS else ()
            found += 1 + max(0, len(parts) - STATEMENT)
        waiting.extend(ast.iter_child_nodes(each))
    return found
