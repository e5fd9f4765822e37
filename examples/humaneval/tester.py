"""Runs in the test's sandbox: the problem's test, with a candidate that asks the answer's sandbox for every value.

No code of the answer is here. What comes from it is a line at a time, bounded, decoded to exact built-in types.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from examples.humaneval.codec import MAX_BYTES, CodecError, decode, encode

GONE = 3
"""Exit status: the answer's sandbox ended before the test did."""
NONSENSE = 4
"""Exit status: what came as a reply is none."""
PASSED = "passed"

_USUAL = (AttributeError, IndexError, KeyError, NameError, RuntimeError, TypeError, ValueError, ZeroDivisionError)
_ERRORS: dict[str, type[Exception]] = {error.__name__: error for error in _USUAL}


class AnswerError(Exception):
    """The answer raised something else than the usual errors, or returned something else than plain data."""


def candidate() -> Callable[..., Any]:
    """Return the function that the test calls; takes over standard input and output for it."""
    calls, replies = os.dup(1), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)  # a test that prints must not speak to the answer

    def call(*arguments: Any) -> Any:
        data = encode(list(arguments))
        while data:
            data = data[os.write(calls, data) :]
        return read_reply(replies.readline(MAX_BYTES + 1))

    return call


def read_reply(line: bytes) -> Any:
    """Return what the answer returned, or raise what it raised; anything else ends the test at once."""
    if not line:
        _end(GONE)
    try:
        reply = decode(line)
    except CodecError:
        _end(NONSENSE)
    match reply:
        case ("returned", value) if type(reply) is tuple:
            return value
        case ("raised", str(kind), str(message)):
            raise _ERRORS.get(kind, AnswerError)(message)
        case ("refused", str(reason)):
            raise AnswerError(reason)
    return _end(NONSENSE)


def run(problem: dict[str, str], call: Callable[..., Any]) -> str:
    """Run the test. The prompt gives it the helpers that it may use, and a stub in the candidate's place."""
    namespace: dict[str, Any] = {"__name__": "test"}
    exec(compile(problem["prompt"], "prompt.py", "exec"), namespace)
    namespace[problem["entry_point"]] = call
    exec(compile(problem["test"], "test.py", "exec"), namespace)
    namespace["check"](call)
    return PASSED


def main() -> str:
    """Run the test that lies in the workspace."""
    problem = json.loads(Path("problem.json").read_text(encoding="utf-8"))
    return run(problem, candidate())


def _end(status: int) -> NoReturn:
    os._exit(status)  # not an exception, which a test might catch
