"""Combine the sources of a policy: profile, file, environment variables, arguments, and finally the ceiling."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stockade.core.errors import FieldProblem, PolicyError
from stockade.core.frozen import FrozenDict
from stockade.policy import ceiling as _ceiling
from stockade.policy import env_vars, merge
from stockade.policy.merge import Layer
from stockade.policy.model import Policy, read
from stockade.policy.profiles import unreadable
from stockade.policy.rules import RULES


@dataclass(frozen=True)
class Resolved:
    """A policy, and the origin of each of its fields."""

    policy: Policy
    origins: Mapping[str, str]
    """Origins by field, written with dots: ``"profile strict"``, ``"file p.toml"``, ``"environment STOCKADE_NETWORK"``,
    ``"argument"``, ``"ceiling /etc/stockade/policy.toml"`` or ``"default"``. A field that is a table has an origin for
    each key.
    """


def resolve(
    *,
    profile: str | None = None,
    file: str | os.PathLike[str] | None = None,
    variables: Mapping[str, str] | None = None,
    ceiling: _ceiling.Given | None = None,
    trust: str | None = None,
    **fields: Any,
) -> Resolved:
    """Return the policy of all sources together, and the origin of each field.

    A later source wins over an earlier one, field by field: ``profile``, ``file``, ``variables``, ``fields`` (as
    ``Policy`` takes them). ``variables`` is this process's environment by default, and may name a profile and a file as
    well. A field that no source sets is the default profile's.

    ``ceiling`` and the administrator's own in /etc/stockade/policy.toml bound the result, as in ``stockade.select``.
    Pass the same ``trust`` here and to the sandbox, because it changes how a ceiling's ``isolation`` applies.

    Raises ``PolicyError`` with every mistake of every source, each with its origin.
    """
    arguments = [Layer("argument", fields)] if fields else []
    variables = os.environ if variables is None else variables
    return resolved(profile, file, variables, arguments, ceiling=ceiling, trust=trust)


def resolved(
    profile: str | None,
    file: str | os.PathLike[str] | None,
    variables: Mapping[str, str],
    arguments: Sequence[Layer],
    *,
    ceiling: _ceiling.Given | None = None,
    trust: str | None = None,
) -> Resolved:
    """Return the result of ``resolve`` for arguments that each form a layer of their own."""
    profile = profile if profile is not None else variables.get(env_vars.PROFILE)
    file = file if file is not None else variables.get(env_vars.POLICY)
    layers = merge.profile(profile) if profile is not None else merge.profile("default")[:1]
    if file is not None:
        layers.append(Layer(f"file {os.fspath(file)}", _table(file)))
    layers += [*env_vars.layers(variables), *arguments]
    policy, merged = _checked(layers)
    origins = _origins(policy, merged)
    for bound in _ceiling.ceilings(ceiling):
        before = policy
        policy, lowered = _ceiling.under(policy, bound, trust)
        origins |= _lowered_origins(before, policy, lowered, bound.name, origins)
    return Resolved(policy, FrozenDict(origins))


def with_layers(policy: Policy, layers: Mapping[str, Mapping[str, Any]]) -> Policy:
    """Return ``policy`` with the fields of ``layers`` on top, the later over the earlier.

    ``layers`` maps an origin to fields. Raises ``PolicyError``, with the origin of each mistake.
    """
    own = {name: getattr(policy, name) for name in policy.model_fields_set}
    return _checked([Layer("policy", own), *(Layer(name, fields) for name, fields in layers.items())])[0]


def _table(file: str | os.PathLike[str]) -> Mapping[str, Any]:
    try:
        path = Path(file)
        data = read(path.read_text(encoding="utf-8"), as_json=path.suffix == ".json")
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(os.fspath(file), error) from None
    if not isinstance(data, Mapping):
        raise PolicyError([FieldProblem("policy", os.fspath(file), "expected a table of fields")])
    return data


def _checked(layers: Sequence[Layer]) -> tuple[Policy, merge.Merged]:
    """Return the policy of the layers. A mistake is reported even if a later layer overrides it."""
    merged = merge.merge(layers)
    problems, policy = _parsed(merged)
    for layer in layers:
        if any(merged.origins[path] != layer.name for path, _ in merge.leaves(layer.values)):
            last = merge.merge([*(each for each in layers if each is not layer), layer])
            problems += [each for each in _parsed(last)[0] if each not in problems]
    if policy is None or problems:
        raise PolicyError(problems)
    return policy, merged


def _parsed(merged: merge.Merged) -> tuple[list[FieldProblem], Policy | None]:
    try:
        return [], Policy.parse(merged.data())
    except PolicyError as error:
        problems = error.problems
    return [FieldProblem(p.field, p.value, p.reason, _named(merged.origin(p.field))) for p in problems], None


def _named(origin: str) -> str:
    return "" if origin == merge.DEFAULT else origin


def _origins(policy: Policy, merged: merge.Merged) -> dict[str, str]:
    found: dict[str, str] = {}
    for path, rule in RULES.items():
        if rule.by_key:
            keys = (f"{path}.{key}" for key in _ceiling.value_of(policy, path))
            found |= {name: merged.origins.get(tuple(name.split(".")), merge.DEFAULT) for name in keys}
        else:
            found[path] = merged.origins.get(tuple(path.split(".")), merge.DEFAULT)
    return found


def _lowered_origins(
    before: Policy, after: Policy, lowered: Sequence[str], name: str, origins: Mapping[str, str]
) -> dict[str, str]:
    """Return the origins of fields that a ceiling lowered. A list that became longer keeps its first origin as well."""
    found: dict[str, str] = {}
    for path in lowered:
        ours, value = _ceiling.value_of(before, path), _ceiling.value_of(after, path)
        if RULES[path].by_key:
            found |= {f"{path}.{key}": f"ceiling {name}" for key in value if value[key] != ours.get(key)}
        else:
            longer = isinstance(ours, tuple) and ours
            found[path] = f"{origins[path]}, ceiling {name}" if longer else f"ceiling {name}"
    return found
