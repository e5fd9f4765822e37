"""Inspect the syntax of a test: whether it calls the answer itself, or only defines tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(maxsize=1024)
def tests_itself(code: str, functions: tuple[str, ...]) -> bool:
    """Return whether ``code`` uses one of the ``functions`` itself and defines no tests to be found and run.

    Code that cannot be parsed counts as such, so that the interpreter reports the error.
    """
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    if any(_is_test(node) for node in body):
        return False
    defined = {node.name: node for node in body if isinstance(node, _FUNCTIONS)}
    used = {name for node in body if not isinstance(node, _FUNCTIONS) for name in _names(node)}
    waiting = list(used)
    while waiting:
        inner = set(_names(defined[name])) - used if (name := waiting.pop()) in defined else set()
        used |= inner
        waiting += inner
    return not functions or bool(used & {*functions, "Solution"})


def _is_test(node: ast.stmt) -> bool:
    if isinstance(node, _FUNCTIONS):
        return node.name.startswith("test") or node.name == "check"
    return isinstance(node, ast.ClassDef) and (node.name.startswith("Test") or bool(node.bases))


def _names(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
