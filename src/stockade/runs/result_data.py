"""A result as data that JSON can hold, and back. Both directions check every field and name the place of a fault."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from stockade.core.frozen import FrozenDict
from stockade.planning.denial import Denial
from stockade.policy.guarantees import Enforcement, Guarantee, Strength
from stockade.runs.errors import ResultFormatError
from stockade.runs.result import (
    GuestError,
    LimitState,
    Met,
    NetworkRefusal,
    NetworkTarget,
    NetworkUse,
    Outcome,
    Result,
    Usage,
)
from stockade.workspace.artifacts import Refused
from stockade.workspace.change_set import ChangeSet
from stockade.workspace.changes import Change

FORMAT = 1
"""The number of this format. A change that an older ``load`` cannot read gets the next number."""
_DEEPEST = 200
_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two code points that JSON reads back as one character."""


class _Codec(NamedTuple):
    """Both directions of one kind of value. The second argument is the place of the value, for errors."""

    dump: Callable[[Any, str], Any]
    load: Callable[[Any, str], Any]
    schema: Mapping[str, Any]
    """The JSON Schema of the data."""


def dump(result: Result) -> dict[str, Any]:
    """Return ``result`` as JSON-compatible data. Raises ``ResultFormatError`` for a value that JSON cannot hold."""
    fields: dict[str, Any] = _RESULT.dump(result, "result")
    return {"format": FORMAT, **fields}


def load(data: Mapping[str, Any]) -> Result:
    """Return the result of which ``dump`` made ``data``. Raises ``ResultFormatError`` for anything else."""
    if not isinstance(data, dict):
        raise _unexpected("result", "an object", data)
    if type(data.get("format")) is not int or data["format"] != FORMAT:
        raise _unexpected(
            "result.format", f"{FORMAT}, the format that this version of stockade reads", data.get("format")
        )
    result: Result = _RESULT.load({name: value for name, value in data.items() if name != "format"}, "result")
    return result


def schema() -> dict[str, Any]:
    """Return the JSON Schema of what ``dump`` returns."""
    inner = _RESULT.schema
    properties = {"format": {"const": FORMAT}, **inner["properties"]}
    return {**inner, "properties": properties, "required": [*properties]}


def _unexpected(where: str, expected: str, value: Any) -> ResultFormatError:
    return ResultFormatError(f"{where}: expected {expected}, not {value!r:.80}")


def _scalar(expected: str, fits: Callable[[Any], bool], **schema: Any) -> _Codec:
    def check(value: Any, where: str) -> Any:
        if not fits(value):
            raise _unexpected(where, expected, value)
        return value

    return _Codec(check, check, schema)


def _is_text(value: Any) -> bool:
    return type(value) is str and (value.isascii() or _SPLIT_PAIR.search(value) is None)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _one_of(*words: str) -> _Codec:
    return _scalar(f"one of {', '.join(words)}", lambda value: type(value) is str and value in words, enum=[*words])


def _enum(kind: type[Enum]) -> _Codec:
    values = {each: str(each.value) for each in kind}
    members = {value: each for each, value in values.items()}
    names = _one_of(*members)

    def dump_member(value: Any, where: str) -> Any:
        return values[value] if type(value) is kind else names.dump(value, where)

    return _Codec(dump_member, lambda value, where: members[names.load(value, where)], names.schema)


def _dump_bytes(value: Any, where: str) -> str:
    if type(value) is not bytes:
        raise _unexpected(where, "bytes", value)
    return base64.b64encode(value).decode()


def _load_bytes(value: Any, where: str) -> bytes:
    try:
        data = base64.b64decode(value, validate=True) if type(value) is str else None
    except (binascii.Error, ValueError):
        data = None
    if data is None or base64.b64encode(data).decode() != value:
        raise _unexpected(where, "bytes as base64", value)
    return data


def _optional(inner: _Codec) -> _Codec:
    return _Codec(
        lambda value, where: None if value is None else inner.dump(value, where),
        lambda value, where: None if value is None else inner.load(value, where),
        {"anyOf": [inner.schema, {"type": "null"}]},
    )


def _tuple(inner: _Codec) -> _Codec:
    def walk(value: Any, where: str, convert: Callable[[Any, str], Any]) -> list[Any]:
        return [convert(each, f"{where}[{at}]") for at, each in enumerate(value)]

    def dump_all(value: Any, where: str) -> list[Any]:
        if type(value) is not tuple:
            raise _unexpected(where, "a tuple", value)
        return walk(value, where, inner.dump)

    def load_all(value: Any, where: str) -> tuple[Any, ...]:
        if type(value) is not list:
            raise _unexpected(where, "a list", value)
        return tuple(walk(value, where, inner.load))

    return _Codec(dump_all, load_all, {"type": "array", "items": inner.schema})


def _mapping(key: _Codec, inner: _Codec) -> _Codec:
    def dump_all(value: Any, where: str) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise _unexpected(where, "a mapping", value)
        return {key.dump(name, where): inner.dump(each, f"{where}[{name!r:.80}]") for name, each in value.items()}

    def load_all(value: Any, where: str) -> FrozenDict[Any, Any]:
        if type(value) is not dict:
            raise _unexpected(where, "an object", value)
        items = {key.load(name, where): inner.load(each, f"{where}[{name!r:.80}]") for name, each in value.items()}
        return FrozenDict(items)

    names = {"propertyNames": key.schema} if "enum" in key.schema else {}
    return _Codec(dump_all, load_all, {"type": "object", "additionalProperties": inner.schema, **names})


