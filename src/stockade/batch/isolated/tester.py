"""Runs in the test's sandbox: the test, with functions that ask the answer's sandbox for every value.

No code of the answer is here. What comes from it is a line at a time, bounded, decoded to values of known types.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

from stockade.batch.isolated.codec import MAX_BYTES
from stockade.batch.isolated.endings import GONE, NONSENSE, NOT_PLAIN, NOT_RETURNED, NOT_TESTED, PASSED, UNEQUAL
from stockade.batch.isolated.finding import Tests
from stockade.batch.isolated.messages import Call
from stockade.batch.isolated.modules import execute, make_module
from stockade.batch.isolated.scalars import CodecError

_SPECIAL = (AssertionError, StopIteration, StopAsyncIteration)
"""Errors that say something else in a test than in an answer."""
_ERRORS: dict[str, type[Exception]] = {
    name: error
    for name, error in vars(builtins).items()
    if isinstance(error, type)
    and issubclass(error, Exception)
    and not issubclass(error, (*_SPECIAL, UnicodeError, Warning))
    and not name.endswith("Group")
}


class AnswerError(Exception):
    """The answer raised an error that is not one of Python's own."""


class Answer:
    """The answer's functions, as the test calls them. Takes over standard input and output."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._calls = os.dup(1)
        self._replies: BinaryIO = os.fdopen(os.dup(0), "rb")
        self._most = most
        self.asked = 0
        """How many calls there were."""
        os.dup2(2, 1)  # a test that prints must not speak to the answer

    def function(self, name: str) -> Callable[..., Any]:
        """Return what stands for the answer's function ``name``."""

        def ask(*arguments: Any, **named: Any) -> Any:
            self.asked += 1
            call = Call(self._most)
            data = _message(call, name, arguments, named)
            while data:
                data = data[os.write(self._calls, data) :]
            return read_reply(self._replies.readline(self._most + 1), call)

        ask.__name__ = ask.__qualname__ = name
        return ask


def read_reply(line: bytes, call: Call | None = None) -> Any:
    """Return what the answer returned, or raise what it raised; anything else ends the test at once."""
    if not line:
        _end(GONE)
    try:
        word, *reported = (call or Call(MAX_BYTES)).reply(line)
    except CodecError:
        _end(NONSENSE)
    if word == "returned":
        return reported[0]
    if word == "raised" and type(reported[1]) is str:
        names = reported[0] if type(reported[0]) is tuple else (reported[0],)
        raise next((_ERRORS[name] for name in names if type(name) is str and name in _ERRORS), AnswerError)(reported[1])
    if word in ("refused", "unequal") and type(reported[0]) is str:
        _explain(f"the answer returned, or left in an argument, {reported[0]}")
        _end(NOT_RETURNED if word == "refused" else UNEQUAL)
    return _end(NONSENSE)


def run(test: dict[str, Any], answer: Answer) -> str:
    """Run the test. ``setup`` gives it the helpers that it may use, and perhaps stubs of the answer's functions."""
    namespace = make_module("test", test["code"])
    execute(test["setup"], "setup.py", namespace)
    functions = {name: answer.function(name) for name in test["functions"]}
    namespace.update(functions)
    tests = Tests(namespace, functions, lambda: bool(answer.asked))
    try:
        execute(test["code"], "test.py", namespace)
    except SystemExit as error:
        if error.code not in (None, 0) and not _is_of_unittest(error):
            raise
    if test["check"]:
        namespace[test["check"]](functions[test["functions"][0]])
    nothing = tests.run()
    return NOT_TESTED + nothing if nothing else PASSED


def _is_of_unittest(error: BaseException) -> bool:
    """Return whether ``unittest.main`` raised ``error``; what it was to run is found and run anyway."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.endswith("unittest/main.py"):
        trace = trace.tb_next
    return trace is not None


def main(test: dict[str, Any], _program: str) -> str:
    """Run the test: its ``setup``, ``code``, ``check``, the ``functions`` that it asks for, and the ``most`` bytes of a
    message."""
    return run(test, Answer(test["most"]))


def _message(call: Call, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    try:
        return call.ask(name, arguments, named)
    except CodecError as error:
        _explain(f"the test hands over {error}")
        _end(NOT_PLAIN)


def _explain(words: str) -> None:
    """Write the last line of standard error: the judge shows it."""
    line = "".join(c if c.isprintable() else "?" for c in words[:400])
    os.write(2, f"\n{line}\n".encode("utf-8", "replace"))


def _end(status: int) -> NoReturn:
    os._exit(status)  # not an exception, which a test might catch
