"""Functions of the caller that the cells of an interpreter can call. They run outside; only plain data passes."""

from __future__ import annotations

import inspect
import json
import keyword
from collections.abc import Callable, Mapping
from typing import Any

from stockade.api.plain import check_plain
from stockade.core.errors import JobError

MOST_CALLS = 1000
"""Calls of one cell."""
_MOST_TEXT = 4000


class CallRefused(Exception):
    """A call is not made. The guest learns the text."""

    is_for_scripts = True


class Functions:
    """The functions of one interpreter. Every call comes from the guest, which can call with any data at any time."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], longest: int) -> None:
        for name, function in functions.items():
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise JobError(f"functions: {name!r:.80} is not a name of a function")
            if not callable(function) or inspect.iscoroutinefunction(function):
                raise JobError(f"functions[{name!r}] = {function!r:.80}: pass a function that is not async")
        self._functions, self._longest = dict(functions), longest

    def __bool__(self) -> bool:
        return bool(self._functions)

    @property
    def names(self) -> list[str]:
        """The names, which cells see as global ones."""
        return list(self._functions)

    def answer(self, payload: bytes, calls: int) -> dict[str, Any]:
        """Make a call and return the answer. ``calls`` is the number of earlier calls of the cell.

        An exception of the function is a part of the answer, and its text only if it was raised for guests
        (``stockade.embedded.HostError``). Raises ``ValueError`` for what is not a call.
        """
        number, name, args, kwargs = _read(payload)
        try:
            return {"number": number, "value": self._called(name, args, kwargs, calls)}
        except Exception as error:
            text = f"{name}() failed outside of the sandbox"
            if getattr(error, "is_for_scripts", False) is True:
                text = str(error)[:_MOST_TEXT]
            return {"number": number, "error": text}

    def _called(self, name: str, args: list[Any], kwargs: dict[str, Any], calls: int) -> Any:
        if name not in self._functions:
            raise CallRefused(f"no function has the name {name!r:.80}")
        if calls >= MOST_CALLS:
            raise CallRefused(f"{name}(): a cell makes at most {MOST_CALLS} calls")
        function = self._functions[name]
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise CallRefused(f"{name}(): {error}") from None
        except ValueError:
            pass  # a built-in function without a signature
        value = function(*args, **kwargs)
        try:
            check_plain(value, f"{name}()")
            size = len(json.dumps(value))
        except JobError as error:
            raise CallRefused(str(error)) from None
        if size > self._longest:
            raise CallRefused(f"{name}() returns {size} bytes, and {self._longest} is the most")
        return value


def _read(payload: bytes) -> tuple[int, str, list[Any], dict[str, Any]]:
    """Return a call's number, name and arguments. Raises ``ValueError``."""
    try:
        call = json.loads(payload, parse_constant=_refused)
        number, name, args, kwargs = (call[field] for field in ("number", "name", "args", "kwargs"))
        check_plain(args, "args")
        check_plain(kwargs, "kwargs")
    except (RecursionError, TypeError, KeyError, JobError) as error:
        raise ValueError(f"a call that is not one: {error!r:.200}") from None
    if type(number) is not int or type(name) is not str or type(args) is not list or type(kwargs) is not dict:
        raise ValueError("a call with fields of other types")
    return number, name, args, kwargs


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not plain data")
