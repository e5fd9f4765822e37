"""Find loops that nothing leaves, from the syntax tree alone."""

from __future__ import annotations

import ast
from collections import Counter
from typing import Callable, Iterator, List, Set, Tuple, Union

Loop = Union[ast.While, ast.For]


class Known:
    """Facts about the whole file that decide about its loops."""

    def __init__(self, nodes: List[ast.AST]) -> None:
        self.shared: Set[str] = set()
        """Names that a function may assign for others at any time."""
        self.loads: Counter[str] = Counter()
        """How often each name is read. A list with a second reader may be changed there."""
        self.tried: Set[int] = set()
        """Loops in the body of a ``try`` that catches errors: an error is their way out."""
        for node in nodes:
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                self.shared.update(node.names)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.loads[node.id] += 1
            elif isinstance(node, ast.Try) and not all(map(_catches_interrupts_only, node.handlers)):
                self.tried.update(id(statement) for statement in node.body)


def _catches_interrupts_only(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.type, ast.Name) and handler.type.id == "KeyboardInterrupt"


Named = Callable[[ast.AST], str]
"""Returns the dotted name that an expression leads to through the imports, or an empty text."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LEAVES = (ast.Return, ast.Raise, ast.Assert, ast.Yield, ast.YieldFrom, ast.Await)
_EXITS = {"exit", "quit", "sys.exit", "os._exit", "os.abort", "os.execv", "os.execvp", "os.execve", "os.kill", "next"}
_ENDLESS = {"itertools.count", "itertools.cycle"}
_GROWS = {"append", "extend", "insert", "add", "update"}
_FIXED = (ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.boolop, ast.cmpop, ast.unaryop)


def problem(loop: Loop, named: Named, known: Known) -> str:
    """Return why the loop cannot end, or an empty text."""
    if any(_leaves(node, named, breaks=breaks) for node, breaks in _own_nodes(loop)):
        return ""
    if isinstance(loop, ast.For):
        return _of_for(loop, named)
    if isinstance(loop.test, ast.Constant):
        endless = loop.test.value and id(loop) not in known.tried
        return f"{_NO_EXIT}; only an error or a limit of the run ends it" if endless else ""
    names = _unchanged(loop, known)
    if not names:
        return ""
    return f"{_NO_EXIT}, and it never changes what its condition reads: {', '.join(sorted(names))}"


_NO_EXIT = "nothing leaves this loop (no break, return, raise or exit)"


def _of_for(loop: ast.For, named: Named) -> str:
    source = loop.iter
    if isinstance(source, ast.Call):
        name = named(source.func)
        repeats = name == "itertools.repeat" and len(source.args) == 1 and not source.keywords
        if name in _ENDLESS or repeats:
            return f"{_NO_EXIT}, and {name} never ends"
    if isinstance(source, ast.Name) and not any(_stores(node, source.id) for node, _ in _own_nodes(loop)):
        for node, _ in _own_nodes(loop):
            if isinstance(node, ast.Call) and _receiver(node) == source.id:
                return f"{_NO_EXIT}, and its body adds to {source.id}, which it iterates over"
    return ""


def _stores(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)


def _receiver(call: ast.Call) -> str:
    """Return the name of the list or set that the call adds to, or an empty text."""
    method = call.func
    adds = isinstance(method, ast.Attribute) and method.attr in _GROWS and isinstance(method.value, ast.Name)
    return method.value.id if adds else ""  # type: ignore[attr-defined]


def _own_nodes(loop: Loop) -> Iterator[Tuple[ast.AST, bool]]:
    """Yield the nodes of the loop's body, without inner functions, and whether a ``break`` there leaves this loop."""
    waiting: List[Tuple[ast.AST, bool]] = [(statement, True) for statement in loop.body]
    while waiting:
        node, breaks = waiting.pop()
        yield node, breaks
        if isinstance(node, _SCOPES):
            continue
        inner = set(map(id, node.body)) if isinstance(node, (ast.While, ast.For, ast.AsyncFor)) else set()
        waiting += [(child, breaks and id(child) not in inner) for child in ast.iter_child_nodes(node)]


def _leaves(node: ast.AST, named: Named, *, breaks: bool) -> bool:
    if isinstance(node, ast.Break):
        return breaks
    if isinstance(node, ast.Call):
        return named(node.func) in _EXITS
    return isinstance(node, (*_LEAVES, ast.AsyncFor, ast.AsyncWith))


def _unchanged(loop: ast.While, known: Known) -> Set[str]:
    """Return the names that the condition reads, if it is a plain expression that nothing in the loop can change."""
    parts = list(ast.walk(loop.test))
    if not all(isinstance(part, (*_FIXED, ast.operator, ast.expr_context)) for part in parts):
        return set()
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    numbers = _compares_with_numbers(loop.test)
    if names & known.shared or not (numbers or all(known.loads[name] == 1 for name in names)):
        return set()
    for node, _ in _own_nodes(loop):
        used = isinstance(node, ast.Name) and node.id in names
        if (used and not (numbers and isinstance(node.ctx, ast.Load))) or _binds(node) & names:  # type: ignore[attr-defined]
            return set()
    return names


def _binds(node: ast.AST) -> Set[str]:
    """Return names that the node binds in another way than by a name that is stored."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.ExceptHandler) and node.name:
        return {node.name}
    if type(node).__name__.startswith("Match"):  # Python 3.10: a capture is a text in the node
        return {getattr(node, field, None) or "" for field in ("name", "rest")}
    return set()


def _compares_with_numbers(test: ast.AST) -> bool:
    """Return whether each name in ``test`` is compared with a number: such a value is replaced, but never changed."""
    if isinstance(test, ast.BoolOp):
        return all(map(_compares_with_numbers, test.values))
    if not isinstance(test, ast.Compare):
        return False
    sides = [test.left, *test.comparators]
    return any(isinstance(side, ast.Constant) and isinstance(side.value, (int, float)) for side in sides)
