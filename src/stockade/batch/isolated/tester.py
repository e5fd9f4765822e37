"""Runs in the test's sandbox: the test, with functions that send every call to the answer's sandbox.

No code of the answer is here. Replies arrive one line at a time, bounded, and are decoded to values of known types.
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
"""Errors that have a meaning of their own in a test. The answer must not be able to raise them there."""
_ERRORS: dict[str, type[Exception]] = {
    name: error
    for name, error in vars(builtins).items()
    if isinstance(error, type)
    and issubclass(error, Exception)
    and not issubclass(error, (*_SPECIAL, UnicodeError, Warning))
    and not name.endswith("Group")
}


class AnswerError(Exception):
    """The answer raised an error that is not a built-in one."""


class Answer:
    """The answer's functions, as the test calls them. Takes over standard input and output."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._calls = os.dup(1)
        self._replies: BinaryIO = os.fdopen(os.dup(0), "rb")
        self._most = most
        self.calls = 0
        """The number of calls so far."""
        os.dup2(2, 1)  # so that output of the test does not reach the answer

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function that calls the answer's function ``name``."""

        def ask(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            call = Call(self._most)
            data = _message(call, name, arguments, named)
            while data:
                data = data[os.write(self._calls, data) :]
            return read_reply(self._replies.readline(self._most + 1), call)

        ask.__name__ = ask.__qualname__ = name
        return ask


def read_reply(line: bytes, call: Call | None = None) -> Any:
    """Return the answer's value or raise its error; end the test at once if the reply is neither."""
    if not line:
        _end(GONE)
    try:
        kind, *reported = (call or Call(MAX_BYTES)).decode_reply(line)
    except CodecError:
        _end(NONSENSE)
    if kind == "returned":
        return reported[0]
    if kind == "raised" and type(reported[1]) in (str, tuple):
        raise _error(reported[0], reported[1])
    if kind in ("refused", "unequal") and type(reported[0]) is str:
        _explain(f"the answer returned, or left in an argument, {reported[0]}")
        _end(NOT_RETURNED if kind == "refused" else UNEQUAL)
    return _end(NONSENSE)


def _error(names: Any, reported: str | tuple[Any, ...]) -> Exception:
    """Return the error that the answer raised, of the built-in class named first, with its arguments or its message."""
    names = names if type(names) is tuple else (names,)
    kind = next((_ERRORS[name] for name in names if type(name) is str and name in _ERRORS), AnswerError)
    try:
        return kind(*(reported if isinstance(reported, tuple) else (reported,)))
    except Exception as error:  # not what this class takes
        return kind(str(error))


def run(test: dict[str, Any], answer: Answer) -> str:
    """Run the test. ``setup`` defines helpers, and perhaps stubs that the answer's functions replace."""
    try:
        program = compile(test["code"], "test.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # it says nothing about the answer
        return f"{NOT_TESTED}the test does not compile: {error}"
    namespace = make_module("test", test["code"])
    execute(test["setup"], "setup.py", namespace)
    functions = {name: answer.function(name) for name in test["functions"]}
    namespace.update(functions)
    tests = Tests(namespace, functions, lambda: bool(answer.calls))
    try:
        exec(program, namespace)
    except SystemExit as error:
        if error.code not in (None, 0) and not _is_of_unittest(error):
            raise
    if test["check"]:
        namespace[test["check"]](functions[test["functions"][0]])
    nothing = tests.run()
    return NOT_TESTED + nothing if nothing else PASSED


def _is_of_unittest(error: BaseException) -> bool:
    """Return whether ``unittest.main`` raised ``error``. The tests that it would have run are found and run anyway."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.endswith("unittest/main.py"):
        trace = trace.tb_next
    return trace is not None


def main(test: dict[str, Any], _program: str) -> str:
    """Run the test: ``setup``, ``code``, ``check``, the ``functions`` to call, and the ``most`` bytes of a message."""
    return run(test, Answer(test["most"]))


def _message(call: Call, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    try:
        return call.encode_call(name, arguments, named)
    except CodecError as error:
        _explain(f"the test passes {error}")
        _end(NOT_PLAIN)


def _explain(text: str) -> None:
    """Write the last line of standard error, which the judge shows."""
    line = "".join(c if c.isprintable() else "?" for c in text[:400])
    os.write(2, f"\n{line}\n".encode("utf-8", "replace"))


def _end(status: int) -> NoReturn:
    os._exit(status)  # not an exception, since the test might catch it
