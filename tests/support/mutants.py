"""Nearly right answers: the reference solutions of HumanEval, each changed in one place that a fixed seed chooses."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from typing import Any

SEED = 20
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.USub: ast.UAdd,
}  # fmt: skip


def mutants(problems: list[dict[str, str]], count: int) -> list[dict[str, str]]:
    """Return ``count`` samples (``task_id``, ``completion``), no two alike, from as many problems as possible."""
    chosen = random.Random(SEED)
    found = {problem["task_id"]: list(_of(problem)) for problem in problems}
    for each in found.values():
        chosen.shuffle(each)
    samples: list[dict[str, str]] = []
    while len(samples) < count and any(found.values()):
        samples += [{"task_id": name, "completion": each.pop()} for name, each in found.items() if each]
    return samples[:count]


def _of(problem: dict[str, str]) -> Iterator[str]:
    """Yield the solution once for each place that can be changed, as a function body that follows the prompt."""
    whole = problem["prompt"] + problem["canonical_solution"]
    seen = {ast.unparse(ast.parse(whole))}
    for place in range(sum(1 for _ in _places(ast.parse(whole), problem["entry_point"]))):
        tree = ast.parse(whole)
        for number, change in enumerate(_places(tree, problem["entry_point"])):
            if number == place:
                change()
                break
        text = ast.unparse(ast.fix_missing_locations(tree))
        if text not in seen:
            seen.add(text)
            yield f"    pass\n\n{text}\n"  # completes the prompt's function, then replaces it by the changed one


def _places(tree: ast.AST, entry_point: str) -> Iterator[Any]:
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == entry_point)
    for node in ast.walk(function):
        yield from _changes(node)


def _changes(node: ast.AST) -> Iterator[Any]:
    def put(holder: Any, name: str, value: Any) -> Any:
        return lambda: setattr(holder, name, value)

    if isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.AugAssign) and type(node.op) in _SWAPS:
        yield put(node, "op", _SWAPS[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        yield put(node, "ops", [_SWAPS[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield put(node, "value", node.value + 1)
        yield put(node, "value", node.value - 1)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield put(node, "value", not node.value)
    if isinstance(node, ast.Constant) and type(node.value) is str:
        yield put(node, "value", node.value + "x")
    if isinstance(node, ast.Return) and node.value is not None:
        yield put(node, "value", ast.Constant(None))
    if isinstance(node, ast.If | ast.While):
        yield put(node, "test", ast.Constant(True))
        yield put(node, "test", ast.Constant(False))
    if isinstance(node, ast.Call) and node.args:
        yield put(node, "args", node.args[:-1])
