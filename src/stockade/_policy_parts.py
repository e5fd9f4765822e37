"""The parts of a policy, from limits to languages. Each refuses what makes no sense in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from stockade import _capabilities, _commands
from stockade._frozen import FrozenDict
from stockade._guarantees import Guarantee
from stockade._profiles import DEFAULT_HIDDEN, DEFAULT_LIMITS
from stockade._units import (
    UNLIMITED,
    format_size,
    parse_cores,
    parse_count,
    parse_operations,
    parse_seconds,
    parse_size,
)

Unlimited = Literal["unlimited"]

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Places that a sandbox makes for itself; a folder of the host cannot stand there.
_RESERVED = ("/proc", "/dev", "/sys", "/job")


class Part(BaseModel):
    """What every part has in common: frozen, strict, and nothing unknown in it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _at_least(least: float, words: str) -> AfterValidator:
    def check(value: Any) -> Any:
        if value != UNLIMITED and value < least:
            raise ValueError(f"must be at least {words}")
        return value

    return AfterValidator(check)


def _limit(name: str, description: str) -> Any:
    figure = DEFAULT_LIMITS[name]
    return Field(default=UNLIMITED if figure is None else figure, description=description)


def _written(kind: str, *examples: str | float) -> WithJsonSchema:
    schema: dict[str, Any] = {"anyOf": [{"type": kind, "minimum": 0}, {"type": "string"}]}
    return WithJsonSchema(schema | {"examples": [*examples, UNLIMITED]})


def _below_memory(value: Any, info: ValidationInfo) -> Any:
    memory = info.data.get("memory", UNLIMITED)
    if UNLIMITED not in (value, memory) and value >= memory:
        raise ValueError(f"must be below limits.memory, {format_size(memory)}: there the run is ended")
    return value


_Size = Annotated[int | Unlimited, BeforeValidator(parse_size), _written("integer", "64MiB", 65536)]
_Count = Annotated[int | Unlimited, BeforeValidator(parse_count), _written("integer", 10)]
_Operations = Annotated[int | Unlimited, BeforeValidator(parse_operations), _written("integer", 1_000_000)]
_Seconds = Annotated[float | Unlimited, BeforeValidator(parse_seconds), _written("number", "1.5s", 2)]
_Cores = Annotated[float | Unlimited, BeforeValidator(parse_cores), _written("number", 0.5)]


class Limits(Part):
    """How much of each resource the whole tree of processes may use. Unset means the default profile."""

    cpu_time: Annotated[_Seconds, _at_least(0.01, "10 ms")] = _limit(
        "cpu_time", "CPU seconds of the whole tree of processes"
    )
    cpu_rate: Annotated[_Cores, _at_least(0.01, "0.01 cores")] = _limit(
        "cpu_rate", "cores that the tree may use at a time"
    )
    wall_time: Annotated[_Seconds, _at_least(0.01, "10 ms")] = _limit(
        "wall_time", "seconds on the clock from the start of the program"
    )
    memory: Annotated[_Size, _at_least(4 * 2**20, "4 MiB: a process needs as much to start")] = _limit(
        "memory", "bytes of memory of the whole tree, files in memory included"
    )
    swap: _Size = _limit("swap", "bytes of swap beside the memory")
    processes: Annotated[_Count, _at_least(1, "1")] = _limit(
        "processes", "processes and threads at a time, the program's own first one included"
    )
    open_files: Annotated[_Count, _at_least(4, "4: three are standard input and output")] = _limit(
        "open_files", "file descriptors a process may have open"
    )
    file_size: _Size = _limit("file_size", "bytes of the largest file that may be written")
    disk: Annotated[_Size, _at_least(2**16, "64 KiB")] = _limit(
        "disk", "bytes in all writable places that the sandbox makes, taken together"
    )
    output: _Size = _limit("output", "bytes kept of standard output, and as many of standard error")
    operations: Annotated[_Operations, _at_least(1, "1")] = _limit(
        "operations", "lines and turns of loops of the job's own code, in Python and Ruby"
    )
    stack: Annotated[_Size, _at_least(2**16, "64 KiB")] = _limit("stack", "bytes of the main thread's stack")
    soft_memory: Annotated[_Size, _at_least(2**16, "64 KiB"), AfterValidator(_below_memory)] = Field(
        default=UNLIMITED,
        description="bytes of memory of the whole tree, below 'memory', past which the run is told of and goes on",
    )
    address_space: Annotated[_Size, _at_least(2**24, "16 MiB: a process maps as much to start")] = Field(
        default=UNLIMITED,
        description="bytes of address space of each process (RLIMIT_AS), used or not; breaks what reserves much and "
        "uses little: V8, the JVM, Go, wasm engines",
    )
    data: Annotated[_Size, _at_least(2**22, "4 MiB: a process needs as much to start")] = Field(
        default=UNLIMITED,
        description="bytes of private writable memory of each process (RLIMIT_DATA): heap, mappings, threads' stacks",
    )

    io_read: Annotated[_Size, _at_least(2**16, "64 KiB a second")] = Field(
        default=UNLIMITED, description="bytes a second that the tree may read from each disk, past the page cache"
    )

    def figure(self, guarantee: Guarantee) -> float | None:
        """Return the figure of one limit, ``None`` where it was lifted with ``"unlimited"``."""
        value = getattr(self, guarantee.value)
        return None if value == UNLIMITED else value

    @property
    def soft(self) -> int | None:
        """Bytes past which the run is told of, ``None`` where that was not asked for."""
        return None if self.soft_memory == UNLIMITED else self.soft_memory


