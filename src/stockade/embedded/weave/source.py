"""Bounds on source text, before and after parsing. A parser recurses, so hostile text must not reach its limits."""

from __future__ import annotations

import ast
import re

MOST_BYTES = 65_536
MOST_NESTING = 60
MOST_DEPTH = 120
MOST_RUN = 60

_QUOTED = re.compile(
    r"#[^\n]*|(?:\"\"\"(?:[^\"\\]|\\.|\"(?!\"\"))*\"\"\"|'''(?:[^'\\]|\\.|'(?!''))*'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')",
    re.DOTALL,
)
_RUN = re.compile("|".join(f"(?:{prefix}){{{MOST_RUN}}}" for prefix in (r"[-+~]\s*", r"not\s+", r"lambda\s*:\s*")))


class SourceError(Exception):
    """The source is refused. ``line`` is the place, and ``class_name`` the exception that the host sees."""

    def __init__(self, message: str, line: int = 0, class_name: str = "SyntaxError") -> None:
        self.line, self.class_name = line, class_name
        super().__init__(message)


def parse(source: str, filename: str) -> ast.Module:
    """Return the syntax tree of ``source``, or raise ``SourceError``."""
    if len(source) > MOST_BYTES or len(source.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise SourceError(f"source is longer than {MOST_BYTES:,} bytes")
    if "\0" in source:
        raise SourceError("source contains a null character")
    _nesting(source)
    try:
        tree = ast.parse(source, filename, type_comments=False)
    except SyntaxError as error:
        raise SourceError(error.msg or "invalid syntax", error.lineno or 0) from None
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise SourceError(f"source is too complex: {type(error).__name__}") from None
    _depth(tree)
    return tree


def _nesting(source: str) -> None:
    """Refuse deep brackets and long runs of prefix operators, whose parsing recurses."""
    plain = _QUOTED.sub("", source)
    depth = 0
    line = 1
    for char in re.findall(r"[\[\](){}\n]", plain):
        if char in "([{":
            depth += 1
            if depth > MOST_NESTING:
                raise SourceError(f"brackets are nested deeper than {MOST_NESTING}", line)
        elif char == "\n":
            line += 1
        else:
            depth = max(0, depth - 1)
    if _RUN.search(plain):
        raise SourceError(f"more than {MOST_RUN} prefix operators follow each other")


def _depth(tree: ast.Module) -> None:
    """Refuse a deep tree: the weave and CPython's compiler recurse over it."""
    level: list[ast.AST] = [tree]
    for _ in range(MOST_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise SourceError(f"source is nested deeper than {MOST_DEPTH} levels", getattr(level[0], "lineno", 0))
