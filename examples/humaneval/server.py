"""Runs in the answer's sandbox: calls the answer's function with what the test sends, and sends back what it returns.

Everything here is in the answer's hands once its source has run. That does no harm: whatever it writes is either
plain data, which is what the function is said to have returned, or nonsense, which fails the test.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples.humaneval.codec import CodecError, decode, encode


def serve(source: str, entry_point: str) -> None:
    """Answer calls, one line each, until there are no more."""
    calls = os.fdopen(os.dup(0), "rb")
    replies = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # input() meets its end instead of eating calls
    os.dup2(2, 1)  # and print() goes elsewhere than the replies
    namespace: dict[str, Any] = {"__name__": "answer"}
    exec(compile(source, "answer.py", "exec"), namespace)
    function = namespace[entry_point]
    for line in calls:
        _write(replies, _reply(function, decode(line)))


def _reply(function: Callable[..., Any], arguments: list[Any]) -> bytes:
    try:
        returned = function(*arguments)
    except Exception as error:
        return encode(("raised", type(error).__name__, str(error)[:1000]))
    try:
        return encode(("returned", returned))
    except CodecError as error:
        return encode(("refused", str(error)))


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def main() -> None:
    """Serve the answer that lies in the workspace."""
    serve(Path("answer.py").read_text(encoding="utf-8"), Path("entry_point").read_text(encoding="utf-8"))
