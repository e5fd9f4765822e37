"""docs/architecture.md names real files, real classes and every guarantee; the source uses none of the retired terms."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from stockade.policy.guarantees import Guarantee

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "stockade"
TOP = tuple(sorted(each.name for each in ROOT.iterdir()))
STEPS_OF_A_RUN = (20, 40)
COLUMNS = 7
CODE = re.compile(r"`([^`\n]+)`")
DEFINITION = re.compile(r"`([\w/.-]+\.py)` `([A-Za-z_][\w.]*)`")

NOTEBOOKS = (  # a cell is a piece of source in a notebook
    *(
        f"api/sessions/{name}.py"
        for name in ("channels", "gathered", "interpreter", "opening", "records", "session", "shell")
    ),
    *(f"languages/agents/python_{name}.py" for name in ("cells", "fork", "functions", "notebook")),
    *(
        f"languages/agents/{name}.py"
        for name in ("session_agent", "session_interpreter", "session_processes", "shell_cells")
    ),
    *(f"integrations/mcp/{name}.py" for name in ("answers", "places", "tools")),
    "integrations/langchain.py",
    *(
        f"service/living/{name}.py"
        for name in ("cells", "owner", "remote_steps", "requests", "routes", "sandbox", "sandboxes")
    ),
    "service/mcp/place.py",
    "integrations/smolagents/executor.py",
    "integrations/jupyter/provisioner.py",
    "__init__.py",
    "cli/repl.py",
)
RETIRED = {
    # term, or phrase with "_" between its words; "*" stands for any ending. Files in which it has its ordinary meaning.
    "announce*": (),
    "apart": (),
    "bare": ("cli/bench.py", "cli/toml.py", "profiling/speed.py"),
    "bear": (),
    "bell": (),
    "borrow": (),
    "bundle": tuple(
        f"backends/{folder}/{name}.py"
        for folder in ("oci", "gvisor")
        for name in ("backend", "bundle", "launching", "runtime")
    ),
    "burdened": (),
    "bury": (),
    "cell": ("attacks/report.py", "cli/eval_summary.py", "cli/profiles.py", "cli/table.py", *NOTEBOOKS),
    "cells": ("cli/profiles.py", "cli/table.py", *NOTEBOOKS),
    "conversation": (),
    "converse": (),
    "conversing": (),
    "dress*": (),
    "entrance*": (),
    "faces": (),
    "foresee*": (),
    "form": (),
    "furnish*": (),
    "give_back": (),
    "hasten": (),
    "hear": (),
    "heard": (),
    "hot": (),
    "house": (),
    "hush": (),
    "intake": (),
    "keeper*": (),
    "laid": (),
    "lay": (),
    "lend*": (),
    "lent": (),
    "let_go": (),
    "loan": (),
    "loosen*": (),
    "make_way": (),
    "meet": (),
    "nursery": (),
    "obey": (),
    "opener*": (),
    "outbox": (),
    "outlet*": (),
    "parcel*": (),
    "readings": (),
    "recall": (),
    "rehears*": (),
    "reins": (),
    "room": (),
    "rooms": (),
    "said": (),
    "settle*": (),
    "spare*": (),
    "speak*": (),
    "spell*": (),
    "spelt": (),
    "stable": (),
    "stir": (),
    "surroundings": (),
    "survey*": (),
    "take_notice": (),
    "taker": (),
    "talk": (),
    "told": (),
    "usual": (),
    "worn": (),
    "yielding": (),
}


def text_of_page():
    return PAGE.read_text(encoding="utf-8")


def section(title):
    """Return the part of the page below the heading that begins with ``title``."""
    parts = re.split(r"^## ", text_of_page(), flags=re.MULTILINE)
    found = [part for part in parts if part.lower().startswith(title.lower())]
    assert len(found) == 1, f"docs/architecture.md has {len(found)} sections {title!r}"
    return found[0]


def paths_in(text):
    """Yield each piece of code that is a path of the repository: it begins with a name of its top folder."""
    for code in CODE.findall(text):
        if code in TOP or (code.split("/")[0] in TOP and " " not in code):
            yield code


def rows(text):
    """Return the cells of each row of the first table, without its head."""
    lines = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert lines is not None
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines.group().splitlines()[2:]]


@cache
def names_defined_in(path):
    """Return the classes, functions and constants of a module, and ``Class.method``."""
    found = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for each in node.body for name in names_bound_by(each)}
        found |= names_bound_by(node)
    return found


def names_bound_by(node):
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def test_page_paths_exist():
    missing = sorted({path for path in paths_in(text_of_page()) if not any(ROOT.glob(path.rstrip("/")))})
    assert not missing, f"docs/architecture.md names what is not there: {', '.join(missing)}"


def test_page_definitions_resolve():
    pairs = DEFINITION.findall(text_of_page())
    wrong = [f"{path} has no {name}" for path, name in pairs if name not in names_defined_in(path)]
    assert len(pairs) > STEPS_OF_A_RUN[0]
    assert not wrong, "\n".join(wrong)


def test_page_life_of_a_run_names_its_code():
    steps = re.findall(r"^\d+\. .*(?:\n   .*)*", section("The life of a run"), re.MULTILINE)
    unnamed = [step for step in steps if not DEFINITION.search(step)]
    assert STEPS_OF_A_RUN[0] <= len(steps) <= STEPS_OF_A_RUN[1]
    assert not unnamed, f"steps without a file and a name: {unnamed}"


def test_page_index_has_every_guarantee():
    found = rows(section("Where each guarantee lives"))
    assert [cells[0].strip("`") for cells in found] == [guarantee.value for guarantee in Guarantee]
    assert {len(cells) for cells in found} == {COLUMNS}


def parts_of(identifier):
    """Split by underscores and camel case."""
    return [each.lower() for each in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", identifier)]


def identifiers_in(tree):
    """Yield line and name of everything that the source names, whether it is defined there or used."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.end_lineno, node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.lineno, node.arg
        elif isinstance(node, ast.alias):
            yield node.lineno, (node.asname or node.name).rpartition(".")[2]
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            yield node.lineno, node.name
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield from ((node.lineno, name) for name in node.names)