def _record(kind: type, /, **fields: _Codec) -> _Codec:
    def dump_fields(value: Any, where: str) -> dict[str, Any]:
        if type(value) is not kind:
            raise _unexpected(where, f"a {kind.__name__}", value)
        return {name: codec.dump(getattr(value, name), f"{where}.{name}") for name, codec in fields.items()}

    def load_fields(value: Any, where: str) -> Any:
        if type(value) is not dict:
            raise _unexpected(where, "an object", value)
        unknown, missing = (
            [each for each in value if each not in fields],
            [each for each in fields if each not in value],
        )
        if unknown:
            raise ResultFormatError(f"{where}: unknown field {unknown[0]!r:.80}; its fields are {', '.join(fields)}")
        if missing:
            raise ResultFormatError(f"{where}: the field {missing[0]!r} is missing")
        return kind(**{name: codec.load(value[name], f"{where}.{name}") for name, codec in fields.items()})

    properties = {name: codec.schema for name, codec in fields.items()}
    closed = {"properties": properties, "required": [*properties], "additionalProperties": False}
    return _Codec(dump_fields, load_fields, {"type": "object", **closed})


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    """Return a copy of a value that JSON can hold, with lists and dictionaries of its own."""
    if value is None or type(value) is bool or _is_number(value) or _is_text(value):
        return value
    if depth < _DEEPEST and type(value) is list:
        return [_plain(each, f"{where}[{at}]", depth + 1) for at, each in enumerate(value)]
    if depth < _DEEPEST and type(value) is dict and all(map(_is_text, value)):
        return {name: _plain(each, f"{where}[{name!r:.80}]", depth + 1) for name, each in value.items()}
    raise _unexpected(where, f"a value that JSON can hold, at most {_DEEPEST} levels deep", value)


_TEXT = _scalar("text without a split surrogate pair", _is_text, type="string")
_WHOLE = _scalar("a whole number", lambda value: type(value) is int, type="integer")
_NUMBER = _scalar("a finite number", _is_number, type="number")
_FLAG = _scalar("true or false", lambda value: type(value) is bool, type="boolean")
_BYTES = _Codec(_dump_bytes, _load_bytes, {"type": "string", "contentEncoding": "base64"})
_STATE = _record(LimitState, state=_enum(Met), evidence=_TEXT)
_REFUSED = _tuple(_record(Refused, path=_TEXT, reason=_TEXT))
_CHANGE = _record(
    Change,
    path=_TEXT,
    kind=_one_of("added", "changed", "deleted"),
    type=_one_of("file", "folder", "link"),
    mode=_optional(_WHOLE),
    content=_optional(_BYTES),
    target=_optional(_TEXT),
    before=_optional(_BYTES),
    old_mode=_optional(_WHOLE),
)
_USAGE = _record(
    Usage,
    cpu_seconds=_NUMBER,
    wall_seconds=_NUMBER,
    peak_memory=_optional(_WHOLE),
    processes=_optional(_WHOLE),
    output=_WHOLE,
    network_requests=_optional(_WHOLE),
    network_sent=_optional(_WHOLE),
    network_received=_optional(_WHOLE),
)
_NETWORK = _record(
    NetworkUse,
    requests=_WHOLE,
    refused=_WHOLE,
    sent=_WHOLE,
    received=_WHOLE,
    targets=_tuple(_record(NetworkTarget, target=_TEXT, requests=_WHOLE, sent=_WHOLE, received=_WHOLE)),
    refusals=_tuple(_record(NetworkRefusal, target=_TEXT, reason=_TEXT, count=_WHOLE)),
    unnamed=_WHOLE,
    error=_optional(_TEXT),
)
_RESULT = _record(
    Result,
    outcome=_enum(Outcome),
    exit_code=_optional(_WHOLE),
    signal=_optional(_WHOLE),
    limit=_optional(_enum(Guarantee)),
    limits_met=_mapping(_enum(Guarantee), _STATE),
    soft_memory=_optional(_STATE),
    stdout_bytes=_BYTES,
    stderr_bytes=_BYTES,
    stdout_omitted=_WHOLE,
    stderr_omitted=_WHOLE,
    stdout_head=_WHOLE,
    stderr_head=_WHOLE,
    value=_Codec(_plain, _plain, {}),
    value_repr=_optional(_TEXT),
    error=_optional(_record(GuestError, type=_TEXT, message=_TEXT, traceback=_TEXT)),
    usage=_USAGE,
    backend=_TEXT,
    enforcement=_mapping(_enum(Guarantee), _record(Enforcement, mechanism=_TEXT, strength=_enum(Strength), note=_TEXT)),
    network=_optional(_NETWORK),
    start=_one_of("", "cold", "prewarmed", "warm"),
    shared=_TEXT,
    cold=_TEXT,
    denials=_tuple(_record(Denial, call=_TEXT, count=_WHOLE, explanation=_TEXT, allowed_by=_TEXT)),
    denials_truncated=_FLAG,
    artifacts=_mapping(_TEXT, _BYTES),
    artifacts_refused=_REFUSED,
    artifacts_error=_optional(_TEXT),
    artifact_modes=_mapping(_TEXT, _WHOLE),
    changes=_record(ChangeSet, items=_tuple(_CHANGE), refused=_REFUSED, error=_optional(_TEXT)),
)
