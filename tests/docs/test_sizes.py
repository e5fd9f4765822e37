"""Files, functions and classes stay small enough to read in one sitting; ``docs/adr`` lists and explains the exceptions."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "adr" / "0041-classes-with-many-methods.md"
SOURCE = ROOT / "src" / "stockade"
LINES, FUNCTION_LINES, METHODS = 350, 50, 20


def exceptions() -> dict[str, int]:
    """Return the place (file, or file and class) and the figure of each row of the record's table."""
    rows = re.findall(r"^\| `([\w/.]+)`(?: `(\w+)`)? \| (\d+) ", RECORD.read_text(), re.MULTILINE)
    return {" ".join(filter(None, (file, name))): int(figure) for file, name, figure in rows}


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        file = str(path.relative_to(SOURCE))
        if not file.startswith("attacks/programs/"):
            yield file, path.read_text()


def test_files_have_at_most_350_lines() -> None:
    allowed = exceptions()
    found = {file: text.count("\n") for file, text in modules()}
    assert not {file: lines for file, lines in found.items() if lines > allowed.get(file, LINES)}


def test_functions_have_at_most_50_lines() -> None:
    found = [
        f"{file}:{node.lineno} {node.name}"
        for file, text in modules()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES
    ]
    assert not found


def test_classes_have_at_most_20_methods() -> None:
    allowed = exceptions()
    found = {}
    for file, text in modules():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) for item in node.body)
                if methods > allowed.get(f"{file} {node.name}", METHODS):
                    found[f"{file} {node.name}"] = methods
    assert not found


def test_exceptions_are_needed() -> None:
    known = {file for file, _ in modules()}
    assert {place.partition(" ")[0] for place in exceptions()} <= known
