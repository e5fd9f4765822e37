"""Check Python source by its syntax tree, without running it."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from importlib.machinery import PathFinder
from typing import Any, Dict, Iterable, List, Set, Tuple

from stockade.advice.isolated import calls, loops, patterns

MOST, LONGEST_MESSAGE = 500, 300
_Found = Tuple[int, int, str, str]
_SEARCHES = {
    **dict.fromkeys(("re.search", "re.match", "re.fullmatch", "re.findall", "re.finditer"), 2),
    "re.compile": 1, "re.split": 3, "re.sub": 4, "re.subn": 4,
}  # fmt: skip
"""Functions whose first argument is a pattern, and the place of their flags."""
_TYPE_CHECKING = ("typing.TYPE_CHECKING", "TYPE_CHECKING")
_MISSING = (
    "module {0!r} is not in the sandbox; give requirements= (--with) or packages= (--packages) that hold it, or its "
    "file in files= (the packages are those of {1:.90}; interpreter= or --interpreter names another)"
)


def check(source: bytes, files: Iterable[str], path: List[str]) -> List[_Found]:
    """Return line, column (both from 1), kind and message of each piece of advice, in the order of the lines.

    ``files`` are names of files that the run also gets, and ``path`` are the folders to find modules in.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding)
        tree = ast.parse(source)
    except SyntaxError as error:
        return [(error.lineno or 1, max(1, error.offset or 1), "syntax", f"not valid Python: {error.msg}")]
    except ValueError as error:  # NUL bytes, or bytes that are not text
        return [(1, 1, "syntax", f"not valid Python: {error}")]
    except (RecursionError, MemoryError):
        return [(1, 1, "syntax", "nested too deep for Python")]
    return _Check(tree, re.split("\r\n|\r|\n", text), files, path).found()


class _Check:
    """Passes once over a syntax tree. It uses no recursion, since the tree may be deep."""

    def __init__(self, tree: ast.Module, lines: List[str], files: Iterable[str], path: List[str]) -> None:
        self._tree, self._lines, self._path = tree, lines, path
        self._local = {name.partition("/")[0].partition(".")[0] for name in files}
        self._nodes = list(ast.walk(tree))
        self._imported: Dict[str, str] = {}
        self._bound: Set[str] = set()
        self._found: List[_Found] = []
        self._here: Dict[str, bool] = {}

    def found(self) -> List[_Found]:
        """Return all advice."""
        for node in self._nodes:
            self._note_names(node)
        optional, known = self._optional_imports(), loops.Known(self._nodes)
        for node in self._nodes:
            if isinstance(node, (ast.While, ast.For)):
                self._add(node, "loop", loops.problem(node, self._name, known))
            elif isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in optional:
                self._import(node)
        return sorted(self._found)[:MOST]

    def _add(self, node: Any, kind: str, message: str) -> None:
        if message:
            line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
            before = line.encode("utf-8", "surrogatepass")[: node.col_offset].decode("utf-8", "replace")
            self._found.append((node.lineno, len(before) + 1, kind, message[:LONGEST_MESSAGE]))

    def _note_names(self, node: ast.AST) -> None:
        """Note the names that imports and other statements bind."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.asname is not None
                self._imported[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if whole else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            self._imported.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._bound.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self._bound.add(node.id)
        elif isinstance(node, ast.arg):
            self._bound.add(node.arg)

    def _name(self, node: ast.AST) -> str:
        """Return the dotted name behind an expression, through the imports; an empty text for anything else."""
        parts: List[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        first = self._imported.get(node.id, "" if parts or node.id in self._bound else node.id)
        return ".".join([first, *reversed(parts)]) if first else ""

    def _call(self, node: ast.Call) -> None:
        name = self._name(node.func)
        why = calls.reason(name)
        if why:
            self._add(node, "call", f"{name} {why}")
        first = node.args[0] if node.args else None
        if name in _SEARCHES and isinstance(first, ast.Constant) and isinstance(first.value, (str, bytes)):
            flags = self._flags(node, _SEARCHES[name])
            self._add(first, "pattern", patterns.problem(first.value, flags, whole=name == "re.fullmatch"))

    def _flags(self, node: ast.Call, index: int) -> int:
        """Return the flags of a call of ``re`` that are written by name; they are argument ``index``, or a keyword."""
        given: List[ast.AST] = [keyword.value for keyword in node.keywords if keyword.arg == "flags"]
        waiting, flags = given or list(node.args[index : index + 1]), 0
        while waiting:
            part = waiting.pop()
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
                waiting += [part.left, part.right]
            module, _, flag = self._name(part).partition(".")
            if module == "re":
                flags |= int(getattr(re.RegexFlag, flag, 0))
        return flags & ~re.DEBUG

    def _optional_imports(self) -> Set[int]:
        """Return the imports that may fail: below ``try`` with a handler, or only for a type checker."""
        found: Set[int] = set()
        for node in self._nodes:
            tried = isinstance(node, ast.Try) and bool(node.handlers)
            if tried or (isinstance(node, ast.If) and self._name(node.test) in _TYPE_CHECKING):
                found.update(_imports(node.body))  # type: ignore[attr-defined]
        return found

    def _import(self, node: Any) -> None:
        if isinstance(node, ast.ImportFrom) and node.level:
            self._add(node, "import", "a relative import has no package here: the source runs as a script")
            return
        names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        for name in names:
            top = (name or "").partition(".")[0]
            if top and not self._is_here(top):
                self._add(node, "import", _MISSING.format(top, sys.executable))

    def _is_here(self, name: str) -> bool:
        if name not in self._here:
            built_in = name in sys.builtin_module_names or name in self._local
            self._here[name] = built_in or PathFinder.find_spec(name, self._path) is not None
        return self._here[name]


def _imports(statements: List[ast.stmt]) -> Iterable[int]:
    """Yield the ids of the imports in ``statements``, without those of nested statements."""
    return (id(statement) for statement in statements if isinstance(statement, (ast.Import, ast.ImportFrom)))
