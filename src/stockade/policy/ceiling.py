"""Bound a policy by a ceiling. After all other sources, values above the ceiling are lowered or refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from stockade.core.dataclass import dataclass
from stockade.core.errors import FieldProblem, PolicyError
from stockade.policy import ceiling_file
from stockade.policy.model import Policy, read
from stockade.policy.rules import RULES
from stockade.policy.stricter import effective_access, lies_in

Given = Policy | Mapping[str, Any] | str | os.PathLike[str]
"""A ceiling as a caller may give it: a policy, its fields, a profile's name, or a file's path as a ``Path``."""


@dataclass(frozen=True)
class Ceiling:
    """The bounded fields, by their names with dots. All other fields stay as they are."""

    name: str
    fields: Mapping[str, Any]


def applied(policy: Policy, given: Given | None = None, trust: str | None = None) -> Policy:
    """Return ``policy`` under the caller's ceiling and the administrator's; a policy below both stays unchanged.

    Raises ``PolicyError`` for fields that cannot be lowered, and for a ceiling that cannot be read or trusted.
    """
    for ceiling in ceilings(given):
        policy, _ = under(policy, ceiling, trust)
    return policy


def ceilings(given: Given | None = None) -> list[Ceiling]:
    """Return the ceilings for every policy here: the caller's, if given, then the administrator's.

    Raises ``PolicyError`` if one cannot be read or trusted, or sets no field.
    """
    found = [] if given is None else [_from_caller(given)]
    text = ceiling_file.administrators()
    if text is not None:
        found.append(_from_text(ceiling_file.SYSTEM, text))
    for ceiling in found:
        if not ceiling.fields:  # an empty ceiling would look like a bound, but bound nothing
            raise ceiling_file.unusable(ceiling.name, "sets no field, so it bounds nothing")
    return found


def under(policy: Policy, ceiling: Ceiling, trust: str | None = None) -> tuple[Policy, tuple[str, ...]]:
    """Return ``policy`` under ``ceiling``, and the fields that were lowered.

    Raises ``PolicyError`` with every field that cannot be lowered, with its own value and the ceiling's.
    """
    changes: dict[str, Any] = {}
    problems: list[FieldProblem] = []
    for path, most in _bounded(policy, ceiling, trust).items():
        ours = value_of(policy, path)
        # The floor of the network depends on the network, and "accept" is the last rule.
        seen = _changed(policy, changes, ceiling) if path == "accept" and changes and not problems else policy
        try:
            value = RULES[path].take_stricter(ours, most, seen)
        except ValueError as reason:
            problems.append(_problem(path, ours, str(reason), ceiling, path))
        else:
            changes |= {path: value} if value != ours else {}
    problems += [*_reading(policy, ceiling), *_writing(policy, ceiling), *_own_filter(policy, ceiling)]
    if problems:
        raise PolicyError(problems)
    return (_changed(policy, changes, ceiling), tuple(changes)) if changes else (policy, ())


def value_of(policy: Policy, path: str) -> Any:
    """Return the value of the field ``path``, written with dots."""
    value: Any = policy
    for name in path.split("."):
        value = getattr(value, name)
    return value


def of(policy: Policy, name: str) -> Ceiling:
    """Return a ceiling of the fields that were explicitly set in ``policy``."""
    found = {}
    for path in RULES:
        part, _, field = path.rpartition(".")
        if (part or field) in policy.model_fields_set:
            inside = getattr(policy, part) if part else policy
            if field in inside.model_fields_set and getattr(inside, field) is not None:
                found[path] = getattr(inside, field)
    return Ceiling(name, found)


def _from_caller(given: Given) -> Ceiling:
    if isinstance(given, Policy):
        return of(given, "argument")
    if isinstance(given, str):
        return of(Policy.profile(given), f"profile {given}")
    if isinstance(given, os.PathLike):
        path = os.fspath(given)
        return _from_text(path, ceiling_file.callers(path))
    return of(Policy.parse(given), "argument")


def _from_text(path: str, text: str) -> Ceiling:
    try:
        data = read(text, as_json=path.endswith(".json"))
    except (ValueError, RecursionError) as error:
        raise ceiling_file.unusable(path, str(error)) from None
    return of(_parsed(data, f"ceiling {path}"), path)


def _bounded(policy: Policy, ceiling: Ceiling, trust: str | None) -> Mapping[str, Any]:
    """Return the fields that the ceiling bounds.

    For untrusted code, an unset isolation is the strongest one. Any value, even the ceiling's, would lower it.
    """
    if policy.isolation is None and trust == "untrusted":
        return {path: most for path, most in ceiling.fields.items() if path != "isolation"}
    return ceiling.fields


def _reading(policy: Policy, ceiling: Ceiling) -> list[FieldProblem]:
    """Find paths that would be readable although the ceiling does not allow reading them.

    A path that can be written, and a workspace, can be read as well.
    """
    if "filesystem.read" not in ceiling.fields:
        return []
    readable = _places(ceiling, "read", "write", "workspace")
    files = policy.filesystem
    asked = [("read", path) for path in files.read] + [("write", path) for path in files.write]
    if files.workspace != "empty" and "filesystem.workspace" not in ceiling.fields:
        asked.append(("workspace", files.workspace))
    return [
        _problem(f"filesystem.{name}", path, f"{path!r} is not allowed", ceiling, "filesystem.read")
        for name, path in asked
        if not lies_in(path, readable)
    ]


def _writing(policy: Policy, ceiling: Ceiling) -> list[FieldProblem]:
    """Find a workspace that would be writable, if the ceiling names the paths to write."""
    files, most = policy.filesystem, ceiling.fields
    if "filesystem.write" not in most or files.workspace == "empty" or effective_access(policy) != "write":
        return []
    named = most.get("filesystem.access") == "write" and "filesystem.workspace" in most
    if named or most.get("filesystem.access", "write") != "write" or lies_in(files.workspace, most["filesystem.write"]):
        return []
    reason = f"{files.workspace!r} is not allowed to be written"
    return [_problem("filesystem.workspace", files.workspace, reason, ceiling, "filesystem.write")]


def _places(ceiling: Ceiling, *names: str) -> list[str]:
    found: list[str] = []
    for name in names:
        value = ceiling.fields.get(f"filesystem.{name}", ())
        found += [value] if isinstance(value, str) else value
    return found


def _own_filter(policy: Policy, ceiling: Ceiling) -> list[FieldProblem]:
    """Find a custom filter that would allow more than the ceiling's fields on system calls."""
    ours, most = policy.security, ceiling.fields
    words = [name for name in ("syscalls", "syscalls_file", "syscalls_mode") if f"security.{name}" in most]
    if ours.syscalls_file is None or not words:
        return []
    if ours.syscalls_file != most.get("security.syscalls_file"):
        wrong, word = "syscalls_file", "syscalls_file" if "syscalls_file" in words else words[0]
    elif ours.syscalls_mode != most.get("security.syscalls_mode", "add"):
        wrong, word = "syscalls_mode", "syscalls_mode" if "syscalls_mode" in words else "syscalls_file"
    else:
        return []
    value = getattr(ours, wrong)
    return [_problem(f"security.{wrong}", value, f"{value!r} is not allowed", ceiling, f"security.{word}")]


def _problem(field: str, ours: Any, reason: str, ceiling: Ceiling, bound: str) -> FieldProblem:
    reason = f"{reason}: the ceiling has {bound} = {_plain(ceiling.fields[bound])!r}"
    return FieldProblem(field, repr(_plain(ours)), reason, f"ceiling {ceiling.name}")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _changed(policy: Policy, changes: Mapping[str, Any], ceiling: Ceiling) -> Policy:
    """Return the policy with some fields changed, and validate it again, since fields may depend on one another."""
    data = policy.model_dump()
    for path, value in changes.items():
        part, _, field = path.rpartition(".")
        (data[part] if part else data)[field] = value
    return _parsed(data, f"ceiling {ceiling.name}")


def _parsed(data: Mapping[str, Any], origin: str) -> Policy:
    try:
        return Policy.parse(data)
    except PolicyError as error:
        raise PolicyError([FieldProblem(p.field, p.value, p.reason, origin) for p in error.problems]) from None
