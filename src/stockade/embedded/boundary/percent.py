"""``template % values``: parsed here, because CPython would render nested values and any width without a price."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.facades import TypeFacade
from stockade.embedded.boundary.kinds import INTEGERS, SCALARS
from stockade.embedded.boundary.owned import deque
from stockade.embedded.boundary.rendering import SAFE_REPR

if TYPE_CHECKING:
    from stockade.embedded.boundary.rendering import Rendering

_PERCENT = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?(?P<flags>[#0\- +]*)(?P<size>(?:\d+)?(?:\.\d*)?)[hlL]?(?P<kind>.)", re.DOTALL
)
_MISSING = object()


class Percent:
    """The ``%`` of texts of one runtime."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    def render(self, template: str, values: Any) -> str:
        """Return ``template % values``."""
        named = hasattr(type(values), "__getitem__") and not isinstance(values, tuple | str | deque | TypeFacade)
        given = iter(values if isinstance(values, tuple) else (values,))
        parts: list[str] = []
        position = 0
        for match in _PERCENT.finditer(template):
            parts.append(self._plain_part(template[position : match.start()]))
            position = match.end()
            self._rendering.meter.charge(1)
            if match["kind"] == "%" and match["key"] is None:
                parts.append("%")
                continue
            if match["key"] is not None:
                value = values[match["key"]] if named else _refuse("format requires a mapping")
            else:
                value = next(given, _MISSING)
                if value is _MISSING:
                    raise TypeError("not enough arguments for format string")
            parts.append(self._percent_part(match, value))
        parts.append(self._plain_part(template[position:]))
        if not named and next(given, _MISSING) is not _MISSING:
            raise TypeError("not all arguments converted during string formatting")
        return self._rendering.cat(*parts)

    @staticmethod
    def _plain_part(text: str) -> str:
        if "%" in text:
            raise ValueError("incomplete or unsupported format")
        return text

    def _percent_part(self, match: re.Match[str], value: Any) -> str:
        kind, size = match["kind"], match["size"]
        self._rendering.pay_spec(size)
        if kind == "*":
            raise ValueError("'*' is not supported in a format")
        if kind in "sra":
            text = (
                self._rendering.str_of(value)
                if kind == "s"
                else self._rendering.repr_of(value)
                if kind == "r"
                else self._rendering.formatted(value, "", "a")
            )
            value, kind = text, "s"
        elif type(value) in INTEGERS:
            self._rendering.pay_digits(value)
        elif type(value) not in SCALARS and type(value) not in SAFE_REPR:
            raise TypeError(f"%{kind} format: a real number is required, not {type(value).__name__}")
        elif type(value) is Decimal and abs(value.adjusted()) > 10_000:
            raise ValueError("a Decimal with this exponent cannot be formatted")
        return self._rendering.fitting(str.__mod__(f"%{match['flags']}{size}{kind}", (value,)))


def _refuse(reason: str) -> Any:
    raise TypeError(reason)
