"""Merging layers of a policy: the later wins, field by field, and each field remembers who set it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stockade.policy import profiles
from stockade.policy.rules import PARTS, RULES

Path = tuple[str, ...]
"""A field by its names: ``("limits", "memory")``, ``("network",)``, ``("environment", "set", "LANG")``."""

DEFAULT = "default"
"""The origin of a field that nobody set."""


class Layer(NamedTuple):
    """What one source says: who it is, and some of the fields of a policy, nested as in a file."""

    name: str
    values: Mapping[Any, Any]
    adds: bool = False
    """Whether its lists go behind those of earlier layers, in place of replacing them."""


@dataclass
class Merged:
    """Fields that were set, and by which layer."""

    values: dict[Path, Any] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the fields nested, as ``Policy.parse`` takes them."""
        nested: dict[str, Any] = {}
        for path in sorted(self.values, key=len, reverse=True):  # a table that is none comes last, and is complained of
            table = nested
            for name in path[:-1]:
                table = table.setdefault(name, {})
            table[path[-1]] = self.values[path]
        return nested

    def origin(self, name: str) -> str:
        """Return who set the field, or the part of one, that ``name`` says with dots."""
        path = tuple(name.split("."))
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return DEFAULT


def merge(layers: Iterable[Layer]) -> Merged:
    """Return what ``layers`` say together, the later winning over the earlier.

    What a layer leaves out, or gives as ``None`` where that stands for unset, it inherits. Nothing is looked at twice:
    whether the values make sense is for ``Policy.parse`` to say.
    """
    merged = Merged()
    for layer in layers:
        for path, value in leaves(layer.values):
            earlier = merged.values.get(path)
            if layer.adds and isinstance(value, list | tuple) and isinstance(earlier, list | tuple) and earlier:
                merged.values[path] = (*earlier, *value)
                merged.origins[path] = f"{merged.origins[path]}, {layer.name}"
            else:
                merged.values[path], merged.origins[path] = value, layer.name
    return merged


def profile(name: str) -> list[Layer]:
    """Return the layers of the profile ``name``: its own on top of the default one."""
    found = profiles.find(name)
    base = Layer(DEFAULT, profiles.PROFILES["default"].fields)
    return [base, Layer(f"profile {name}", found.fields)]


def leaves(values: Mapping[Any, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield each field that nested ``values`` set; what is no field is yielded as it is, to be complained of."""
    for key, value in values.items():
        name = key if isinstance(key, str) else repr(key)
        inner = _table(value) if name in PARTS else None
        if inner is None:
            yield from _leaf((name,), value)
        else:
            for key_of_part, item in inner.items():
                yield from _leaf((name, str(key_of_part)), item)


def nested(name: str, value: Any) -> dict[str, Any]:
    """Return ``value`` as the field that ``name`` says with dots, as a file has it."""
    part, _, field = name.rpartition(".")
    return nested(part, {field: value}) if part else {field: value}


def _leaf(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    rule = RULES.get(".".join(path))
    if rule is not None and rule.by_key and isinstance(value, Mapping):
        yield from (((*path, str(key)), item) for key, item in value.items())
    elif value is not None or rule is None or not rule.optional:
        yield path, value


def _table(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields that a part sets, be it a mapping or a part of a policy that was built already."""
    if isinstance(value, Mapping):
        return value
    names = getattr(value, "model_fields_set", None)
    return None if names is None else {name: getattr(value, name) for name in type(value).model_fields if name in names}