def host_path(value: str) -> str:
    """Return a path of the host as an absolute one; raise ``ValueError`` if a sandbox cannot show it."""
    text = os.fspath(value)
    if not text or "\0" in text:
        raise ValueError("a path must not be empty or hold a NUL byte")
    parts = text.split("/")
    if text.startswith("/") and ".." in parts:
        raise ValueError("an absolute path must be written without '..'")
    if os.path.normpath(text).startswith(".."):
        raise ValueError("leads out of the current folder by '..'; write the absolute path if that is meant")
    path = os.path.normpath(Path.cwd() / text)
    if path == "/":
        raise ValueError("the whole root is too broad; name the folders that are needed")
    for place in _RESERVED:
        if path == place or path.startswith(place + "/"):
            raise ValueError(f"{place} is made afresh in every sandbox")
    return path


def _text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, Path) else value


def _paths(value: Any) -> Any:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ValueError("expected a list of paths")
    return tuple(map(_text, value))


_PathText = Annotated[str, BeforeValidator(_text), AfterValidator(host_path)]
_Paths = Annotated[tuple[_PathText, ...], BeforeValidator(_paths)]


def _workspace(value: Any) -> Any:
    return value if value == "empty" else host_path(_text(value))


def _relative(value: str) -> str:
    if not value or "\0" in value or value.startswith("/") or {"", ".", ".."} & set(value.rstrip("/").split("/")):
        raise ValueError("a name in the workspace is relative, and has no '.' or '..' in it")
    return value.rstrip("/")


_Names = Annotated[
    tuple[Annotated[str, AfterValidator(_relative)], ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]


class Filesystem(Part):
    """Files of the host that the run may see. Nothing is visible but these and the system's own programs."""

    read: _Paths = Field(default=(), description="files and folders to read, each at its own place")
    write: _Paths = Field(default=(), description="files and folders to read and write, each at its own place")
    workspace: Annotated[str, BeforeValidator(_workspace)] = Field(
        default="empty",
        description="'empty' (a fresh folder, gone after the run), or a folder of the host to start in: "
        "read-only unless it lies in 'write'",
    )
    access: Literal["read", "overlay", "copy", "write"] | None = Field(
        default=None,
        description="what the guest may do in the workspace: 'read'; 'write' for real; 'overlay': what it writes is "
        "kept apart until it is committed; 'copy': it writes to a copy; unset: 'write' in an empty one, 'read' in "
        "a folder of the host; an empty one can be written with all but 'read'",
    )
    protected: _Names = Field(
        default=(), description="paths in the workspace that stay read-only, whatever its access: '.git/hooks'"
    )
    hidden: _Names = Field(
        default=DEFAULT_HIDDEN,
        description="patterns of names that the guest never sees in a workspace of the host, at any depth, unless "
        "'read' or 'write' names the path",
    )

    @property
    def way(self) -> Literal["read", "overlay", "copy", "write"]:
        """What the guest may do in the workspace, where that is not said either. An empty one is its own in any case:
        nothing of it lasts."""
        if self.workspace == "empty":
            return "read" if self.access == "read" else "write"
        return self.access or ("write" if self.workspace in self.write else "read")

    @property
    def writable(self) -> tuple[str, ...]:
        """The paths of the host that are written for real."""
        bound = self.way == "write" and self.workspace not in ("empty", *self.write)
        return (*self.write, self.workspace) if bound else self.write

    @property
    def kept(self) -> tuple[str, ...]:
        """What is protected in a folder of the host; in an empty workspace there is nothing to protect."""
        return () if self.workspace == "empty" else self.protected

    @model_validator(mode="after")
    def _agrees(self) -> Filesystem:
        if self.workspace in self.write and self.access not in (None, "write"):
            raise ValueError(f"the workspace is among 'write', for real, and access={self.access!r} says otherwise")
        return self


def _env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("not a name of an environment variable (letters, digits and _, no digit first)")
    return value


def _env_value(value: str) -> str:
    if "\0" in value:
        raise ValueError("a value must not hold a NUL byte")
    return value


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def frozen(value: dict[Any, Any]) -> dict[Any, Any]:
    """Return the mapping, unchangeable."""
    return FrozenDict(value)


_EnvName = Annotated[str, AfterValidator(_env_name)]
_EnvValue = Annotated[str, AfterValidator(_env_value)]
_EnvNames = Annotated[tuple[_EnvName, ...], BeforeValidator(_tuple)]
_EnvTable = Annotated[dict[_EnvName, _EnvValue], AfterValidator(frozen)]


class Environment(Part):
    """Environment variables of the guest. Nothing of the host's is there unless it is named."""

    inherit: _EnvNames = Field(default=(), description="names taken over from the caller's environment")
    set: _EnvTable = Field(default_factory=FrozenDict, description="names and values to set")


def _kept(value: str) -> str:
    refusal = _capabilities.refusal(value)
    if refusal:
        raise ValueError(refusal)
    return value


def _once(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value))


