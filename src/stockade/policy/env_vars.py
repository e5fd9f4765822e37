"""Environment variables that set fields of a policy, each named by one rule. Pure functions.

``limits.memory`` is STOCKADE_LIMIT_MEMORY. Any other field is STOCKADE_ and its name, with ``_`` for the dot:
STOCKADE_NETWORK, STOCKADE_FILESYSTEM_READ, STOCKADE_ACCEPT_SWAP. ``:`` separates the items of a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stockade.core.errors import FieldProblem, PolicyError, nearest
from stockade.policy.merge import Layer, nested
from stockade.policy.rules import RULES, Written

_PREFIX = "STOCKADE_"
PROFILE = "STOCKADE_PROFILE"
POLICY = "STOCKADE_POLICY"
OTHERS = (
    "STOCKADE_UID_RANGE",  # linux/uids.py
    "STOCKADE_AUDIT",  # cli/audit.py
    "STOCKADE_API_KEY",  # service/client.py
    "STOCKADE_GATEWAY",  # runs/secret.py: set in a guest, which may use stockade itself
    "STOCKADE_SLOWER",  # testing/base.py
    "STOCKADE_MUST_RUN", "STOCKADE_SOAK", "STOCKADE_STREAM_BYTES", "STOCKADE_PYTHONS", "STOCKADE_WHOLE",
    "STOCKADE_PASS", "STOCKADE_HOSTS_CACHE",  # of the project's own tests
)  # fmt: skip
"""Variables that set no field. Any other name that is not a field's variable is an error, and nothing runs."""

_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def name_of(path: str) -> str:
    """Return the variable of the field ``path``. A field with keys has its key appended to the name."""
    return _PREFIX + path.replace("limits.", "limit.").replace(".", "_").upper()


def layers(variables: Mapping[str, str]) -> list[Layer]:
    """Return a layer for each variable of stockade that is set, even to an empty text.

    Raises ``PolicyError`` for an unknown name that begins with ``STOCKADE_``.
    """
    fields = {name_of(path): path for path in RULES if not RULES[path].by_key}
    found, problems = [], []
    for name in sorted(name for name in variables if name.startswith(_PREFIX)):
        if name in (PROFILE, POLICY, *OTHERS):
            continue
        path, key = (fields[name], "") if name in fields else _by_key(name)
        if not path:
            problems.append(
                FieldProblem(name, repr(variables[name]), f"there is no such variable{_meant(name, fields)}")
            )
            continue
        try:
            value = {key: variables[name]} if key else _value(variables[name], RULES[path].written)
            found.append(Layer(f"environment {name}", nested(path, value)))
        except ValueError as error:
            problems.append(FieldProblem(path, repr(variables[name]), str(error), f"environment {name}"))
    if problems:
        raise PolicyError(problems)
    return found


def _by_key(name: str) -> tuple[str, str]:
    """Return a field with keys, and the key: guarantees in lower case, variables unchanged."""
    for path in (path for path in RULES if RULES[path].by_key):
        start = name_of(path) + "_"
        if name.startswith(start) and name != start:
            key = name.removeprefix(start)
            return path, key.lower() if path == "accept" else key
    return "", ""


def _value(text: str, written: Written) -> Any:
    if written is Written.LIST:
        return [item for item in text.split(":") if item]
    if written is Written.FLAG:
        if text.lower() not in _FLAGS:
            raise ValueError(f"expected one of {', '.join(_FLAGS)}")
        return _FLAGS[text.lower()]
    if written is Written.NUMBER:
        if not (text.isascii() and text.isdigit()):
            raise ValueError("expected a whole number")
        return int(text)
    return text


def _meant(name: str, fields: Mapping[str, str]) -> str:
    near = nearest(name.removeprefix(_PREFIX), (known.removeprefix(_PREFIX) for known in (*fields, PROFILE, POLICY)))
    ends = [known for known in fields if known.endswith("_" + name.removeprefix(_PREFIX))]
    meant = ends[0] if ends else _PREFIX + near if near else ""
    return f"; did you mean {meant}?" if meant else "; 'stockade policy show --help' shows how they are named"


def described() -> Iterator[tuple[str, str]]:
    """Yield each field and the name of its variable."""
    for path, rule in RULES.items():
        yield path, name_of(path) + ("_NAME" if rule.by_key else "")
