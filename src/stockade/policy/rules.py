"""How each field of a policy is merged, and how it is held under a ceiling: one line for each, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stockade.policy import stricter

TakeStricter = Callable[[Any, Any, Any], Any]
"""A field's value, the ceiling's, and the whole policy that the first is from, to the stricter value.

Raises ``ValueError`` with the reason where the ceiling forbids the value and nothing sensible lies between the two.
"""


class Written(Enum):
    """How a value is written as one text, as environment variables have it."""

    TEXT = "text"
    NUMBER = "a whole number"
    FLAG = "true or false"
    LIST = "items with ':' between them"


@dataclass(frozen=True)
class Rule:
    """One field. Of two layers that set it the later wins, whole; with ``by_key``, key by key."""

    take_stricter: TakeStricter
    written: Written = Written.TEXT
    by_key: bool = False
    optional: bool = False
    """Whether ``None`` stands for unset, which inherits."""


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
    "network": Rule(stricter.first_of("none", "host")),
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
    "commands.allow": Rule(stricter.commands, _LIST, optional=True),
    "commands.refuse": Rule(stricter.union, _LIST),
    "isolation": Rule(stricter.isolation, optional=True),
    "on_output": Rule(stricter.first_of("kill", "truncate")),
    "accept": Rule(stricter.accept, by_key=True),
}
"""A field that is not here can neither be merged nor held under a ceiling; a test names it."""

PARTS = tuple(dict.fromkeys(path.partition(".")[0] for path in RULES if "." in path))
"""The fields of a policy that have fields of their own."""
