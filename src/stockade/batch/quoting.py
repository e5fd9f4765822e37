"""Choose the line of a program's output that explains its end best: pure functions on text of any kind."""

from __future__ import annotations

import ast
import re

from stockade.runs.result import GuestError

_LONGEST = 300
_ERROR = re.compile(
    r"^(Exception in thread|Caused by: |panic: |fatal error: |thread '.*' .*(panicked at|overflowed)|terminate called"
    r"|[\w.$]*(Error|Exception)\b|.*: (\w+(::\w+)*)?(Error|error)\b)"
)
_FRAME = re.compile(r'File "(?:[^"]*/)?(?:test|main)\.py", line (\d+)')
_HEADED = re.compile(r"^(thread '.*' .*panicked at .*:|terminate called after throwing .*)$")


def last_error_line(stderr: str) -> str:
    """Return the line that says what went wrong: the last one that names an error, or else the last line.

    Lines of a stack trace are indented or follow the line that names the error, so they are not taken.
    """
    lines = [line.rstrip() for line in stderr.split("\n") if line.strip()]
    named = [at for at, line in enumerate(lines) if _ERROR.match(line)]
    if not named:
        outer = [line for line in lines if not line[0].isspace()] or lines
        return _short(outer[-1]) if outer else ""
    at = named[-1]
    if _HEADED.match(lines[at]) and at + 1 < len(lines):  # the message is on the next line
        return _short(f"{lines[at]} {lines[at + 1].strip()}")
    return _short(lines[at])


def compiler_error_line(stderr: str) -> str:
    """Return the first line in which a compiler names an error, or else its first line."""
    lines = [line.strip() for line in stderr.split("\n") if line.strip() and not line.startswith("#")]
    named = (line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE))
    return _short(next(named, lines[0] if lines else "it printed nothing"))


def asserted(error: GuestError | None, source: str) -> str:
    """Return the statement of ``source`` that failed, if the assertion has no message; otherwise an empty string."""
    if error is None or error.message.strip():
        return ""
    lines, found = source.split("\n"), _FRAME.findall(error.traceback)
    at = int(found[-1][:9]) if found else 0
    if not 0 < at <= len(lines):
        return ""
    begin, end = _statement(source, at)
    return _short(" ".join(line.strip() for line in lines[begin - 1 : end]))


def _statement(source: str, line: int) -> tuple[int, int]:
    """Return the first and the last line of the assertion that contains ``line``."""
    try:
        nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = []
    places = [(node.lineno, node.end_lineno or node.lineno) for node in nodes]
    return next((place for place in places if place[0] <= line <= place[1]), (line, line))


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
