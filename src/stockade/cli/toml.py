"""A policy as TOML that a person can read and edit: every field, with what it means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from stockade._policy import Policy
from stockade._policy_parts import Limits
from stockade._units import format_size, parse_size
from stockade.cli.assess import SIZES

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def policy_as_toml(policy: Policy) -> str:
    """Return ``policy`` as TOML; reading it back gives an equal policy."""
    plain, tables = [], []
    for name, field in Policy.model_fields.items():
        value = getattr(policy, name)
        if isinstance(value, BaseModel):
            tables += ["", f"# {field.description}", f"[{name}]", *_table(name, value)]
        elif isinstance(value, Mapping):
            tables += ["", f"# {field.description}", f"[{name}]", *_pairs(value)]
        else:
            plain += _line(name, value, field.description)
    return "\n".join([*plain, *tables]) + "\n"


def _table(name: str, part: BaseModel) -> Iterator[str]:
    inner = []
    for key, field in type(part).model_fields.items():
        value = getattr(part, key)
        if isinstance(value, Mapping):
            inner += ["", f"# {field.description}", f"[{name}.{key}]", *_pairs(value)]
        else:
            yield from _line(key, _readable(part, key, value), field.description)
    yield from inner


def _line(key: str, value: Any, description: str | None) -> list[str]:
    text = f"# {key} =" if value is None else f"{key} = {_value(value)}"  # TOML has no null: unset is left out
    return [f"{text}  # {description}"]


def _pairs(mapping: Mapping[Any, Any]) -> list[str]:
    return [f"{_key(str(key))} = {_value(value)}" for key, value in mapping.items()]


def _readable(part: BaseModel, key: str, value: Any) -> Any:
    """Write sizes with a unit where that loses nothing."""
    if not isinstance(part, Limits) or isinstance(value, str) or key not in (*SIZES, "soft_memory"):
        return value
    text = format_size(value).replace(" ", "")
    return text if value and parse_size(text) == value else value


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)