_Capabilities = Annotated[
    tuple[Annotated[str, AfterValidator(_kept)], ...], BeforeValidator(_tuple), AfterValidator(_once)
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
    return os.path.normpath(Path.cwd() / text)


def _mode(value: str, info: ValidationInfo) -> str:
    if value == "replace" and info.data.get("syscalls_file", "") is None:
        raise ValueError("there is nothing in its place: syscalls_file is not set")
    return value


class Security(Part):
    """Who the guest is and what it may become."""

    capabilities: _Capabilities = Field(
        default=(),
        description="Linux capabilities that the guest keeps the use of: none, or CAP_NET_BIND_SERVICE (ports below "
        "1024 of its own network)",
    )
    uid: int = Field(default=1000, ge=0, le=65533, description="user and group id as the guest sees itself")
    host_uid: int | None = Field(
        default=None,
        ge=1,
        lt=2**32 - 1,
        description="the host's uid and gid behind it when root starts the run, never 0; unset: one leased "
        "for this run from STOCKADE_UID_RANGE",
    )
    syscalls: Literal["tight", "standard", "permissive"] = Field(
        default="standard",
        description="which system calls the kernel takes: 'standard' runs ordinary programs, 'tight' one process "
        "without a network, 'permissive' also what makes sandboxes of its own",
    )
    syscalls_file: Annotated[str | None, BeforeValidator(_profile)] = Field(
        default=None, description="a filter of your own in Docker's JSON form, read once for each plan"
    )
    syscalls_mode: Annotated[Literal["add", "replace"], AfterValidator(_mode)] = Field(
        default="add",
        description="'add': what that file allows is allowed beside what 'syscalls' allows; 'replace': the file "
        "decides alone",
    )
    explain_denials: bool = Field(
        default=False, description="name the system calls that the filter refuses, in 'denials' of the result"
    )
    read_only_root: bool = Field(default=True, description="only the workspace, /tmp and /dev/shm are writable")
    no_new_privileges: Annotated[bool, AfterValidator(_always)] = Field(
        default=True, description="set-user-id and file capabilities have no effect"
    )


def _pattern(value: str) -> str:
    _commands.words_of(value)
    return value


_Patterns = Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], BeforeValidator(_tuple)]


class Commands(Part):
    """Which commands may be passed on: a first filter, not a wall, since a program that is allowed may run others."""

    allow: _Patterns | None = Field(
        default=None,
        description="patterns on the words of a command, one of which must match: 'git status', 'git log *' (a '*' as "
        "the last word stands for any more); unset: any command, empty: none",
    )
    refuse: _Patterns = Field(default=(), description="patterns of commands to refuse, even if they are allowed")


class Languages(Part):
    """What interpreters bound by themselves: help for code that means well, and no guarantee."""

    regexp_timeout: Annotated[_Seconds, _at_least(0.001, "1 ms")] = Field(
        default=UNLIMITED, description="seconds that one match of a regular expression may take, in Ruby 3.2 or newer"
    )

    @property
    def seconds(self) -> float | None:
        """The figure of ``regexp_timeout``, ``None`` where it is unlimited."""
        return None if self.regexp_timeout == UNLIMITED else self.regexp_timeout
