"""MBPP, full or sanitized: problems have ``task_id``, ``code`` and ``test_list``; samples ``task_id`` and a text."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from stockade.batch.formats.samples import Record, problems, references, sampled
from stockade.batch.records import Program, RecordError, Test
from stockade.batch.sources import Source

_TEXTS = ("completion", "solution", "code", "answer")


def source(paths: Sequence[Path]) -> Source:
    """Return the source of the samples in the second file; without one, of the problems' own solutions."""
    known = problems(paths[0], "task_id")
    if len(paths) == 1:
        return references("mbpp", known, paths, lambda problem: [problem["code"]], program)
    return sampled("mbpp", known, paths, program, keys=("task_id",), texts=_TEXTS)


def program(problem: Record, name: str, text: str) -> Program:
    """Return the program that judges ``text``, a whole source."""
    setup = problem.get("test_setup_code") or "\n".join(problem.get("test_imports") or [])
    tests = "\n".join(problem["test_list"])
    if not tests.strip():
        raise RecordError("test_list: the test is empty")
    functions, classes = _defined(problem["code"])
    used = _names(f"{setup}\n{tests}")
    called = tuple(function for function in functions if function in used)
    shared = bool(classes & used)
    if not called and not shared:
        raise RecordError("the tests call nothing that the problem's own solution defines")
    code = f"{setup}\n{tests}" if shared else tests
    test = Test(answer=text, code=code, functions=called, setup="" if shared else setup, shared=shared)
    return Program(id=name, problem=f"MBPP/{problem['task_id']}", test=test)


@lru_cache(maxsize=2048)
def _defined(code: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the functions and the classes that the problem's own solution defines."""
    body = _parsed(code).body
    functions = tuple(dict.fromkeys(node.name for node in body if isinstance(node, ast.FunctionDef)))
    return functions, frozenset(node.name for node in body if isinstance(node, ast.ClassDef))


@lru_cache(maxsize=2048)
def _names(code: str) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(_parsed(code)) if isinstance(node, ast.Name))


def _parsed(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RecordError(f"the problem's code or tests: not valid Python: {error}") from None
