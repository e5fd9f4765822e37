"""Errors that a host can catch when it runs a script. A script's own failure is data: class, message and line."""

from __future__ import annotations

from typing import Any

from stockade.core.errors import Exhausted, StockadeError


class CapExceeded(Exhausted):
    """A cap ended the script, and no handler of the script saw it. The runtime is dead; ``fresh()`` makes a new one.

    ``cap`` is the name of the field of ``Caps``, ``figure`` its value, and ``line`` the line of the script (0 if
    unknown).
    """

    def __init__(self, cap: str, figure: float, line: int = 0) -> None:
        self.cap, self.figure, self.line = cap, figure, line
        place = f" at line {line}" if line else ""
        super().__init__(f"{cap} = {figure:,}: the script reached this cap{place}; the runtime is dead, use fresh()")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.cap, self.figure, self.line)

    def as_json(self) -> dict[str, Any]:
        """Return ``cap``, ``figure`` and ``line``."""
        return super().as_json() | {"cap": self.cap, "figure": self.figure, "line": self.line}


ResourceExhausted = CapExceeded
"""The name to catch; an error is told apart from that of a run by its class name in JSON."""


class ScriptError(StockadeError):
    """The script raised an exception that it did not catch, or its source is refused.

    ``class_name`` and ``message`` describe the exception, and ``line`` is the line of the script (0 if unknown).
    """

    def __init__(self, class_name: str, message: str, line: int = 0, filename: str = "") -> None:
        self.class_name, self.message, self.line, self.filename = class_name, message, line, filename
        place = ", ".join(filter(None, (filename, f"line {line}" if line else "")))
        super().__init__(f"{class_name}: {message}" + (f" ({place})" if place else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.class_name, self.message, self.line, self.filename)

    def redacted(self) -> ScriptError:
        """Return the error without the message and the file name: both can hold names of the script."""
        known = self.class_name if self.class_name in _KNOWN else "Exception"
        return ScriptError(known, "details are withheld", self.line)

    def as_json(self) -> dict[str, Any]:
        """Return ``class_name``, ``message``, ``line`` and ``filename``."""
        own = {"class_name": self.class_name, "line": self.line, "filename": self.filename}
        return super().as_json() | own | {"message": self.message}


class RuntimeDead(StockadeError):
    """A cap or a crash ended this runtime earlier, or it was closed, so it takes no more code."""


class WorkerCrashed(StockadeError):
    """The worker ended in the middle of a call. The runtime is dead; ``fresh()`` makes a new one.

    ``reason`` says how: by a signal, by a limit of its sandbox, such as memory, or by a breach of the protocol, after
    which the caller ended it. A script that can cause a signal or a breach has found a bug: please report it.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the worker that ran the script is gone: {reason}; the runtime is dead, use fresh()")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason,)

    def as_json(self) -> dict[str, Any]:
        """Return ``reason``."""
        return super().as_json() | {"reason": self.reason}


class RuntimeBusy(StockadeError):
    """The runtime runs a script already: a host function or another thread called it."""


class CrossingError(StockadeError):
    """A value cannot cross the border between host and script: its type is not data, or it is too large."""


class HostError(Exception):
    """Raise this in a host function to give the script a message; the text of any other exception stays in the host."""

    is_for_scripts = True


def text_for_scripts(error: BaseException) -> str | None:
    """Return the text that a script may know of a failed host function: only what the host wrote for it."""
    if getattr(error, "is_for_scripts", False) is not True:
        return None
    try:
        return str(error)[:_MOST_TEXT]
    except Exception:
        return None


_MOST_TEXT = 2000
_KNOWN = frozenset({
    "ArithmeticError", "AssertionError", "AttributeError", "Exception", "HostError", "ImportError", "IndexError",
    "KeyError", "LookupError", "NameError", "NotImplementedError", "OverflowError", "RuntimeError", "StopIteration",
    "SyntaxError", "TypeError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError", "ValueError",
    "ZeroDivisionError",
})  # fmt: skip
