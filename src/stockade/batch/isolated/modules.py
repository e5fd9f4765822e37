"""Make a module of source text so that its name can be imported, and ``inspect`` and tracebacks find its source."""

from __future__ import annotations

import sys
from typing import Any


class _Source:
    """A loader from which ``linecache`` gets the text of a module that is not a file; see PEP 302."""

    def __init__(self, source: str) -> None:
        self._source = source

    def get_source(self, _name: str) -> str:
        """Return the text."""
        return self._source


def make_module(name: str, source: str) -> dict[str, Any]:
    """Register a fresh module ``name`` and return its namespace, in which ``source`` is to be executed.

    Dataclasses and pickles look up a class in the module of its name.
    """
    module = sys.modules[name] = type(sys)(name)
    names: dict[str, Any] = vars(module)
    names.update(__file__=f"{name}.py", __loader__=_Source(source), __builtins__=__builtins__)
    return names


def execute(source: str, file: str, namespace: dict[str, Any]) -> None:
    """Execute ``source`` without the compiler flags of this file."""
    exec(compile(source, file, "exec", dont_inherit=True), namespace)
