"""Errors about a result: those that ``Result.check`` raises, and data that is not a stored result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.core.errors import StockadeError

if TYPE_CHECKING:
    from stockade.runs.result import Result


class ResultError(StockadeError):
    """Base of the errors that ``Result.check()`` raises. ``result`` is the result that was checked."""

    def __init__(self, message: str, result: Result) -> None:
        self.result = result
        super().__init__(message)


class ResourceExhausted(ResultError):
    """A limit ended the run."""


class GuestFailed(ResultError):
    """The code ran and failed: a non-zero exit status or a signal."""


class Cancelled(ResultError):
    """The caller cancelled the run."""


class ResultFormatError(StockadeError):
    """A result cannot be stored as data, or data is not a stored result. The message names the field and the value."""
