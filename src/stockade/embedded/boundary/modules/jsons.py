"""``json``: encoded piece by piece, so that a shared or endless value ends by a cap and not by the host's memory."""

from __future__ import annotations

import json as real
import re
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.facades import Fixed

if TYPE_CHECKING:
    from stockade.embedded.boundary.namespace import Namespace

MOST_INDENT = 100
_LONG_NUMBER = re.compile(r"\d{1000}")
_ENCODING = frozenset({"indent", "sort_keys", "separators", "ensure_ascii", "default", "allow_nan", "skipkeys"})


class JSONDecodeError(ValueError, metaclass=Fixed):
    """A text is not JSON."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise TypeError("only json.loads makes a JSONDecodeError in scripts")


def _translated(error: real.JSONDecodeError) -> JSONDecodeError:
    made = JSONDecodeError.__new__(JSONDecodeError, str(error))
    made.__dict__.update(error.__dict__)
    return made


def json(space: Namespace) -> dict[str, Any]:
    """Return the members of ``json``."""

    def dumps(value: Any, **options: Any) -> str:
        if options.keys() - _ENCODING:
            raise TypeError(f"dumps takes {', '.join(sorted(_ENCODING))} in scripts")
        indent = options.get("indent")
        if (
            type(indent) not in (int, str, type(None))
            or (len(indent) if type(indent) is str else indent or 0) > MOST_INDENT
        ):
            raise ValueError(f"indent is a number or text of at most {MOST_INDENT} characters in scripts")
        space.scales.weigh(value)
        given = options.pop("default", None)
        encoder = real.JSONEncoder(default=_default(space, given), **options)
        parts: list[str] = []
        size = 0
        for part in encoder.iterencode(value):
            size += len(part)
            space.meter.charge(1 + len(part) // prices.BYTES)
            space.meter.fits(size)
            parts.append(part)
        return "".join(parts)

    def loads(text: Any) -> Any:
        if type(text) is not str:
            raise TypeError("the JSON object must be str in scripts")
        space.meter.charge(1 + len(text) // 16)
        try:
            if _LONG_NUMBER.search(text):
                return real.loads(text, parse_int=space.numbers.make_int)
            return real.loads(text)
        except real.JSONDecodeError as error:
            raise _translated(error) from None

    return {"dumps": dumps, "loads": loads, "JSONDecodeError": JSONDecodeError}


def _default(space: Namespace, given: Any) -> Any:
    def convert(value: Any) -> Any:
        space.meter.charge(1)
        if given is None:
            raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
        converted = given(value)
        space.scales.weigh(converted)
        return converted

    return convert
