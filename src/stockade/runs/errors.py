"""Errors about a result: those that ``Result.check`` raises, and data that is not a stored result."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from stockade.core.errors import Exhausted, StockadeError, nearest

if TYPE_CHECKING:
    from stockade.runs.result import Result


class ResultError(StockadeError):
    """Base of the errors that ``Result.check()`` raises. ``result`` is the result that was checked."""

    def __init__(self, message: str, result: Result) -> None:
        self.result = result
        super().__init__(message)


class ResourceExhausted(ResultError, Exhausted):
    """A limit ended the run."""


class GuestFailed(ResultError):
    """The code ran and failed: a non-zero exit status or a signal."""


class Cancelled(ResultError):
    """The caller cancelled the run."""


class ResultFormatError(StockadeError):
    """A result cannot be stored as data, or data is not a stored result. The message names the field and the value."""


def meant_attribute(name: str, kind: type[Result]) -> str:
    """Return the end of an error about the missing attribute ``name``: which one was probably meant."""
    known = [*(each.name for each in fields(kind)), *(each for each in dir(kind) if each[0] != "_")]
    near = "" if name.startswith("_") else nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""
