"""The result of a cell as JSON, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from stockade.api.sessions.records import CellOutcome, CellResult, CellUsage, Display, display_of
from stockade.core.frozen import FrozenDict
from stockade.runs.errors import ResultFormatError
from stockade.runs.result import GuestError

_TEXTS = ("stdout", "stderr", "value_repr", "execution_count", "ended")


def dumped(found: CellResult) -> dict[str, Any]:
    """Return the result of a cell as JSON-compatible data."""
    return {
        "outcome": found.outcome.value,
        **{name: getattr(found, name) for name in _TEXTS},
        "value": None if found.value is None else _forms(found.value),
        "displays": [_forms(each) for each in found.displays],
        "error": None if found.error is None else asdict(found.error),
        "usage": asdict(found.usage),
        "omitted": dict(found.omitted),
    }


def loaded(data: Mapping[str, Any]) -> CellResult:
    """Return the result of which ``dumped`` made ``data``. Raises ``ResultFormatError`` for any other data."""
    try:
        return CellResult(
            outcome=CellOutcome(data["outcome"]),
            value=None if data["value"] is None else display_of(data["value"]),
            displays=tuple(display_of(each) for each in data["displays"]),
            error=None if data["error"] is None else GuestError(**data["error"]),
            usage=CellUsage(**data["usage"]),
            omitted=FrozenDict(data["omitted"]),
            **{name: data[name] for name in _TEXTS},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ResultFormatError(f"the data is not the result of a cell: {error!r:.200}") from None


def _forms(display: Display) -> dict[str, Any]:
    return {
        kind: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for kind, value in display.data.items()
    }
