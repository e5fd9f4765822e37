"""Merge the layers of a policy: the later wins, and each field keeps the name of its layer. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stockade.policy import profiles
from stockade.policy.rules import PARTS, RULES

Path = tuple[str, ...]
"""A field as a tuple of names: ``("limits", "memory")``, ``("network",)``, ``("environment", "set", "LANG")``."""

DEFAULT = "default"
"""The origin of a field that no layer has set."""


class Layer(NamedTuple):
    """The name of one source, and the fields that it sets, nested as in a file."""

    name: str
    values: Mapping[Any, Any]
    adds: bool = False
    """Whether its lists are appended to those of earlier layers, instead of replacing them."""


@dataclass
class Merged:
    """The fields that are set, and the layer that set each."""

    values: dict[Path, Any] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the fields nested, as ``Policy.parse`` expects them."""
        nested: dict[str, Any] = {}
        for path in sorted(self.values, key=len, reverse=True):  # an invalid table comes last, so that it is reported
            table = nested
            for name in path[:-1]:
                table = table.setdefault(name, {})
            table[path[-1]] = self.values[path]
        return nested

    def origin(self, name: str) -> str:
        """Return the origin of the field ``name``, written with dots; a name inside a field works as well."""
        path = tuple(name.split("."))
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return DEFAULT


def merge(layers: Iterable[Layer]) -> Merged:
    """Return the fields of all ``layers`` together; a later layer wins over an earlier one.

    A layer inherits the fields that it leaves out, or sets to ``None`` where that means unset. This function validates
    nothing; ``Policy.parse`` does.
    """
    merged = Merged()
    for layer in layers:
        for path, value in leaves(layer.values):
            earlier = merged.values.get(path)
            more = added(earlier, value) if layer.adds else None
            if more is not None:
                merged.values[path] = more
                merged.origins[path] = f"{merged.origins[path]}, {layer.name}"
            else:
                merged.values[path], merged.origins[path] = value, layer.name
    return merged


def added(earlier: Any, value: Any) -> Any:
    """Return ``value`` in addition to ``earlier``, or ``None`` if it takes its place: lists, or tables with lists."""
    if isinstance(value, list | tuple) and isinstance(earlier, list | tuple) and earlier:
        return (*earlier, *value)
    table = _table(earlier)
    if not isinstance(value, Mapping) or table is None:
        return None
    return {**table, **{key: added(table.get(key), item) or item for key, item in value.items()}}


def profile(name: str) -> list[Layer]:
    """Return the layers of the profile ``name``: its own above the default profile."""
    found = profiles.find(name)
    base = Layer(DEFAULT, profiles.PROFILES["default"].fields)
    return [base, Layer(f"profile {name}", found.fields)]


def leaves(values: Mapping[Any, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield each field that the nested ``values`` set, even an unknown one, so that a later check reports it."""
    for key, value in values.items():
        name = key if isinstance(key, str) else repr(key)
        inner = _table(value) if name in PARTS else None
        if inner is None:
            yield from _leaf((name,), value)
        else:
            for key_of_part, item in inner.items():
                yield from _leaf((name, str(key_of_part)), item)


def nested(name: str, value: Any) -> dict[str, Any]:
    """Return ``value`` nested as in a file, for the field ``name``, written with dots."""
    part, _, field = name.rpartition(".")
    return nested(part, {field: value}) if part else {field: value}


def _leaf(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    rule = RULES.get(".".join(path))
    if rule is not None and rule.by_key and isinstance(value, Mapping):
        yield from (((*path, str(key)), item) for key, item in value.items())
    elif value is not None or rule is None or not rule.optional:
        yield path, value


def _table(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields that a part sets; the part is a mapping or an object of a policy."""
    if isinstance(value, Mapping):
        return value
    names = getattr(value, "model_fields_set", None)
    return None if names is None else {name: getattr(value, name) for name in type(value).model_fields if name in names}
