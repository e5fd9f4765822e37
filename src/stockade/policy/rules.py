"""Rules for merging each field of a policy and for bounding it by a ceiling: one table, one line for each field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from stockade.core.dataclass import dataclass
from stockade.policy import stricter

TakeStricter = Callable[[Any, Any, Any], Any]
"""A function from a field's value, the ceiling's value and the whole policy to the stricter value.

It raises ``ValueError`` with the reason if the ceiling forbids the value and no stricter value makes sense.
"""


class Written(Enum):
    """The notation of a value in one text, such as an environment variable."""

    TEXT = "text"
    NUMBER = "a whole number"
    FLAG = "true or false"
    LIST = "items with ':' between them"


@dataclass(frozen=True)
class Rule:
    """The rule of a field. The later of two layers wins: the whole value, or with ``by_key``, key by key."""

    take_stricter: TakeStricter
    written: Written = Written.TEXT
    by_key: bool = False
    optional: bool = False
    """Whether ``None`` means unset, so that the value is inherited."""


_LIMIT = Rule(stricter.smaller)
_LIST = Written.LIST

RULES: Mapping[str, Rule] = {
    "limits.cpu_time": _LIMIT,
    "limits.cpu_rate": _LIMIT,
    "limits.wall_time": _LIMIT,
    "limits.memory": _LIMIT,
    "limits.swap": _LIMIT,
    "limits.processes": _LIMIT,
    "limits.open_files": _LIMIT,
    "limits.file_size": _LIMIT,
    "limits.disk": _LIMIT,
    "limits.output": _LIMIT,
    "limits.operations": _LIMIT,
    "limits.stack": _LIMIT,
    "limits.soft_memory": Rule(stricter.below_memory),
    "limits.address_space": _LIMIT,
    "limits.data": _LIMIT,
    "limits.io_read": _LIMIT,
    "filesystem.read": Rule(stricter.with_others, _LIST),
    "filesystem.write": Rule(stricter.paths, _LIST),
    "filesystem.workspace": Rule(stricter.workspace),
    "filesystem.access": Rule(stricter.access, optional=True),
    "filesystem.protected": Rule(stricter.union, _LIST),
    "filesystem.hidden": Rule(stricter.union, _LIST),
    "filesystem.sockets": Rule(stricter.first_of("closed", "open")),
    "network": Rule(stricter.network),
    "environment.inherit": Rule(stricter.subset, _LIST),
    "environment.set": Rule(stricter.no_ceiling, by_key=True),
    "security.capabilities": Rule(stricter.subset, _LIST),
    "security.uid": Rule(stricter.imposed, Written.NUMBER),
    "security.host_uid": Rule(stricter.same_or_unset, Written.NUMBER, optional=True),
    "security.syscalls": Rule(stricter.first_of("tight", "standard", "permissive")),
    "security.syscalls_file": Rule(stricter.with_others, optional=True),
    "security.syscalls_mode": Rule(stricter.with_others),
    "security.explain_denials": Rule(stricter.first_of(False, True), Written.FLAG),
    "security.read_only_root": Rule(stricter.first_of(True, False), Written.FLAG),
    "security.no_new_privileges": Rule(stricter.first_of(True, False), Written.FLAG),
    "languages.regexp_timeout": _LIMIT,
    "languages.heap_objects": _LIMIT,
    "languages.frames": _LIMIT,
    "languages.symbols": _LIMIT,
    "languages.value_bytes": _LIMIT,
    "languages.older_ruby": Rule(stricter.first_of("refuse", "run")),
    "commands.allow": Rule(stricter.commands, _LIST, optional=True),
    "commands.refuse": Rule(stricter.union, _LIST),
    "isolation": Rule(stricter.isolation, optional=True),
    "on_output": Rule(stricter.first_of("kill", "truncate")),
    "accept": Rule(stricter.accept, by_key=True),
}
"""A field without a rule can neither be merged nor bounded; a test reports it."""

PARTS = tuple(dict.fromkeys(path.partition(".")[0] for path in RULES if "." in path))
"""The fields of a policy that contain fields."""
