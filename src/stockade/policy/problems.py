"""Mistakes in a policy, from pydantic's errors to sentences that name the field, the value and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from stockade.core.errors import FieldProblem, PolicyError, nearest
from stockade.policy.parts import Network

_NO_NAMES = ("int", "float", "literal['unlimited']", "[key]", "[word]", "[table]")
"""Parts of pydantic's locations that are not names of fields."""
_NETWORKS = "expected 'none', 'host', or a stockade.Network such as Network(allow=['packages.example.org:443'])"


def problems(error: ValidationError, place: Sequence[str] = ()) -> PolicyError:
    """Return the error of stockade for pydantic's. ``place`` is the field that holds what was validated."""
    return PolicyError([_problem(item, tuple(place)) for item in error.errors()])


def _problem(item: Any, place: tuple[str, ...]) -> FieldProblem:
    where = (*place, *item["loc"])
    field = ".".join(str(part) for part in where if part not in _NO_NAMES)
    reason = item["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    if item["type"] == "extra_forbidden":
        reason = "there is no such field" + _meant(where)
    elif field == "network" and item["type"] == "literal_error":
        reason = _NETWORKS
    elif item["type"] == "tuple_type":
        reason = "expected a list"
    elif item["type"] in ("model_type", "dict_type"):
        reason = "expected a table of fields"
    value = repr(item["input"])
    return FieldProblem(field, value if len(value) <= 80 else value[:77] + "...", reason)


def _meant(place: Sequence[Any]) -> str:
    """Return a hint with the probable field: the same name elsewhere, or a similar name, in the same table first."""
    from stockade.policy.rules import PARTS, RULES

    *inside, last = map(str, place)
    if inside == ["environment"]:
        return f"; variables are a table of their own: environment = {{'set': {{{last!r}: ...}}}}"
    table = ".".join(inside)
    names = {path.rpartition(".")[2]: path for path in (*RULES, *PARTS)}
    own = {name: name for name, path in names.items() if path.rpartition(".")[0] == table}
    if "network" in inside:
        own, names = {name: name for name in Network.model_fields}, {}
    meant = names.get(last) or own.get(nearest(last, own)) or names.get(nearest(last, names))
    return f"; did you mean {meant!r}?" if meant else ""
