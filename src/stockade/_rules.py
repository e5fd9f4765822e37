"""How each field of a policy is merged, and how it is held under a ceiling: one line for each, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stockade import _meet

Meet = Callable[[Any, Any, Any], Any]
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

    meet: Meet
    written: Written = Written.TEXT
    by_key: bool = False
    optional: bool = False
    """Whether ``None`` stands for unset, which inherits."""


_LIMIT = Rule(_meet.smaller)
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
    "limits.soft_memory": Rule(_meet.below_memory),
    "limits.address_space": _LIMIT,
    "limits.data": _LIMIT,
    "limits.io_read": _LIMIT,
    "filesystem.read": Rule(_meet.with_others, _LIST),
    "filesystem.write": Rule(_meet.paths, _LIST),
    "filesystem.workspace": Rule(_meet.workspace),
    "filesystem.access": Rule(_meet.access, optional=True),
    "filesystem.protected": Rule(_meet.union, _LIST),
    "filesystem.hidden": Rule(_meet.union, _LIST),
    "filesystem.sockets": Rule(_meet.first_of("closed", "open")),
    "network": Rule(_meet.first_of("none", "host")),
    "environment.inherit": Rule(_meet.subset, _LIST),
    "environment.set": Rule(_meet.no_ceiling, by_key=True),
    "security.capabilities": Rule(_meet.subset, _LIST),
    "security.uid": Rule(_meet.imposed, Written.NUMBER),
    "security.host_uid": Rule(_meet.same_or_unset, Written.NUMBER, optional=True),
    "security.syscalls": Rule(_meet.first_of("tight", "standard", "permissive")),
    "security.syscalls_file": Rule(_meet.with_others, optional=True),
    "security.syscalls_mode": Rule(_meet.with_others),
    "security.explain_denials": Rule(_meet.first_of(False, True), Written.FLAG),
    "security.read_only_root": Rule(_meet.first_of(True, False), Written.FLAG),
    "security.no_new_privileges": Rule(_meet.first_of(True, False), Written.FLAG),
    "languages.regexp_timeout": _LIMIT,
    "commands.allow": Rule(_meet.commands, _LIST, optional=True),
    "commands.refuse": Rule(_meet.union, _LIST),
    "isolation": Rule(_meet.isolation, optional=True),
    "on_output": Rule(_meet.first_of("kill", "truncate")),
    "accept": Rule(_meet.accept, by_key=True),
}
"""A field that is not here can neither be merged nor held under a ceiling; a test names it."""

PARTS = tuple(dict.fromkeys(path.partition(".")[0] for path in RULES if "." in path))
"""The fields of a policy that have fields of their own."""
