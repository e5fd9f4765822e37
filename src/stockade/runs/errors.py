"""What ``Result.check`` raises: errors that carry the result of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.core.errors import StockadeError

if TYPE_CHECKING:
    from stockade.runs.result import Result


class ResultError(StockadeError):
    """Base of what ``Result.check()`` raises. ``result`` is the result it was raised for."""

    def __init__(self, message: str, result: Result) -> None:
        self.result = result
        super().__init__(message)


class ResourceExhausted(ResultError):
    """The run was ended by a limit."""


class GuestFailed(ResultError):
    """The code ran and failed: a non-zero exit status or a signal."""


class Cancelled(ResultError):
    """The caller cancelled the run."""
