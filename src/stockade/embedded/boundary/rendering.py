"""Text of values: ``repr``, ``str``, fields, ``format`` and ``%``. Each piece is sized before it is used.

CPython's own ``repr`` of a nested value can take for ever and exhaust memory before its size is known. This renderer
makes the same text piece by piece. It shows no addresses, so the text of functions and plain objects differs from
CPython's.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections import Counter, OrderedDict
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.facades import GenericAlias, UnionType
from stockade.embedded.boundary.kinds import DICTS, FLAT, INTEGERS, MOMENTS, SCALARS, SETS, TEXTS, VIEWS, digits
from stockade.embedded.boundary.meter import is_script_function
from stockade.embedded.boundary.owned import defaultdict, deque

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stockade.embedded.boundary.kinds import Scales

_PLAIN_INTEGER = 10**100
_LEAST_PLAIN = -_PLAIN_INTEGER
MOST_WIDTH = 100_000
_CALENDAR_DATE: Any = type(datetime.date.min.isocalendar())
_DIGIT_RUNS = re.compile(r"\d+")
_BRACKETS: dict[Any, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}
_OPEN: dict[Any, str] = {list: "[...]", tuple: "(...)", deque: "[...]"}
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE, Include/object.h


class Rendering:
    """Renders the values of one runtime."""

    def __init__(self, scales: Scales) -> None:
        self.scales, self.meter = scales, scales.meter
        self._open: list[int] = []

    def repr_of(self, value: Any) -> str:
        """Return ``repr(value)``."""
        kind: Any = type(value)
        if kind in FLAT:
            return repr(value)
        if kind in TEXTS:
            self.meter.charge(1 + len(value) // prices.BYTES)
            return self.fitting(repr(value))
        if kind in INTEGERS:
            self.pay_digits(value)
            return repr(value)
        if kind in DICTS or kind in SETS or kind in VIEWS or kind in (list, tuple, deque) or isinstance(value, tuple):
            return self._container(value)
        return self._other(value)

    def str_of(self, value: Any) -> str:
        """Return ``str(value)``."""
        kind: Any = type(value)
        if type(value) is str:
            return value
        if kind is int and _LEAST_PLAIN < value < _PLAIN_INTEGER:
            return str(value)
        if isinstance(value, BaseException) and not is_script_function(kind.__str__):
            return self._message(value)
        if kind in FLAT or kind in INTEGERS or kind.__str__ is object.__str__:
            return self.repr_of(value)
        if _is_script_class(kind):
            return self._checked_text(kind.__str__(value), "__str__")
        return self.repr_of(value) if self._renders(kind) else str(value)

    def text(self, value: Any) -> str:
        """Return the text of a field without a format."""
        if type(value) is str:
            return value
        if type(value) is int:
            return self.str_of(value)
        return self.formatted(value) if _is_script_class(type(value)) else self.str_of(value)

    @staticmethod
    def _renders(kind: type) -> bool:
        return (
            kind in DICTS
            or kind in SETS
            or kind in VIEWS
            or kind in (list, tuple, deque, bytes)
            or issubclass(kind, tuple)
        )

    def _message(self, error: BaseException) -> str:
        args = _args(error)
        if isinstance(error, KeyError) and len(args) == 1:
            return self.repr_of(args[0])
        if not args:
            return ""
        if isinstance(error, OSError | UnicodeError | ImportError) and set(map(type, args)) <= SCALARS:
            return self.fitting(_plain_message(error, args))
        return self.str_of(args[0]) if len(args) == 1 else self.repr_of(args)

    def _other(self, value: Any) -> str:
        kind: Any = type(value)
        name = kind.__name__
        if isinstance(value, type):
            return f"<class '{value.__name__}'>"
        if kind is UnionType or kind is GenericAlias:
            return repr(value)
        if isinstance(value, BaseException) and kind.__repr__ is BaseException.__repr__:
            inner = ", ".join(map(self.repr_of, _args(value)))
            return self.fitting(f"{name}({inner})")
        if isinstance(value, Enum) and kind.__repr__ is Enum.__repr__:
            return f"<{name}.{value.name}: {self.repr_of(value.value)}>"
        if _is_script_class(kind) and kind.__repr__ is not object.__repr__:
            return self._checked_text(kind.__repr__(value), "__repr__")
        if kind in SAFE_REPR:
            self.scales.weigh(value)
            return self.fitting(repr(value))
        called = getattr(value, "__name__", "")
        return f"<{name} {called}>" if type(called) is str and called else f"<{name} object>"

    def plain(self, value: Any, method: str) -> str:
        """Return the text that ``object`` or an exception class would give, whatever the script's class defines."""
        if isinstance(value, BaseException):
            inner = ", ".join(map(self.repr_of, _args(value)))
            return self._message(value) if method == "__str__" else self.fitting(f"{type(value).__name__}({inner})")
        return f"<{type(value).__name__} object>"

    def _checked_text(self, text: Any, method: str) -> str:
        if type(text) is not str:
            raise TypeError(f"{method} returned non-string (type {type(text).__name__})")
        return text

    def _container(self, value: Any) -> str:
        if self._open:
            self.meter.charge(1 + len(value) // prices.NODES)
        else:
            self.scales.weigh(value)
        if id(value) in self._open:
            return _OPEN.get(type(value), "{...}")
        self._open.append(id(value))
        try:
            return self.fitting(self._frame(value))
        finally:
            self._open.pop()

    def recursive(self, value: Any, render: Callable[[], str]) -> str:
        """Return ``render()``, or three dots if ``value`` is being rendered already."""
        if id(value) in self._open:
            return "..."
        self._open.append(id(value))
        try:
            return self.fitting(render())
        finally:
            self._open.pop()

    def _frame(self, value: Any) -> str:
        kind: Any = type(value)
        if kind in _BRACKETS:
            if not value and kind in SETS:
                return f"{kind.__name__}()"
            opening, closing = _BRACKETS[kind]
            return opening + self._joined(value) + ("," if kind is tuple and len(value) == 1 else "") + closing
        if kind in DICTS:
            return self._mapping(value)
        if kind is deque:
            more = f", maxlen={value.maxlen}" if value.maxlen is not None else ""
            return f"deque([{self._joined(value)}]{more})"
        if kind in VIEWS:
            return f"{kind.__name__}([{self._joined(value)}])"
        return self._named_tuple(value)

    def _named_tuple(self, value: Any) -> str:
        names = getattr(type(value), "_fields", None)
        own: Any = type(value).__repr__
        if getattr(own, "__module__", "") not in ("collections", None) and is_script_function(own):
            return self._checked_text(own(value), "__repr__")
        if type(value) is _CALENDAR_DATE:
            return repr(value)
        if names is None:
            return "(" + self._joined(value) + ")"
        pairs = (f"{name}={self.repr_of(item)}" for name, item in zip(names, value, strict=True))
        return f"{type(value).__name__}({self._gathered(pairs)})"

    def _mapping(self, value: Any) -> str:
        kind: Any = type(value)
        items = value.most_common() if kind is Counter else value.items()
        is_listed = kind is OrderedDict and sys.version_info < (3, 12)
        opening, between, closing = ("(", ", ", ")") if is_listed else ("", ": ", "")
        pairs = ((self.repr_of(key), self.repr_of(item)) for key, item in items)
        inner = self._gathered(f"{opening}{key}{between}{item}{closing}" for key, item in pairs)
        text = f"[{inner}]" if is_listed else f"{{{inner}}}"
        if kind is defaultdict:
            factory = "None" if value.default_factory is None else self.repr_of(value.default_factory)
            return f"defaultdict({factory}, {text})"
        if kind is dict:
            return text
        return f"{kind.__name__}({text if value else ''})"

    def _joined(self, values: Iterable[Any]) -> str:
        return self._gathered(map(self.repr_of, values))

    def _gathered(self, texts: Iterable[str]) -> str:
        parts, size = [], 0
        for text in texts:
            size += len(text) + 2
            if size > self.meter.value_cap:
                self.meter.fits(size)
            parts.append(text)
        self.meter.charge(1 + size // prices.BYTES)
        return ", ".join(parts)

    def fitting(self, text: str) -> str:
        """Return ``text`` if it is within the cap on values."""
        if len(text) > 256:
            self.meter.fits((len(text) if text.isascii() else 4 * len(text)) + 64)
        return text

    def pay_digits(self, value: int) -> None:
        """Pay for the decimal digits of an integer. CPython refuses more than 4,300 unless its limit was changed."""
        size = digits(value)
        if size > 16:
            self.meter.charge(1 + size * size // prices.DIGITS)

    def formatted(self, value: Any, spec: str = "", conversion: str = "") -> str:
        """Return ``format(value, spec)`` after ``!r``, ``!s`` or ``!a``."""
        if conversion:
            value = self.str_of(value) if conversion == "s" else self.repr_of(value)
            if conversion == "a":
                value = value.encode("ascii", "backslashreplace").decode()
        if type(spec) is not str:
            raise TypeError(f"format spec must be str, not {type(spec).__name__}")
        if not spec and not _is_script_class(type(value)):
            return self.str_of(value)
        self.pay_spec(spec)
        kind: Any = type(value)
        if kind is Decimal and abs(value.adjusted()) > 10_000:
            raise ValueError("a Decimal with this exponent cannot be formatted")
        if kind in SCALARS:
            self.scales.weigh(value)
            if kind in INTEGERS:
                self.pay_digits(value)
            return self.fitting(format(value, spec))
        if kind in SAFE_REPR:
            self.scales.weigh(value)
            if kind in MOMENTS:
                check_directives(spec)
            if len(spec) > prices.BYTES:
                self.meter.charge(len(spec))
            return self.fitting(format(value, spec))
        return self._own_format(value, spec)

    def _own_format(self, value: Any, spec: str) -> str:
        kind: Any = type(value)
        format_own: Any = kind.__format__
        if is_script_function(format_own):
            return self._checked_text(format_own(value, spec), "__format__")
        if isinstance(value, Enum) or not spec:
            return format(self.str_of(value), spec)
        raise TypeError(f"unsupported format string passed to {kind.__name__}.__format__")

    def pay_spec(self, spec: str) -> None:
        """Refuse a width or precision that makes a text too large, and pay for the others."""
        if len(spec) > MOST_WIDTH:
            raise ValueError("format specification is too long")
        for run in _DIGIT_RUNS.findall(spec):
            size = int(run) if len(run) < 10 else MOST_WIDTH + 1
            if size > self.meter.value_cap:
                self.meter.fits(size)
            if size > MOST_WIDTH:
                raise ValueError(f"width or precision {run[:20]} is over {MOST_WIDTH:,}")
            self.meter.charge(1 + size // prices.BYTES)

    def cat(self, *parts: str) -> str:
        """Return the pieces of an f-string as one text."""
        size = sum(map(len, parts))
        if size > 256:
            if not all(map(str.isascii, parts)):
                size *= 4
            self.meter.fits(size + 64)
            self.meter.charge(1 + size // prices.BYTES)
        return "".join(parts)


def check_directives(template: str) -> None:
    """Refuse the directive of ``strftime`` that reads the time zone of the host."""
    if "%s" in template.replace("%%", ""):
        raise ValueError("the directive %s depends on the host, and is not available in scripts")


_args: Callable[[BaseException], tuple[Any, ...]] = BaseException.args.__get__  # type: ignore[attr-defined]
"""Return the arguments of an exception, whatever a class of the script calls ``args``."""


def _plain_message(error: BaseException, args: tuple[Any, ...]) -> str:
    """Return the text that CPython gives an error with these arguments, whatever became of its attributes."""
    kind = next(kind for kind in type(error).__mro__ if kind.__flags__ & _IMMUTABLE)
    return str(kind(*args))


def _is_script_class(kind: type) -> bool:
    return kind.__dict__.get("__module__") == MODULE


MODULE = "__main__"


SAFE_REPR: frozenset[Any] = MOMENTS | {Decimal, Fraction, range, slice, type(NotImplemented), type(...)}
"""Types whose own ``repr`` and ``format`` are short and take constant time for their size."""
