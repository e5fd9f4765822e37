"""A policy as TOML that a person can read and edit: every field, with its meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from stockade.cli.reporting import printable
from stockade.core.units import format_size, parse_size
from stockade.planning.figures import SIZES
from stockade.policy.model import Policy
from stockade.policy.profiles import DEFAULT_ACCEPT
from stockade.policy.resolve import Resolved

_SIZES = {"Limits": (*SIZES, "soft_memory"), "Network": ("sent", "received", "rate")}
"""Fields of a part that are sizes."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def policy_as_toml(found: Resolved) -> str:
    """Return the policy as TOML, with origin and meaning of each field; reading it back gives an equal policy."""
    plain, tables = [], []
    for name, field in Policy.model_fields.items():
        value = getattr(found.policy, name)
        if isinstance(value, BaseModel):
            tables += ["", f"# {field.description}", f"[{name}]", *_table(name, value, found.origins)]
        elif isinstance(value, Mapping):
            tables += ["", f"# {field.description}", f"[{name}]", *_pairs(name, value, found.origins)]
        else:
            plain += _line(name, value, found.origins[name], field.description)
    defaults = [f"# {key} = {_value(value)}  # (default)" for key, value in _defaults(found.policy)]
    return "\n".join([*plain, *tables, *defaults]) + "\n"


def _defaults(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield what every policy accepts by default. 'accept' is the last table, so they can follow it."""
    return ((key, value) for key, value in DEFAULT_ACCEPT.items() if key not in policy.accept)


def _table(name: str, part: BaseModel, origins: Mapping[str, str]) -> Iterator[str]:
    inner = []
    for key, field in type(part).model_fields.items():
        value = getattr(part, key)
        path = f"{name}.{key}"
        if isinstance(value, Mapping):
            inner += ["", f"# {field.description}", f"[{path}]", *_pairs(path, value, origins)]
        else:
            origin = origins.get(path) or origins[name]  # the network has one origin as a whole
            yield from _line(key, _readable(part, key, value), origin, field.description)
    yield from inner


def _line(key: str, value: Any, origin: str, description: str | None) -> list[str]:
    text = (
        f"# {key} =" if value is None else f"{key} = {_value(value)}"
    )  # TOML has no null, so an unset field is a comment
    return [f"{text}  # ({printable(origin)}) {description}"]


def _pairs(name: str, mapping: Mapping[Any, Any], origins: Mapping[str, str]) -> list[str]:
    return [
        f"{_key(str(key))} = {_value(value)}  # ({printable(origins[f'{name}.{key}'])})"
        for key, value in mapping.items()
    ]


def _readable(part: BaseModel, key: str, value: Any) -> Any:
    """Write a size with a unit if that keeps its exact value."""
    sizes = _SIZES.get(type(part).__name__, ())
    if isinstance(value, str) or key not in sizes:
        return value
    text = format_size(value).replace(" ", "")
    return text if value and parse_size(text) == value else value


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(str(value), ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)
