"""Runs in the answer's sandbox: calls the answer's functions for the test, and sends back what they return.

The answer controls everything here once its source has run. That does no harm. Whatever the answer writes is either
plain data, which counts as the return value, or invalid, which fails the test.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from stockade.batch.isolated.messages import Call
from stockade.batch.isolated.modules import execute, make_module


def load(source: str) -> dict[str, Any]:
    """Execute the answer as the module ``answer``; return its names."""
    namespace = make_module("answer", source)
    execute(source, "answer.py", namespace)
    return namespace


def serve(source: str, functions: list[str], most: int) -> None:
    """Answer calls, one line each, until the input ends."""
    calls = os.fdopen(os.dup(0), "rb")
    replies = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # so that input() finds no data instead of consuming calls
    os.dup2(2, 1)  # so that print() does not write among the replies
    namespace = load(source)
    known = {name: _function(namespace, name) for name in functions}
    for line in calls:
        call = Call(most)
        name, arguments, named = call.decode_call(line)
        _write(replies, _reply(call, known[name], arguments, named))


def _function(namespace: dict[str, Any], name: str) -> Callable[..., Any]:
    """Return the function ``name``. Without it, return a method that a fresh ``Solution`` provides at each call."""
    if name not in namespace and "Solution" in namespace:
        return partial(_method, namespace["Solution"], name)
    if name not in namespace:
        raise NameError(f"the answer defines no {name!r}")
    found: Callable[..., Any] = namespace[name]
    return found


def _method(kind: Callable[[], Any], name: str, *arguments: Any, **named: Any) -> Any:
    return getattr(kind(), name)(*arguments, **named)


def _reply(call: Call, function: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> bytes:
    try:
        returned = function(*arguments, **named)
    except Exception as error:
        return call.encode_error(error)
    return call.encode_value(returned)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def main(answer: dict[str, Any], program: str) -> None:
    """Serve the answer: its ``source``, the ``functions`` that the test may call, and the ``most`` bytes of a message.

    ``program`` is the name of the program's module. A process that the answer spawns imports the program again under
    another name. In such a process the answer is only loaded.
    """
    if program == "__main__":
        serve(answer["source"], answer["functions"], answer["most"])
    else:
        load(answer["source"])
