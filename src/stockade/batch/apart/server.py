"""Runs in the answer's sandbox: calls the answer's functions with what the test sends, and sends back what they return.

Everything here is in the answer's hands once its source has run. That does no harm: whatever it writes is either
plain data, which is what the function is said to have returned, or nonsense, which fails the test.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from stockade.batch.apart.codec import CodecError, decode, encode

_PLAINER = (Counter, OrderedDict, defaultdict)
"""They compare as dictionaries do, so a test may be given one."""


def serve(source: str, functions: list[str]) -> None:
    """Answer calls, one line each, until there are no more."""
    calls = os.fdopen(os.dup(0), "rb")
    replies = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # input() meets its end instead of eating calls
    os.dup2(2, 1)  # and print() goes elsewhere than the replies
    namespace: dict[str, Any] = {"__name__": "answer"}
    exec(compile(source, "answer.py", "exec"), namespace)
    known = {name: _function(namespace, name) for name in functions}
    for line in calls:
        name, arguments, named = decode(line)
        _write(replies, _reply(known[name], arguments, named))


def _function(namespace: dict[str, Any], name: str) -> Callable[..., Any]:
    """Return the function ``name``, or the method of a fresh ``Solution`` at each call."""
    if name not in namespace and "Solution" in namespace:
        return partial(_method, namespace["Solution"], name)
    found: Callable[..., Any] = namespace[name]
    return found


def _method(kind: Callable[[], Any], name: str, *arguments: Any, **named: Any) -> Any:
    return getattr(kind(), name)(*arguments, **named)


def _reply(function: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> bytes:
    try:
        returned = function(*arguments, **named)
    except Exception as error:
        return encode(("raised", type(error).__name__, str(error)[:1000]))
    try:
        return encode(("returned", dict(returned) if type(returned) in _PLAINER else returned))
    except CodecError as error:
        return encode(("refused", str(error)))


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def main(answer: dict[str, Any]) -> None:
    """Serve the answer: its ``source``, and the ``functions`` that may be asked for."""
    serve(answer["source"], answer["functions"])
