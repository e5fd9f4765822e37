"""JSON Schemas (draft 2020-12) of what stockade prints as JSON: a result, a result's data, an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stockade.runs import result_data

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_TEXTS: Final[Mapping[str, Any]] = {"type": "object", "additionalProperties": _TEXT}
_SAME = (
    "outcome", "exit_code", "signal", "limit", "limits_met", "soft_memory", "value", "value_repr", "error", "usage",
    "network", "backend", "start", "shared", "cold", "denials", "denials_truncated", "artifacts_refused",
    "artifacts_error", "enforcement",
)  # fmt: skip
"""Fields that a printed result and a result's data have in common."""


def result() -> dict[str, Any]:
    """Return the schema of ``Result.as_json()``, which ``stockade run --json`` and ``--result-file`` write."""
    data = result_data.schema()["properties"]
    changes = data["changes"]["properties"]
    change = changes["items"]["items"]["properties"]
    properties = {name: data[name] for name in _SAME} | {
        "stdout": _TEXT,
        "stderr": _TEXT,
        "stdout_truncated": {"type": "boolean"},
        "stderr_truncated": {"type": "boolean"},
        "artifacts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "changes": {"type": "array", "items": _closed({name: change[name] for name in ("path", "kind", "type")})},
        "changes_refused": changes["refused"],
        "changes_error": changes["error"],
    }
    return _titled("A result, as the command line prints it", _closed(properties))


def result_dict() -> dict[str, Any]:
    """Return the schema of ``Result.to_dict()``, from which ``Result.from_dict`` makes an equal result."""
    return _titled("A result as data, bytes included", result_data.schema())


def error() -> dict[str, Any]:
    """Return the schema of ``StockadeError.as_json()``, and of every error that a command prints with ``--json``."""
    problem = _closed(dict.fromkeys(("field", "value", "reason", "origin"), _TEXT))
    conflict = _closed(dict.fromkeys(("path", "reason"), _TEXT))
    properties: dict[str, Any] = {
        "error": _TEXT,
        "message": _TEXT,
        "problems": {"type": "array", "items": problem},
        "backend": _TEXT,
        "missing": _TEXTS,
        "accept": _TEXTS,
        **dict.fromkeys(("field", "value", "reason", "remedy"), _TEXT),
        "conflicts": {"type": "array", "items": conflict},
        "usage": _TEXT,
    }
    described = {"type": "object", "properties": properties, "required": ["error", "message"]}
    return _titled("An error: its class, its message, and what that class adds", described)


SCHEMAS: Final = {"result": result, "result-dict": result_dict, "error": error}
"""The names that ``stockade schema`` takes."""


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _titled(title: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"$schema": _DIALECT, "title": title, **schema}
