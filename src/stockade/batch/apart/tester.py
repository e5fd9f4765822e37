"""Runs in the test's sandbox: the test, with functions that ask the answer's sandbox for every value.

No code of the answer is here. What comes from it is a line at a time, bounded, decoded to exact built-in types.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

from stockade.batch.apart.codec import MAX_BYTES, CodecError, decode, encode
from stockade.batch.apart.endings import GONE, NONSENSE, NOT_PLAIN, PASSED

_USUAL = (AttributeError, IndexError, KeyError, NameError, RuntimeError, TypeError, ValueError, ZeroDivisionError)
_ERRORS: dict[str, type[Exception]] = {error.__name__: error for error in _USUAL}


class AnswerError(Exception):
    """The answer raised something else than the usual errors, or returned something else than plain data."""


class Answer:
    """The answer's functions, as the test calls them. Takes over standard input and output."""

    def __init__(self) -> None:
        self._calls = os.dup(1)
        self._replies: BinaryIO = os.fdopen(os.dup(0), "rb")
        os.dup2(2, 1)  # a test that prints must not speak to the answer

    def function(self, name: str) -> Callable[..., Any]:
        """Return what stands for the answer's function ``name``."""

        def call(*arguments: Any, **named: Any) -> Any:
            data = _message(name, arguments, named)
            while data:
                data = data[os.write(self._calls, data) :]
            return read_reply(self._replies.readline(MAX_BYTES + 1))

        return call


def read_reply(line: bytes) -> Any:
    """Return what the answer returned, or raise what it raised; anything else ends the test at once."""
    if not line:
        _end(GONE)
    try:
        reply = decode(line)
    except CodecError:
        _end(NONSENSE)
    if type(reply) is tuple and reply[:1] in (("returned",), ("raised",), ("refused",)):
        if len(reply) == 2 and reply[0] == "returned":
            return reply[1]
        if len(reply) == 3 and reply[0] == "raised" and type(reply[1]) is type(reply[2]) is str:
            raise _ERRORS.get(reply[1], AnswerError)(reply[2])
        if len(reply) == 2 and reply[0] == "refused" and type(reply[1]) is str:
            raise AnswerError(reply[1])
    return _end(NONSENSE)


def run(test: dict[str, Any], function: Callable[[str], Callable[..., Any]]) -> str:
    """Run the test. ``setup`` gives it the helpers that it may use, and perhaps stubs of the answer's functions."""
    namespace: dict[str, Any] = {"__name__": "test"}
    exec(compile(test["setup"], "setup.py", "exec"), namespace)
    for name in test["functions"]:
        namespace[name] = function(name)
    exec(compile(test["code"], "test.py", "exec"), namespace)
    if test["check"]:
        namespace[test["check"]](function(test["functions"][0]))
    return PASSED


def main(test: dict[str, Any]) -> str:
    """Run the test: its ``setup``, ``code``, ``check``, and the ``functions`` that it asks for."""
    return run(test, Answer().function)


def _message(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    try:
        return encode([name, list(arguments), named])
    except CodecError:
        _end(NOT_PLAIN)


def _end(status: int) -> NoReturn:
    os._exit(status)  # not an exception, which a test might catch
