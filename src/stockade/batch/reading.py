"""Parse a program from a line of JSON. An invalid record is refused here, before anything starts."""

from __future__ import annotations

import ast
import base64
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from stockade.api.job_arguments import job_from_source
from stockade.batch import compiling
from stockade.batch.records import COMPARISONS, TOLERANCE, Case, Compare, Program, RecordError, Test
from stockade.core.errors import JobError, PolicyError, nearest
from stockade.core.strict_json import dumps
from stockade.policy.model import Policy

MAX_LINE = 256 << 20
"""Bytes of the longest line that is read."""
_LONGEST_ID = 1000
_CASE_FIELDS = ("name", "stdin", "expected", "compare", "tolerance")
_TEST_FIELDS = ("prompt", "answer", "test", "entry_point", "functions", "setup")
_FIELDS = (
    "id", "problem", "language", "source", "cases", "files", "limits", "profile", "meta",
    *_CASE_FIELDS[1:], *_TEST_FIELDS,
)  # fmt: skip


def program_from_line(line: bytes) -> Program:
    """Return the program that a line describes. Raises ``RecordError`` with the reason if the line is invalid."""
    return program_from_record(parse(line))


def parse(line: bytes) -> Any:
    """Return the JSON value of a line. Raises ``RecordError`` if the line is not JSON."""
    try:
        return json.loads(line.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise RecordError(f"not UTF-8: byte {error.start + 1} is {line[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        raise RecordError(f"not JSON: {error.msg}, character {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not readable as JSON: {error}") from None


def program_from_record(record: Any) -> Program:
    """Return the program that a record (a dictionary made from JSON) describes. Raises ``RecordError``."""
    if not isinstance(record, Mapping):
        hint = "; write one object on each line, without the brackets of a list" if isinstance(record, list) else ""
        raise RecordError(f"a program must be an object with an 'id', not {_shown(record)}{hint}")
    _known(record, _FIELDS, "")
    tested = "test" in record
    program = Program(
        id=_id(record),
        problem=_text(record, "problem", "") or (_entry(record) if tested else ""),
        language=_text(record, "language", "python"),
        source="" if tested else _source(record),
        cases=() if tested else _cases(record),
        test=_test(record) if tested else None,
        files=_files(record.get("files")),
        limits=_limits(record.get("limits")),
        profile=_text(record, "profile", "") or None,
    )
    check(program)
    return program


def check(program: Program) -> None:
    """Raise ``RecordError`` if the program can never run: an unknown language, or a file name outside the workspace."""
    if program.test is not None and program.language.lower() not in ("python", "py", "python3"):
        raise RecordError(f"language = {program.language!r}: a program with a 'test' must be in Python")
    try:
        compiler = compiling.known(program.language)
        if compiler is not None:
            compiling.compile_job(compiler, program.source, program.files)
        else:
            job_from_source(program.source, language=program.language, files=program.files)
        for case in program.cases:
            case.stdin.encode()
        program.source.encode()
        if program.test is not None:
            (program.test.answer + program.test.code + program.test.setup).encode()
    except JobError as error:
        raise RecordError(str(error)) from None
    except UnicodeEncodeError:
        raise RecordError("a text holds half of a surrogate pair, which is not a character") from None


def _id(record: Mapping[str, Any]) -> str:
    value = record.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise RecordError("'id' is missing: expected a unique text or whole number" if "id" not in record
                          else f"id = {_shown(value)}: expected a unique text or whole number")  # fmt: skip
    if len(value) > _LONGEST_ID:
        raise RecordError(f"id = {_shown(value)}: longer than {_LONGEST_ID} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RecordError("id: the text holds half of a surrogate pair, which is not a character") from None
    return value


def _source(record: Mapping[str, Any]) -> str:
    alone = sorted({"answer", "entry_point", "functions", "setup"} & set(record))
    if alone:
        raise RecordError(f"{alone[0]!r} is allowed only together with 'test'")
    if "source" not in record:
        raise RecordError("'source' is missing; a program needs 'source', or 'answer' and 'test'")
    return _text(record, "prompt", "") + _text(record, "source", "")


def _cases(record: Mapping[str, Any]) -> tuple[Case, ...]:
    if "cases" not in record:
        return (_case(record, "1", {}),)
    beside = [key for key in ("stdin", "expected") if key in record]
    if beside:
        raise RecordError(f"{beside[0]!r} is not allowed beside 'cases'; put it into each case")
    value = record["cases"]
    if not isinstance(value, list) or not value:
        raise RecordError(f"cases = {_shown(value)}: expected a list of at least one case")
    cases = []
    for number, item in enumerate(value, 1):
        if not isinstance(item, Mapping):
            raise RecordError(f"cases[{number}] = {_shown(item)}: expected an object")
        _known(item, _CASE_FIELDS, f"cases[{number}].")
        cases.append(_case(item, str(number), record))
    return tuple(cases)


def _case(item: Mapping[str, Any], name: str, beyond: Mapping[str, Any]) -> Case:
    either = {**{key: beyond[key] for key in ("compare", "tolerance") if key in beyond}, **item}
    return Case(
        name=_text(item, "name", name) if beyond else name,
        stdin=_text(item, "stdin", ""),
        expected=None if item.get("expected") is None else _text(item, "expected", ""),
        compare=_compare(either.get("compare", "lines")),
        tolerance=_tolerance(either.get("tolerance", TOLERANCE)),
    )


def _compare(value: Any) -> Compare:
    for known in COMPARISONS:
        if value == known:
            return known
    raise RecordError(f"compare = {_shown(value)}: expected one of {', '.join(COMPARISONS)}")


def _tolerance(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise RecordError(f"tolerance = {_shown(value)}: expected a number of at least 0")
    return float(value)


def _test(record: Mapping[str, Any]) -> Test:
    for key in ("source", "cases", "stdin", "expected", "compare", "tolerance"):
        if key in record:
            raise RecordError(f"{key!r} and 'test' exclude each other")
    if "answer" not in record:
        raise RecordError("'answer' is missing beside 'test'")
    prompt, code = _text(record, "prompt", ""), _text(record, "test", "")
    entry = _entry(record)
    functions = _functions(record, entry, code)
    return Test(
        answer=prompt + _text(record, "answer", ""),
        code=code,
        functions=functions,
        setup=_text(record, "setup", prompt if entry else ""),
        check="check" if entry and defines(code, "check") else "",
    )


def _entry(record: Mapping[str, Any]) -> str:
    return _name(_text(record, "entry_point", ""), "entry_point") if "entry_point" in record else ""


def _functions(record: Mapping[str, Any], entry: str, code: str) -> tuple[str, ...]:
    value = record.get("functions", [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RecordError(f"functions = {_shown(value)}: expected a list of names")
    names = tuple(dict.fromkeys(_name(item, "functions") for item in ([entry] if entry else []) + value))
    if not names:
        raise RecordError("'entry_point' or 'functions' is missing: name the functions that the test calls")
    if not code.strip():
        raise RecordError("test = '': the test is empty")
    return names


def defines(code: str, name: str) -> bool:
    """Return whether Python source defines a function ``name``. Raises ``RecordError`` if it cannot be parsed."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RecordError(f"test: not valid Python: {error}") from None
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


def _name(value: str, field: str) -> str:
    if not value.isidentifier():
        raise RecordError(f"{field} = {_shown(value)}: not a name of a Python function")
    return value


def _files(value: Any) -> dict[str, bytes]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RecordError(f"files = {_shown(value)}: expected an object of names and contents")
    return {name: _content(name, content) for name, content in value.items()}


def _content(name: str, content: Any) -> bytes:
    try:
        if isinstance(content, str):
            return content.encode()
        if isinstance(content, bytes):
            return content
        if isinstance(content, Mapping) and set(content) == {"base64"}:
            return base64.b64decode(content["base64"], validate=True)
    except (ValueError, TypeError):
        pass
    raise RecordError(f"files[{name!r}] = {_shown(content)}: expected a text, or an object with 'base64'")


def _limits(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RecordError(f"limits = {_shown(value)}: expected an object of names and numbers")
    try:
        problem = _limits_problem(dumps(value, sort_keys=True))
    except (TypeError, ValueError) as error:
        raise RecordError(f"limits = {_shown(value)}: {error}") from None
    if problem:
        raise RecordError(problem)
    return dict(value)


@lru_cache(maxsize=1024)
def _limits_problem(text: str) -> str:
    try:
        Policy(limits=json.loads(text))
    except PolicyError as error:
        return str(error)
    return ""


_OTHER_FORMATS = {
    "task_id": "humaneval",
    "completion": "humaneval",
    "question_id": "livecodebench",
    "problem_id": "apps",
}
"""Fields of a benchmark's own lines, and the word for ``stockade eval`` that reads them."""


def _known(record: Mapping[str, Any], known: Sequence[str], place: str) -> None:
    for key in record:
        if key not in known:
            if not place and key in _OTHER_FORMATS:
                word = _OTHER_FORMATS[key]
                raise RecordError(f"{key}: there is no such field; for lines of that benchmark: stockade eval {word}")
            near = nearest(str(key), known)
            meant = f"; did you mean {near!r}?" if near else "; put data of your own into 'meta'"
            raise RecordError(f"{place}{key}: there is no such field{meant if not place or near else ''}")


def _text(record: Mapping[str, Any], key: str, default: str) -> str:
    value = record.get(key, default)
    if not isinstance(value, str):
        raise RecordError(f"{key} = {_shown(value)}: expected a text")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")