def retired_in(identifier, file):
    """Return the retired term in an identifier of ``file``, if there is one."""
    joined = f"_{'_'.join(parts_of(identifier))}_"
    for pattern, term, ordinary in PATTERNS:
        if file not in ordinary and pattern.search(joined):
            return term
    return None


PATTERNS = [(re.compile(f"_{term.replace('*', '[a-z]*')}_"), term, files) for term, files in RETIRED.items()]


@pytest.mark.parametrize(
    ("identifier", "term"),
    [
        ("_NURSERY", "nursery"),
        ("isBareCell", "bare"),
        ("letGoOf", "let_go"),
        ("outlets", "outlet*"),
        ("hot_keys", "hot"),
    ],
)
def test_retired_terms_are_recognized(identifier, term):
    assert retired_in(identifier, "any.py") == term


@pytest.mark.parametrize(
    "identifier", ["excellent", "information", "mushroom", "player", "shot", "storytold", "bareness"]
)
def test_retired_terms_inside_words_are_ignored(identifier):
    assert retired_in(identifier, "any.py") is None


def test_source_uses_no_retired_term():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        file = str(path.relative_to(SOURCE))
        if file.startswith("attacks/programs/"):
            continue  # guests: each is a program of its own
        named = [*((1, part) for part in (*path.relative_to(SOURCE).parent.parts, path.stem))]
        named += identifiers_in(ast.parse(path.read_text(encoding="utf-8")))
        for line, identifier in sorted(set(named)):
            term = retired_in(identifier, file)
            if term is not None:
                found.append(f"src/stockade/{file}:{line}: {identifier} ({term})")
    assert not found, f"{len(found)} retired terms; see the glossary of docs/architecture.md:\n" + "\n".join(found)


def test_page_glossary_is_sorted():
    terms = [cells[0].lower() for cells in rows(section("Glossary"))]
    assert terms == sorted(terms)
