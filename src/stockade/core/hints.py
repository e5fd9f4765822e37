"""An error about a wrong name suggests the right one: other tools have other names for the same thing."""

from __future__ import annotations

from functools import wraps

from stockade.core.errors import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ParamSpec, TypeVar

    _P = ParamSpec("_P")
    _R = TypeVar("_R")
    _C = TypeVar("_C")

_TAKES_REST, _TAKES_ALL, _IS_ASYNC = 0x04, 0x08, 0x80
"""``inspect.CO_VARARGS``, ``CO_VARKEYWORDS`` and ``CO_COROUTINE``. Their module is slow to import."""


class Hinting:
    """Base of classes whose error about a missing attribute suggests one. Type checkers see no such attribute."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise ``AttributeError`` with the attribute that was probably meant."""
            kind = type(self)
            near = "" if name.startswith("_") else nearest(name, [each for each in dir(kind) if each[0] != "_"])
            hint = f"; did you mean {near!r}?" if near else ""
            # With the object, Python would add a suggestion of its own, maybe of a private name.
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{hint}", name=name, obj=None)


def meant_option(name: str, known: Sequence[str]) -> str:
    """Return advice on ``name``, which is not in ``known``."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"the options are {', '.join(known)}"


def known_options(
    function: Callable[_P, _R], advice: Callable[[str, Sequence[str]], str] = meant_option
) -> Callable[_P, _R]:
    """Make an unknown keyword of ``function`` a ``TypeError`` that suggests a known one.

    Too many arguments by position are a ``TypeError`` that shows how to write the call. A function with ``**options``
    checks keywords itself. It cannot if a required argument is missing, since then Python refuses the call: so the
    keyword that probably stands for that argument is answered here.
    """
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    required = known[: code.co_argcount - len(function.__defaults__ or ())]
    takes_rest, takes_all = bool(code.co_flags & _TAKES_REST), bool(code.co_flags & _TAKES_ALL)
    own = int(known[:1] in (("self",), ("cls",)))
    shown = known[own:]

    def check(values: Sequence[object], options: Iterable[str]) -> None:
        if len(values) > code.co_argcount and not takes_rest:
            named = ("timeout",) if takes_all else known[code.co_argcount :]
            raise TypeError(_by_position(function.__name__, known[own : code.co_argcount], named, values[own:]))
        for name in options:
            if name in known:
                continue
            if not takes_all:
                raise TypeError(f"no option {name!r}: {advice(name, shown)}")
            missing = [each for each in required[len(values) :] if each not in options]
            if missing and nearest(name, missing):
                raise TypeError(f"no option {name!r}: {meant_option(name, missing)}")

    @wraps(function)
    def checked(*values: _P.args, **options: _P.kwargs) -> _R:
        check(values, options)
        return function(*values, **options)

    @wraps(function)
    async def awaited(*values: _P.args, **options: _P.kwargs) -> Any:
        check(values, options)
        return await function(*values, **options)  # type: ignore[misc]

    return awaited if code.co_flags & _IS_ASYNC else checked  # type: ignore[return-value]


def _by_position(name: str, taken: Sequence[str], options: Sequence[str], values: Sequence[object]) -> str:
    """Return how to write a call of ``name`` that has more ``values`` by position than the arguments ``taken``."""
    if taken[:1] == ("argv",) and all(isinstance(each, str) for each in values):
        return f"a command is one list of words: {name}([{', '.join(map(repr, values)):.200}])"
    example = "timeout" if "timeout" in options else next(iter(options), "")
    others = f"; an option goes by its name, such as {example}=..." if example else ""
    return f"{name}() takes {' and '.join(taken) or 'nothing'} by position, and {len(values)} values were given{others}"


def known_fields(kind: type[_C]) -> type[_C]:
    """Make an unknown keyword of the constructor of ``kind`` a ``TypeError`` that suggests a known one."""
    kind.__init__ = known_options(kind.__init__)  # type: ignore[method-assign]
    return kind
