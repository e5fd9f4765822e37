"""Find and run tests that a test's source only defines: functions, classes and cases of ``unittest``.

A source that calls none of the answer's functions has tested nothing, whatever it defines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

_NOTHING = "the test calls none of the answer's functions"


class NotTestedError(Exception):
    """The test ended without testing anything."""


class Tests:
    """The tests that a source defines between the creation of this object and ``run``."""

    def __init__(self, namespace: dict[str, Any], functions: dict[str, Any], called: Callable[[], bool]) -> None:
        """``functions`` maps names to the answer's functions; ``called`` returns whether one of them was called."""
        self._namespace, self._functions, self._called = namespace, functions, called
        self._before = dict(namespace)

    def run(self) -> str:
        """Run the tests that the source did not run itself; return why nothing was tested, or an empty string."""
        used = self._called()
        needing = [why for function in list(self._functions_found()) for why in self._call(function, used=used)]
        for kind in list(self._classes_found()):
            _run_class(kind)
        if not self._called():
            return needing[0] if needing else _NOTHING
        return "" if used else "; ".join(needing)

    def _own(self) -> Iterator[tuple[str, Any]]:
        known = {*self._functions}
        return (
            (name, value)
            for name, value in self._namespace.items()
            if name not in known and self._before.get(name) is not value
        )

    def _functions_found(self) -> Iterator[Any]:
        for name, value in self._own():
            is_test = name.startswith("test") or (name == "check" and not self._called())
            if is_test and isinstance(value, FunctionType) and value.__globals__ is self._namespace:
                yield value

    def _classes_found(self) -> Iterator[Any]:
        for name, value in self._own():
            own = isinstance(value, type) and value.__module__ == self._namespace["__name__"]
            if own and (_is_case(value) or (name.startswith("Test") and "__init__" not in vars(value))):
                yield value

    def _call(self, function: Any, *, used: bool) -> list[str]:
        """Run a test function; return the reason if its parameters cannot be filled."""
        given = {**self._functions, "candidate": next(iter(self._functions.values()), None)}
        code = function.__code__
        needed = code.co_varnames[: code.co_argcount - len(function.__defaults__ or ())]
        missing = [name for name in needed if name not in given]
        if not missing:
            _finish(function(*(given[name] for name in needed)))
        elif not used:  # if used, it is a helper that the source calls itself
            return [f"{function.__name__}() takes {missing[0]!r}, which the test does not provide"]
        return []


def _finish(value: Any) -> None:
    """Wait for a coroutine that a test has returned."""
    if type(value).__name__ == "coroutine":
        import asyncio

        asyncio.run(value)


def _is_case(kind: type) -> bool:
    unittest = sys.modules.get("unittest")
    return unittest is not None and issubclass(kind, unittest.TestCase)


def _run_class(kind: Any) -> None:
    if _is_case(kind):
        _run_case(kind)
        return
    for name in [name for name in dir(kind) if name.startswith("test")]:
        one = kind()
        getattr(one, "setup_method", _ignore)(getattr(one, name))
        _finish(getattr(one, name)())


def _run_case(kind: Any) -> None:
    """Run each test of a case so that its error is raised unchanged."""
    import unittest

    for each in unittest.defaultTestLoader.loadTestsFromTestCase(kind):
        try:
            unittest.TestSuite([each]).debug()
        except unittest.SkipTest:
            continue


def _ignore(_: object) -> None:
    pass


class Watched:
    """Records whether one of the answer's functions was called, in a program that also holds the test."""

    def __init__(self, namespace: dict[str, Any], functions: list[str]) -> None:
        self._called = not functions
        sys.modules["test"] = sys.modules[namespace["__name__"]]
        namespace["__name__"] = "test"  # otherwise the block of "if __name__ == '__main__'" would run
        for name in functions:
            self._watch(namespace, name)
        found = {name: namespace[name] for name in functions if name in namespace}
        self._tests = Tests(namespace, found, lambda: self._called)

    def _watch(self, namespace: dict[str, Any], name: str) -> None:
        """Replace a function by one that records the call and puts the original back."""
        original = namespace.get(name)
        if not isinstance(original, FunctionType):
            self._called = True  # not a plain function: its calls cannot be observed
            return

        def first(*arguments: Any, **named: Any) -> Any:
            self._called = True
            if namespace.get(name) is first:
                namespace[name] = original
            return original(*arguments, **named)

        first.__name__, first.__qualname__, first.__doc__ = original.__name__, original.__qualname__, original.__doc__
        first.__dict__.update(vars(original), __wrapped__=original)
        namespace[name] = first

    def run(self) -> None:
        """Run the tests that are defined. Raises ``NotTestedError`` with the reason if nothing was tested."""
        nothing = self._tests.run()
        if nothing:
            raise NotTestedError(nothing)
