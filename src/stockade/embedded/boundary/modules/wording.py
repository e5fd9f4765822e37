"""``string`` and ``textwrap``."""

from __future__ import annotations

import string as real_string
import textwrap as real_textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace

_CONSTANTS = (
    "ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "hexdigits", "octdigits", "punctuation",
    "printable", "whitespace",
)  # fmt: skip
_OPTIONS = frozenset({"width", "initial_indent", "subsequent_indent", "max_lines", "placeholder", "break_long_words"})
MOST_WRAPPED = 20_000


def string(space: Namespace) -> dict[str, Any]:
    """Return the members of ``string``. Its ``Formatter`` and ``Template`` are left out: they evaluate text."""

    def capwords(text: Any, sep: Any = None) -> str:
        _text(text)
        space.operators.sized(2 * len(text), text)
        return str(real_string.capwords(text, sep))

    return {name: getattr(real_string, name) for name in _CONSTANTS} | {"capwords": capwords}


def textwrap(space: Namespace) -> dict[str, Any]:
    """Return the members of ``textwrap``."""
    names = ("wrap", "fill", "shorten", "dedent", "indent")
    return {name: _wrapping(space, getattr(real_textwrap, name)) for name in names}


def _wrapping(space: Namespace, perform: Callable[..., Any]) -> Callable[..., Any]:
    def guard(text: Any, *args: Any, **options: Any) -> Any:
        _text(text)
        if len(text) > MOST_WRAPPED:
            raise ValueError(f"textwrap takes at most {MOST_WRAPPED:,} characters in scripts")
        space.meter.charge(1 + len(text))
        if options.keys() - _OPTIONS - {"prefix"}:
            raise TypeError("this option of textwrap is not available in scripts")
        given = (*args, *options.values())
        if not {type(each) for each in given} <= {int, str, bool, type(None)}:
            raise TypeError("textwrap takes numbers and text")
        longest = max((len(each) for each in given if type(each) is str), default=0)
        space.operators.sized((longest + 1) * (len(text) + 1), text, *(each for each in given if type(each) is str))
        return perform(text, *args, **options)

    return guard


def _text(value: Any) -> None:
    if type(value) is not str:
        raise TypeError("expected text")
