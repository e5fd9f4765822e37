"""Weaves functions, classes, imports and ``match``."""

from __future__ import annotations

import ast
from typing import Any

from stockade.embedded.boundary.prices import CLASS as CLASS_PRICE
from stockade.embedded.weave import names
from stockade.embedded.weave.build import call, constant, copied, is_scalar, store, tick
from stockade.embedded.weave.displays import Displays
from stockade.embedded.weave.scope import CLASS, FUNCTION
from stockade.embedded.weave.source import SourceError

_CAUGHT_AT_ENTRY = "__exit__"
MOST_SLOTS = 256


class Definitions(Displays):
    """Adds to ``Displays`` the statements that define something."""

    def block(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """Return the woven forms of statements."""
        raise NotImplementedError

    def _FunctionDef(self, node: ast.FunctionDef) -> Any:
        self._refuse_type_parameters(node)
        if names.is_special(node.name):
            if self.scopes.kind != CLASS or node.name not in names.DEFINABLE:
                raise SourceError(f"{node.name!r} cannot be defined in scripts", node.lineno)
            self.scopes.special[-1].append(node.name)
        else:
            self.bind(node.name, node.lineno)
        decorators = self.many(node.decorator_list)
        arguments = self.arguments(node.args)
        self.scopes.enter(FUNCTION, node)
        body = self.block(node.body)
        self.scopes.leave()
        first = call("$caught") if node.name == _CAUGHT_AT_ENTRY else tick()
        woven = [copied(ast.Expr(first), node), *body]
        return ast.FunctionDef(node.name, arguments, woven, decorators, None)

    def _ClassDef(self, node: ast.ClassDef) -> Any:
        self._refuse_type_parameters(node)
        if node.keywords:
            raise SourceError("keywords of a class are not available in scripts", node.lineno)
        self.bind(node.name, node.lineno)
        decorators = self.many(node.decorator_list)
        if any(isinstance(each, ast.Starred) for each in node.bases):
            raise SourceError("a starred base is not available in scripts", node.lineno)
        given = self.many(node.bases)
        self.scopes.enter(CLASS)
        self.scopes.special.append([])
        body = self.block(node.body)
        self.scopes.leave()
        special = constant(tuple(self.scopes.special.pop()))
        bases: list[ast.expr] = [ast.Starred(call("$bases", special, *given), ast.Load())] if given else []
        woven = [copied(ast.Expr(call("$charge", constant(CLASS_PRICE))), node), *body]
        return ast.ClassDef(node.name, bases, [], woven, decorators)

    def _refuse_type_parameters(self, node: Any) -> None:
        if getattr(node, "type_params", None):
            raise SourceError("type parameters are not available in scripts", node.lineno)

    def in_class_body(self, target: ast.expr, value: Any) -> None:
        """Check what a class body assigns to a special name."""
        for each in ast.walk(target):
            if not isinstance(each, ast.Name) or not names.is_special(each.id):
                continue
            if each is not target or each.id not in names.ASSIGNED_IN_CLASS:
                raise SourceError(f"{each.id!r} cannot be assigned in scripts", each.lineno)
            if each.id == "__hash__":
                allowed = isinstance(value, ast.Constant) and value.value is None
            else:
                allowed = isinstance(value, ast.Tuple | ast.List) and all(map(is_scalar, value.elts))
                if allowed and len(value.elts) > MOST_SLOTS:
                    raise SourceError(f"{each.id} with more than {MOST_SLOTS} names", each.lineno)
                for item in value.elts if allowed else ():
                    if not isinstance(item, ast.Constant) or type(item.value) is not str:
                        raise SourceError(f"{each.id} must name attributes", each.lineno)
                    names.check_pattern_attribute(item.value, each.lineno)
            if not allowed:
                raise SourceError(f"{each.id!r} must be a literal in scripts", each.lineno)

    def _Import(self, node: ast.Import) -> Any:
        found = []
        for alias in node.names:
            name = alias.asname or alias.name
            if "." in name:
                raise SourceError(f"import {alias.name!r} under a plain name", node.lineno)
            self.bind(name, node.lineno)
            self.symbols.update(alias.name.split("."))
            found.append(ast.Assign([store(name)], call("$import", constant(alias.name))))
        return found

    def _ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.level or node.module is None:
            raise SourceError("relative imports are not available in scripts", node.lineno)
        if node.module == "__future__":
            return ast.Pass()
        found = []
        for alias in node.names:
            if alias.name == "*":
                raise SourceError("'import *' is not available in scripts", node.lineno)
            name = alias.asname or alias.name
            self.bind(name, node.lineno)
            self.symbols.add(alias.name)
            found.append(ast.Assign([store(name)], call("$import", constant(node.module), constant(alias.name))))
        return found

    def _Match(self, node: ast.Match) -> Any:
        cases = []
        for case in node.cases:
            pattern = self.pattern(case.pattern)
            cases.append(ast.match_case(pattern, self.optional(case.guard), self.block(case.body)))
        return ast.Match(call("$subject", self.expr(node.subject)), cases)

    def pattern(self, node: ast.pattern) -> Any:
        """Return the woven form of a pattern. The subject was weighed, which pays for its comparisons."""
        weave = getattr(self, f"_{type(node).__name__}", None)
        if weave is None:
            raise SourceError(f"{type(node).__name__} is not available in scripts", node.lineno)
        return copied(weave(node), node)

    def _MatchValue(self, node: ast.MatchValue) -> Any:
        if isinstance(node.value, ast.Attribute):
            self._dotted(node.value)
            return ast.MatchValue(ast.Attribute(call("$pattern", node.value), "value", ast.Load()))
        return node

    def _dotted(self, node: ast.expr) -> None:
        while isinstance(node, ast.Attribute):
            names.check_pattern_attribute(node.attr, node.lineno)
            self.symbols.add(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            names.check_name(node.id, node.lineno)

    def _MatchSingleton(self, node: ast.MatchSingleton) -> Any:
        return node

    def _MatchSequence(self, node: ast.MatchSequence) -> Any:
        return ast.MatchSequence([self.pattern(each) for each in node.patterns])

    def _MatchStar(self, node: ast.MatchStar) -> Any:
        return self._named(node)

    def _named(self, node: Any) -> Any:
        if node.name is not None:
            self.bind(node.name, node.lineno)
        return node

    def _MatchAs(self, node: ast.MatchAs) -> Any:
        self._named(node)
        return node if node.pattern is None else ast.MatchAs(self.pattern(node.pattern), node.name)

    def _MatchOr(self, node: ast.MatchOr) -> Any:
        return ast.MatchOr([self.pattern(each) for each in node.patterns])

    def _MatchMapping(self, node: ast.MatchMapping) -> Any:
        for key in node.keys:
            if isinstance(key, ast.Attribute):
                raise SourceError("a dotted key is not available in a pattern", key.lineno)
        if node.rest is not None:
            self.bind(node.rest, node.lineno)
        return ast.MatchMapping(node.keys, [self.pattern(each) for each in node.patterns], node.rest)

    def _MatchClass(self, node: ast.MatchClass) -> Any:
        self._dotted(node.cls)
        for name in node.kwd_attrs:
            names.check_pattern_attribute(name, node.lineno)
        inner = node.patterns
        if isinstance(node.cls, ast.Name) and node.cls.id in _SELF_MATCHING and len(inner) == 1 and not node.kwd_attrs:
            return self._self_matched(node, inner[0])
        if isinstance(node.cls, ast.Name):
            self.symbols.add(node.cls.id)
        patterns, keywords = ([self.pattern(each) for each in many] for many in (inner, node.kwd_patterns))
        return ast.MatchClass(node.cls, patterns, node.kwd_attrs, keywords)

    def _self_matched(self, node: ast.MatchClass, inner: ast.pattern) -> Any:
        """Return ``int() as name`` for ``int(name)``: facades of types have no positional attribute."""
        if not isinstance(inner, ast.MatchAs) or inner.pattern is not None:
            raise SourceError("only a name can stand in the pattern of a built-in type", node.lineno)
        plain = copied(ast.MatchClass(node.cls, [], [], []), node)
        if inner.name is None:
            return plain
        self.bind(inner.name, inner.lineno)
        return ast.MatchAs(plain, inner.name)


_SELF_MATCHING = frozenset({"bool", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"})
