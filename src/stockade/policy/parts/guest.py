"""The guest's environment and rights, and the commands that callers may run."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from stockade.core.frozen import FrozenDict
from stockade.policy import capabilities as _capabilities
from stockade.policy import commands
from stockade.policy.parts.base import Part, as_tuple, frozen
from stockade.policy.parts.filesystem import absolute

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("not the name of an environment variable (letters, digits and _, no digit first)")
    return value


def _env_value(value: str) -> str:
    if "\0" in value:
        raise ValueError("a value must not hold a NUL byte")
    return value


_EnvName = Annotated[str, AfterValidator(_env_name)]
_EnvValue = Annotated[str, AfterValidator(_env_value)]
_EnvNames = Annotated[tuple[_EnvName, ...], BeforeValidator(as_tuple)]
_EnvTable = Annotated[dict[_EnvName, _EnvValue], AfterValidator(frozen)]


class Environment(Part):
    """Environment variables of the guest. A variable of the host is present only if it is named."""

    inherit: _EnvNames = Field(default=(), description="names of variables to copy from the caller's environment")
    set: _EnvTable = Field(default_factory=FrozenDict, description="variables to set, by name")


def _kept(value: str) -> str:
    refusal = _capabilities.refusal(value)
    if refusal:
        raise ValueError(refusal)
    return value


def _once(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value))


_Capabilities = Annotated[
    tuple[Annotated[str, AfterValidator(_kept)], ...], BeforeValidator(as_tuple), AfterValidator(_once)
]


def _always(value: bool) -> bool:
    if not value:
        raise ValueError("cannot be turned off: a set-user-id program would undo the sandbox")
    return value


def _profile(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        raise ValueError("expected a path")
    text = str(os.fspath(value))
    if not text or "\0" in text:
        raise ValueError("a path must not be empty or hold a NUL byte")
    return absolute(text)


def _mode(value: str, info: ValidationInfo) -> str:
    if value == "replace" and info.data.get("syscalls_file", "") is None:
        raise ValueError("'replace' needs a file: syscalls_file is not set")
    return value


class Security(Part):
    """Identity and privileges of the guest."""

    capabilities: _Capabilities = Field(
        default=(),
        description="Linux capabilities that the guest may use: none, or CAP_NET_BIND_SERVICE (ports below "
        "1024 of its own network)",
    )
    uid: int = Field(default=1000, ge=0, le=65533, description="user and group id that the guest sees as its own")
    host_uid: int | None = Field(
        default=None,
        ge=1,
        lt=2**32 - 1,
        description="the guest's uid and gid on the host when root starts the run, never 0; unset: one leased "
        "for this run from STOCKADE_UID_RANGE",
    )
    syscalls: Literal["tight", "standard", "permissive"] = Field(
        default="standard",
        description="system calls that the kernel allows: 'standard' for ordinary programs, 'tight' for one process "
        "without a network, 'permissive' also for programs that build sandboxes",
    )
    syscalls_file: Annotated[str | None, BeforeValidator(_profile)] = Field(
        default=None, description="a custom filter in Docker's JSON format, read once for each plan"
    )
    syscalls_mode: Annotated[Literal["add", "replace"], AfterValidator(_mode)] = Field(
        default="add",
        description="'add': the file's calls are allowed in addition to those of 'syscalls'; 'replace': the file "
        "alone decides",
    )
    explain_denials: bool = Field(
        default=False, description="list the system calls that the filter refuses, in 'denials' of the result"
    )
    read_only_root: bool = Field(default=True, description="only the workspace, /tmp and /dev/shm are writable")
    no_new_privileges: Annotated[bool, AfterValidator(_always)] = Field(
        default=True, description="set-user-id and file capabilities have no effect"
    )


def _pattern(value: str) -> str:
    commands.split_pattern(value)
    return value


_Patterns = Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], BeforeValidator(as_tuple)]


class Commands(Part):
    """Commands that callers may run: a first filter, not a wall, since an allowed program may run others."""

    allow: _Patterns | None = Field(
        default=None,
        description="patterns of allowed commands; one must match: 'git status', 'git log *' (a '*' as "
        "the last word stands for any further words); unset: any command, empty: none",
    )
    refuse: _Patterns = Field(default=(), description="patterns of commands to refuse, even if they are allowed")
