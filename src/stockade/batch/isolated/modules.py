"""A module made of source text that can be found again: by its name, and its source by ``inspect`` and tracebacks."""

from __future__ import annotations

import sys
from typing import Any


class _Source:
    """What ``linecache`` asks for the text of a module that is not a file; see PEP 302."""

    def __init__(self, source: str) -> None:
        self._source = source

    def get_source(self, _name: str) -> str:
        """Return the text."""
        return self._source


def make_module(name: str, source: str) -> dict[str, Any]:
    """Return the namespace of a fresh module ``name`` that is to hold what ``source`` defines, and register it.

    Dataclasses and pickles look a class up in the module of its name.
    """
    module = sys.modules[name] = type(sys)(name)
    names: dict[str, Any] = vars(module)
    names.update(__file__=f"{name}.py", __loader__=_Source(source), __builtins__=__builtins__)
    return names


def execute(source: str, file: str, namespace: dict[str, Any]) -> None:
    """Execute ``source`` without the compiler's settings of this file."""
    exec(compile(source, file, "exec", dont_inherit=True), namespace)
