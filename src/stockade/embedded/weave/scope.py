"""Scopes of the weave: where a temporary name may be bound, and which names a module binds."""

from __future__ import annotations

import ast
from itertools import count

from stockade.embedded.weave.build import load, store

MODULE, FUNCTION, CLASS, COMPREHENSION = "module", "function", "class", "comprehension"


class Scopes:
    """The stack of scopes around the node that is woven."""

    def __init__(self) -> None:
        self._kinds = [MODULE]
        self._numbers = count()
        self._temporaries: list[str] = []
        self.globals: set[str] = set()
        self.special: list[list[str]] = []
        """The special methods that each class around the node defines."""

    @property
    def kind(self) -> str:
        """Return the kind of the innermost scope."""
        return self._kinds[-1]

    def enter(self, kind: str) -> None:
        """Begin a scope."""
        self._kinds.append(kind)

    def leave(self) -> None:
        """End the innermost scope."""
        self._kinds.pop()

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
