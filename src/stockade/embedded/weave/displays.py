"""Weaves displays, comprehensions, subscripts, texts with fields, and the expressions of generators."""

from __future__ import annotations

import ast
from typing import Any

from stockade.embedded.weave.build import (
    again,
    call,
    choose,
    constant,
    copied,
    either,
    is_scalar,
    kind_of,
    load,
    same,
    store,
)
from stockade.embedded.weave.expressions import Expressions
from stockade.embedded.weave.scope import COMPREHENSION
from stockade.embedded.weave.small import is_range
from stockade.embedded.weave.source import SourceError


class Displays(Expressions):
    """Adds to ``Expressions`` what makes or takes apart containers."""

    def _List(self, node: ast.List) -> ast.expr:
        return ast.List(self.many(node.elts), node.ctx)

    def _Tuple(self, node: ast.Tuple) -> ast.expr:
        return ast.Tuple(self.many(node.elts), node.ctx)

    def _Set(self, node: ast.Set) -> ast.expr:
        if any(isinstance(each, ast.Starred) for each in node.elts):
            return call("$set_of", ast.List(self.many(node.elts), ast.Load()))
        return ast.Set([self.key(each) for each in self.many(node.elts)])

    def _Dict(self, node: ast.Dict) -> ast.expr:
        keys: list[Any] = []
        values: list[Any] = []
        for key, value in zip(node.keys, node.values, strict=True):
            keys.append(None if key is None else self.key(self.expr(key)))
            values.append(call("$double_star", self.expr(value)) if key is None else self.expr(value))
        return ast.Dict(keys, values)

    def _ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._comprehended(node, lambda clauses: ast.ListComp(self.expr(node.elt), clauses))

    def _GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self._comprehended(node, lambda clauses: ast.GeneratorExp(self.expr(node.elt), clauses))

    def _SetComp(self, node: ast.SetComp) -> ast.expr:
        return self._comprehended(node, lambda clauses: ast.SetComp(self.key(self.expr(node.elt)), clauses))

    def _DictComp(self, node: ast.DictComp) -> ast.expr:
        return self._comprehended(
            node, lambda clauses: ast.DictComp(self.key(self.expr(node.key)), self.expr(node.value), clauses)
        )

    def _comprehended(self, node: Any, make: Any) -> ast.expr:
        are_kept = isinstance(node, ast.GeneratorExp)
        self.scopes.enter(COMPREHENSION, None if are_kept else node)
        clauses: list[ast.comprehension] = []
        for each in node.generators:
            clauses += self._clauses(each, is_kept=are_kept and each is node.generators[0])
        woven: ast.expr = make(clauses)
        self.scopes.leave()
        return woven

    def _clauses(self, node: ast.comprehension, *, is_kept: bool) -> list[ast.comprehension]:
        """Return the woven clause, after one of a single turn if the source is a range that is looked at.

        A generator keeps its first source, so it may not add to a nest that is too deep.
        """
        if node.is_async:
            raise SourceError("'async' is not available in scripts", node.target.lineno)
        if any(isinstance(each, ast.Starred) for each in ast.walk(node.target)):
            raise SourceError("a starred target is not available in a comprehension", node.target.lineno)
        woven = self.expr(node.iter)
        before = []
        if is_range(node.iter) and self.scopes.is_bound_once(node.target):
            kept = self.scopes.temporary()
            pair = ast.Tuple([store(kept), store(self.scopes.flag(node.target))], ast.Store())
            before = [ast.comprehension(pair, call("$flagged", woven), [], 0)]
            woven = load(kept)
        source = call("$source", woven) if is_kept else call("$compress", woven, load("$units"))
        return [*before, ast.comprehension(self.expr(node.target), source, self.many(node.ifs), 0)]

    def _Slice(self, node: ast.Slice) -> ast.expr:
        return call(
            "$slice",
            *(constant(None) if each is None else self.expr(each) for each in (node.lower, node.upper, node.step)),
        )

    def _Subscript(self, node: ast.Subscript) -> ast.expr:
        value = self.expr(node.value)
        if isinstance(node.slice, ast.Slice):
            if not isinstance(node.ctx, ast.Load):
                raise SourceError("a slice cannot be assigned here", node.lineno)
            return call("$getslice", value, self.expr(node.slice))
        if not isinstance(node.ctx, ast.Load):
            return ast.Subscript(value, self.place(node.slice), node.ctx)
        return self._item(value, self._index(node.slice))

    def _index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Tuple) and any(isinstance(each, ast.Slice | ast.Starred) for each in node.elts):
            raise SourceError("slices and stars are not available in this subscript", node.lineno)
        return self.expr(node)

    def place(self, node: ast.expr) -> Any:
        """Return the woven index of a subscript that a statement stores or deletes."""
        return copied(self.key(self._index(node), "$place"), node)

    def _item(self, value: Any, index: Any) -> ast.expr:
        """Return a read of an element. Unless the index is plain, its guard needs the container as well."""
        if is_scalar(index) or isinstance(index, ast.Compare | ast.Tuple):
            return ast.Subscript(value, self.key(index), ast.Load())
        if isinstance(value, ast.Name) and isinstance(index, ast.Name):
            container: Any = value
        elif self.scopes.holds_temporaries:
            container = load(self.scopes.temporary())
            value = ast.NamedExpr(store(container.id), value)
        else:
            return call("$item", value, index)
        first, kept = self.scopes.kept(index)
        tests = same(kind_of(first), load("$int")), same(kind_of(kept), load("$str"))
        plain = either(*self.scopes.flags(index), *tests)
        return ast.Subscript(
            value, choose(plain, again(kept), call("$index", again(container), again(kept))), ast.Load()
        )

    def _JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts = [self._piece(each) for each in node.values]
        if not parts:
            return constant("")
        return call("$cat", *parts)

    def _piece(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant):
            return node
        if not isinstance(node, ast.FormattedValue):
            raise SourceError("this text is not available in scripts", node.lineno)
        value = self.expr(node.value)
        conversion = chr(node.conversion) if node.conversion > 0 else ""
        if node.format_spec is not None or conversion:
            spec = constant("") if node.format_spec is None else self.expr(node.format_spec)
            return call("$format", value, spec, constant(conversion))
        if isinstance(value, ast.Name):
            text = self.text_of(value, call("$text", load(value.id)))
            return choose(same(kind_of(value), load("$str")), load(value.id), text)
        return call("$text", value)

    def _Yield(self, node: ast.Yield) -> ast.expr:
        self._outside_class(node)
        return ast.Yield(self.optional(node.value))

    def _YieldFrom(self, node: ast.YieldFrom) -> ast.expr:
        self._outside_class(node)
        return ast.YieldFrom(call("$delegated", self.expr(node.value)))

    def _outside_class(self, node: ast.expr) -> None:
        if self.scopes.kind != "function":
            raise SourceError("'yield' outside function", node.lineno)
