"""Guarded methods of text and bytes: a result that can be larger than the text is sized before it is made."""

from __future__ import annotations

import string
from collections import Counter
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import INTEGERS, TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.operators import Operators
    from stockade.embedded.boundary.rendering import Rendering

_SHORT = 64
_QUADRATIC = frozenset({"rfind", "rindex", "rsplit", "rpartition", "strip", "lstrip", "rstrip"})
_SPLITTING = frozenset({"split", "rsplit", "splitlines"})
_ENCODINGS = frozenset(
    {"utf8", "ascii", "latin1", "iso88591", "utf16", "utf32", "utf16le", "utf16be", "utf32le", "utf32be", "utf8sig"}
)
_HANDLERS = frozenset({"strict", "ignore", "replace", "backslashreplace", "xmlcharrefreplace", "surrogateescape"})


class Texts:
    """The methods of text and bytes of one runtime."""

    def __init__(self, operators: Operators, rendering: Rendering, attribute: Callable[[Any, str], Any]) -> None:
        self.operators, self.rendering, self.meter = operators, rendering, operators.meter
        self._attribute = attribute

    def linear(self, kind: Any, name: str) -> Callable[..., Any]:
        """Return the guard of a method whose work is linear in the text and its arguments."""
        perform = getattr(kind, name)
        charge = self.meter.charge
        per_unit = 32 if name in _SPLITTING else prices.BYTES
        is_quadratic = name in _QUADRATIC
        growing = name in ("title", "upper", "capitalize", "casefold", "swapcase", "lower", "hex")
        sized = self.operators.sized

        def guard(value: Any, /, *args: Any, **kwargs: Any) -> Any:
            if len(value) > _SHORT:
                charge(1 + len(value) // per_unit)
            for given in args:
                if type(given) is tuple:
                    charge(_compared(value, given))
                elif type(given) in (str, bytes) and len(given) > _SHORT:
                    charge(1 + len(given) * (len(value) if is_quadratic else 1) // prices.BYTES)
            result = perform(value, *args, **kwargs)
            if growing:
                sized(len(result), result)
            return result

        return guard

    def _padded(self, name: str, value: Any, size: Any, *fill: Any) -> Any:
        if type(size) is not int:
            raise TypeError("width must be an integer")
        if size > len(value):
            self.operators.sized(size, value, *(text for text in fill if type(text) in (str, bytes)))
        return getattr(type(value), name)(value, size, *fill)

    def str_center(self, value: Any, width: Any, *fill: Any) -> Any:
        """Perform ``center``."""
        return self._padded("center", value, width, *fill)

    def str_ljust(self, value: Any, width: Any, *fill: Any) -> Any:
        """Perform ``ljust``."""
        return self._padded("ljust", value, width, *fill)

    def str_rjust(self, value: Any, width: Any, *fill: Any) -> Any:
        """Perform ``rjust``."""
        return self._padded("rjust", value, width, *fill)

    def str_zfill(self, value: Any, width: Any) -> Any:
        """Perform ``zfill``."""
        return self._padded("zfill", value, width)

    def str_expandtabs(self, value: Any, tabsize: int = 8) -> Any:
        """Perform ``expandtabs``."""
        if type(tabsize) not in INTEGERS:
            raise TypeError("the size of tabs must be an integer")
        tabs = value.count("\t" if type(value) is str else b"\t")
        self.operators.sized(len(value) + tabs * max(0, tabsize), value)
        return value.expandtabs(tabsize)

    def str_join(self, value: Any, parts: Any, /) -> Any:
        """Perform ``join``."""
        kind = type(value)
        given = (
            parts
            if type(parts) in (list, tuple)
            else [each for batch in self.operators.meter_batches(parts) for each in batch]
        )
        if type(parts) in (list, tuple):
            self.meter.charge(1 + len(given) // prices.NODES)
        if set(map(type, given)) <= {kind}:
            size = sum(map(len, given)) + len(value) * max(0, len(given) - 1)
            if size > _SHORT:
                narrow = kind is bytes or (value.isascii() and all(map(str.isascii, given)))
                self.meter.fits((size if narrow else 4 * size) + _SHORT)
                self.meter.charge(1 + size // prices.BYTES)
        return value.join(given)

    def str_replace(self, value: Any, old: Any, new: Any, *count: Any, **named: Any) -> Any:
        """Perform ``replace``."""
        if type(old) is type(value) is type(new):
            self.meter.charge(1 + len(value) // prices.BYTES)
            found = value.count(old)
            most = count[0] if count else named.get("count", -1)
            if type(most) is int and most >= 0:
                found = min(found, most)
            self.operators.sized(len(value) + found * (len(new) - len(old)), value, new)
        return value.replace(old, new, *count, **named)

    bytes_center, bytes_ljust, bytes_rjust, bytes_zfill = str_center, str_ljust, str_rjust, str_zfill
    bytes_expandtabs, bytes_join, bytes_replace = str_expandtabs, str_join, str_replace

    def str_encode(self, value: str, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Perform ``encode``, with the encodings that need no other module."""
        _check_codec(encoding, errors)
        self.operators.sized(
            len(value) * (12 if errors.endswith("ref" + "replace") or errors.startswith("back") else 1), value
        )
        result = value.encode(encoding, errors)
        self.meter.fits(len(result) + _SHORT)
        return result

    def bytes_decode(self, value: bytes, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Perform ``decode``, with the encodings that need no other module."""
        _check_codec(encoding, errors)
        self.operators.sized(len(value) * (4 if errors.startswith("back") else 1), value)
        return self.rendering.fitting(value.decode(encoding, errors))

    def str_maketrans(self, _value: Any, *args: Any) -> Any:
        """Perform ``maketrans``, which ignores its receiver."""
        self.meter.charge(1 + sum(len(each) for each in args if type(each) in (str, dict)) // prices.NODES)
        return str.maketrans(*args)

    def str_translate(self, value: str, table: Any) -> str:
        """Perform ``translate`` with a mapping."""
        if type(table) is not dict:
            raise TypeError("the table of translate must be a dict")
        self.meter.charge(1 + (len(value) + len(table)) // prices.NODES)
        size = 0
        for character, count in Counter(value).items():
            other = table.get(ord(character), character)
            size += count * (len(other) if type(other) is str else 1)
        self.operators.sized(
            size, value, *(text for text in table.values() if type(text) is str and not text.isascii())
        )
        return value.translate(table)

    def str_format(self, value: str, /, *args: Any, **kwargs: Any) -> str:
        """Perform ``format``: every attribute and item that a field names goes through the guards."""
        return self._fields(value, args, kwargs, [0], 2)

    def str_format_map(self, value: str, mapping: Any) -> str:
        """Perform ``format_map``."""
        return self._fields(value, (), mapping, [0], 2)

    def _fields(self, template: str, args: Any, kwargs: Any, position: list[int], depth: int) -> str:
        if depth == 0:
            raise ValueError("Max string recursion exceeded")
        self.meter.charge(1 + len(template) // prices.BYTES)
        parts: list[str] = []
        for literal, field, spec, conversion in string.Formatter().parse(template):
            self.meter.charge(1)
            parts.append(literal)
            if field is None:
                continue
            chosen = self._field(field, args, kwargs, position)
            inner = self._fields(spec, args, kwargs, position, depth - 1) if spec and "{" in spec else spec or ""
            if conversion not in (None, "s", "r", "a"):
                raise ValueError(f"Unknown conversion specifier {conversion!r}")
            parts.append(self.rendering.formatted(chosen, inner, conversion or ""))
        return self.rendering.cat(*parts)

    def _field(self, field: str, args: Any, kwargs: Any, position: list[int]) -> Any:
        from _string import formatter_field_name_split  # type: ignore[import-not-found]

        first, rest = formatter_field_name_split(field)
        if first == "":
            first = position[0]
            position[0] += 1
        if isinstance(first, int):
            if first >= len(args):
                raise IndexError(f"Replacement index {first} out of range for positional args tuple")
            value = args[first]
        else:
            value = kwargs[first]
        for is_attribute, name in rest:
            value = self._attribute(value, name) if is_attribute else value[name]
        return value


def _compared(value: Any, choices: tuple[Any, ...]) -> int:
    """Return the price of comparing ``value`` with each of several prefixes or suffixes."""
    size = sum(min(len(each), len(value)) for each in choices if type(each) in TEXTS)
    return len(choices) // prices.NODES + size // prices.BYTES


def _check_codec(encoding: Any, errors: Any) -> None:
    if type(encoding) is not str or encoding.lower().replace("-", "").replace("_", "") not in _ENCODINGS:
        raise LookupError("this encoding is not available in scripts")
    if type(errors) is not str or errors not in _HANDLERS:
        raise LookupError("this handler of encoding errors is not available in scripts")
