"""Scopes of the weave: where a temporary name may be bound, and which names a module binds."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from stockade.embedded.boundary.kinds import INLINE_BITS
from stockade.embedded.weave.build import both, load, store
from stockade.embedded.weave.small import Small, bindings, bindings_to_text, small

MODULE, FUNCTION, CLASS, COMPREHENSION = "module", "function", "class", "comprehension"


class Scopes:
    """The stack of scopes around the node that is woven."""

    def __init__(self) -> None:
        self._kinds = [MODULE]
        self._nodes: list[ast.AST | None] = [None]
        self._counted: dict[Any, Counter[str]] = {}
        self._small: list[dict[str, Small]] = [{}]
        self._numbers = count()
        self._temporaries: list[str] = []
        self.globals: set[str] = set()
        self.special: list[list[str]] = []
        """The special methods that each class around the node defines."""

    @property
    def kind(self) -> str:
        """Return the kind of the innermost scope."""
        return self._kinds[-1]

    def enter(self, kind: str, node: ast.AST | None = None) -> None:
        """Begin a scope. Only variables of ``node``, a function or a comprehension, can be small integers."""
        self._kinds.append(kind)
        self._nodes.append(node)
        self._small.append({})

    def leave(self) -> None:
        """End the innermost scope."""
        self._kinds.pop()
        self._nodes.pop()
        self._small.pop()

    def is_bound_once(self, target: ast.expr) -> bool:
        """Return whether ``target`` is a variable of the innermost scope that one place alone binds."""
        return isinstance(target, ast.Name) and self._bindings(bindings)[target.id] == 1

    def is_always_text(self, name: str) -> bool:
        """Return whether each binding of a variable of the innermost scope is to a text."""
        return self._bindings(bindings_to_text)[name] == self._bindings(bindings)[name] > 0

    def _bindings(self, count: Callable[[ast.AST], Counter[str]]) -> Counter[str]:
        node = self._nodes[-1]
        if node is None:
            return Counter()
        if (count, node) not in self._counted:
            self._counted[count, node] = count(node)
        return self._counted[count, node]

    @contextmanager
    def block(self) -> Iterator[None]:
        """Forget at the end what was noted inside."""
        before = self._small[-1]
        self._small[-1] = dict(before)
        yield
        self._small[-1] = before

    @contextmanager
    def without_flags(self) -> Iterator[None]:
        """Weave what lies inside as if nothing had been noted."""
        before, self._small[-1] = self._small[-1], {}
        yield
        self._small[-1] = before

    def flag(self, target: ast.expr) -> str:
        """Return a new flag that says, from here to the end of the block, whether ``target`` is a small integer."""
        assert isinstance(target, ast.Name)
        name = self.temporary()
        self._small[-1][target.id] = Small(frozenset({name}), INLINE_BITS)
        return name

    def note(self, node: ast.stmt) -> None:
        """Note a variable that ``node`` binds to plain arithmetic with small integers."""
        known = self._small[-1]
        if not known or not isinstance(node, ast.Assign) or len(node.targets) != 1:
            return
        target, found = node.targets[0], small(node.value, known)
        if found is not None and found.flags and isinstance(target, ast.Name) and self.is_bound_once(target):
            known[target.id] = found

    def flags(self, node: ast.expr) -> list[ast.expr]:
        """Return a list with a test that is true only if ``node`` is plain arithmetic with small integers, or []."""
        known = self._small[-1]
        found = small(node, known) if known else None
        return [] if found is None or not found.flags else [both(*map(load, sorted(found.flags)))]

    @property
    def holds_temporaries(self) -> bool:
        """Return whether code here may bind a temporary name. Comprehensions share names, and classes keep them."""
        return self.kind in (MODULE, FUNCTION)

    def temporary(self) -> str:
        """Return a name that no source can spell and no other place uses."""
        name = f"${next(self._numbers)}"
        if self.kind == MODULE:
            self.globals.add(name)
        return name

    def bound(self, name: str) -> None:
        """Note a name that a statement binds."""
        if self.kind == MODULE:
            self.globals.add(name)

    def kept(self, value: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return an expression that evaluates ``value`` and keeps it, and a read of what it kept."""
        if isinstance(value, ast.Name | ast.Constant):
            return value, value if isinstance(value, ast.Constant) else load(value.id)
        name = self.temporary()
        return ast.NamedExpr(store(name), value), load(name)
