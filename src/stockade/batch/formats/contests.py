"""Contest problems as APPS and LiveCodeBench write them: with standard input and output, or a function to call."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from stockade.batch.formats.samples import Record, problems, references, sampled
from stockade.batch.records import Case, Program, RecordError, Test
from stockade.batch.sources import Source

_TEXTS = ("code_list", "code", "solution", "completion", "answer")
_MOST_BYTES = 1 << 30  # of unpacked tests; a small file may unpack to a very large one


def apps(paths: Sequence[Path]) -> Source:
    """Return the source of samples for APPS problems; without samples, of the problems' own solutions."""
    known = problems(paths[0], _key(paths[0], ("problem_id", "id")))
    if len(paths) == 1:
        return references("apps", known, paths, lambda problem: _json(problem["solutions"]), _apps_program)
    return sampled("apps", known, paths, _apps_program, keys=("problem_id", "id", "task_id"), texts=_TEXTS)


def livecodebench(paths: Sequence[Path]) -> Source:
    """Return the source of samples for LiveCodeBench problems."""
    known = problems(paths[0], "question_id")
    return sampled("livecodebench", known, paths, _live_program, keys=("question_id", "task_id"), texts=_TEXTS)


def _key(path: Path, names: Sequence[str]) -> str:
    with path.open("rb") as file:
        beginning = file.readline(1 << 20)
    return next((name for name in names if f'"{name}"'.encode() in beginning), names[0])


def _apps_program(problem: Record, name: str, text: str) -> Program:
    data = _json(problem["input_output"])
    pairs = list(zip(data["inputs"], data["outputs"], strict=True))
    group = f"APPS/{problem.get('problem_id', problem.get('id'))}"
    if data.get("fn_name"):
        # An output is either the value, or a list that holds the value.
        calls = [(inputs, [output, _only(output)]) for inputs, output in pairs]
        return _called(group, name, text, data["fn_name"], calls)
    return _printing(group, name, text, [(_lines(one), _lines(other)) for one, other in pairs])


def _live_program(problem: Record, name: str, text: str) -> Program:
    tests = _json(problem["public_test_cases"]) + _private(problem.get("private_test_cases") or "[]")
    group = str(problem["question_id"])
    if tests and tests[0].get("testtype") == "functional":
        function = _json(problem["metadata"])["func_name"]
        calls = [
            ([json.loads(line) for line in test["input"].splitlines()], [json.loads(test["output"])]) for test in tests
        ]
        return _called(group, name, text, function, calls)
    return _printing(group, name, text, [(test["input"], test["output"]) for test in tests])


def _printing(group: str, name: str, text: str, pairs: Sequence[tuple[str, str]]) -> Program:
    if not pairs:
        raise RecordError("the problem has no tests")
    cases = (Case(str(number), *pair, compare="floats") for number, pair in enumerate(pairs, 1))
    return Program(id=name, problem=group, source=text, cases=tuple(cases))


_CALLING = """
for number, (arguments, allowed) in enumerate(CASES, 1):
    value = {function}(*arguments)
    if type(value) is tuple:
        value = list(value)
    assert value in allowed, f"call {{number}}"
"""


def _called(group: str, name: str, text: str, function: str, calls: Sequence[tuple[Any, Any]]) -> Program:
    if not calls or not function.isidentifier():
        raise RecordError(f"{function!r}: the problem has no calls of a function")
    code = f"CASES = {list(calls)!r}\n{_CALLING.format(function=function)}"
    return Program(id=name, problem=group, test=Test(answer=text, code=code, functions=(function,)))


def _json(text: Any) -> Any:
    return json.loads(text) if isinstance(text, str) else text


def _only(output: Any) -> Any:
    return output[0] if isinstance(output, list) and len(output) == 1 else output


def _lines(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _private(text: Any) -> Any:
    """Return the hidden tests: JSON, or JSON in a pickled string that is compressed and encoded in base64."""
    try:
        return _json(text)
    except ValueError:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text), _MOST_BYTES)
        if unpacker.unconsumed_tail:
            raise RecordError(f"private_test_cases: more than {_MOST_BYTES} bytes") from None
        return _json(_PlainPickle(io.BytesIO(data)).load())


class _PlainPickle(pickle.Unpickler):
    """Loads text and numbers, and refuses to look up a class or function, since a pickle may call it."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise RecordError(f"private_test_cases: the pickle asks for {module}.{name}")
