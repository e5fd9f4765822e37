"""The guard of ``with``. A context of the script may swallow exceptions of the script, but no interrupt of the host."""

from __future__ import annotations

from inspect import CO_GENERATOR
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.facades import Fixed
from stockade.embedded.boundary.meter import is_script_function

if TYPE_CHECKING:
    from collections.abc import Callable


class Entering:
    """The guard of one runtime. ``caught`` raises again what a script must not keep."""

    def __init__(self, caught: Callable[[], None]) -> None:
        self._caught = caught

    def context(self, value: Any) -> Any:
        """Return what a ``with`` statement enters for ``value``.

        A woven ``__exit__`` begins with the check. A decorator can put anything else in its place.
        """
        leave = getattr(type(value), "__exit__", None)
        if leave is None or isinstance(type(value), Fixed) or _is_woven(leave):
            return value
        return _Checked(value, self._caught) if hasattr(type(value), "__enter__") else value


class _Checked:
    """Enters and leaves another context. No script sees this object."""

    __slots__ = ("_caught", "_value")

    def __init__(self, value: Any, caught: Callable[[], None]) -> None:
        self._value, self._caught = value, caught

    def __enter__(self) -> Any:
        return type(self._value).__enter__(self._value)

    def __exit__(self, *details: Any) -> Any:
        self._caught()
        return type(self._value).__exit__(self._value, *details)


def _is_woven(leave: Any) -> bool:
    if not is_script_function(leave):
        return False
    code = leave.__code__
    return code.co_name == "__exit__" and not code.co_flags & CO_GENERATOR
